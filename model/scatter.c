#include "scatter.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/layout_match.h"

typedef unsigned long long ull;

/* Places the tensors in the order of the files; `from` tells as which one each comes. */
static void place(weft_scatter *scatter, const weft_shards *shards, const uint64_t *order)
{
    uint64_t tensor = 0;
    for (uint64_t s = 0; s < shards->count; s++) {
        uint64_t offset = shards->items[s].header_bytes;
        for (uint64_t end = tensor + shards->items[s].tensors; tensor < end; tensor++) {
            const uint64_t bytes = shards->layout->entries[tensor].bytes;
            scatter->places[order[tensor]] = (weft_scatter_place){s, offset, bytes};
            offset += bytes;
        }
    }
}

/* A tensor without bytes is there when it comes. */
static void pass_whole(weft_scatter *scatter)
{
    while (scatter->at < scatter->count && scatter->done == scatter->places[scatter->at].bytes) {
        scatter->at++;
        scatter->done = 0;
    }
}

weft_status weft_scatter_open(weft_scatter *scatter, const weft_layout *layout, const weft_shards *shards)
{
    char text[WEFT_MATCH_TEXT];
    const weft_match_side files = weft_match_layout("the header", shards->layout),
                          model = weft_match_layout("the model", layout);
    uint64_t *order = weft_mem_take(shards->layout->count + 1, sizeof *order);
    *scatter = (weft_scatter){.count = layout->count, .file_count = shards->count};
    scatter->places = weft_mem_take(layout->count + 1, sizeof *scatter->places);
    scatter->files = weft_mem_take(shards->count + 1, sizeof *scatter->files);
    weft_status status = order && scatter->places && scatter->files
                             ? weft_match_by_name(&files, &model, order, text)
                             : weft_fail(WEFT_E_MEMORY, "no memory for the places of %llu tensors", (ull)layout->count);
    for (uint64_t i = 0; scatter->files && i < shards->count; i++)
        scatter->files[i].descriptor = -1;
    if (status == WEFT_OK) {
        place(scatter, shards, order);
        pass_whole(scatter);
    } else {
        weft_scatter_close(scatter);
    }
    weft_mem_give(order);
    return status;
}

weft_status weft_scatter_write(weft_scatter *scatter, const uint8_t *data, uint64_t bytes)
{
    weft_status status = WEFT_OK;
    while (bytes > 0 && status == WEFT_OK) {
        if (scatter->at == scatter->count)
            return weft_fail(WEFT_E_LAYOUT, "%llu bytes more than its tensors have", (ull)bytes);
        const weft_scatter_place *to = &scatter->places[scatter->at];
        const uint64_t left = to->bytes - scatter->done, part = bytes < left ? bytes : left;
        status = weft_file_put_at(&scatter->files[to->shard], data, part, to->offset + scatter->done);
        scatter->done += part;
        data += part;
        bytes -= part;
        pass_whole(scatter);
    }
    return status;
}

uint64_t weft_scatter_left(const weft_scatter *scatter)
{
    uint64_t left = 0;
    for (uint64_t t = scatter->at; t < scatter->count; t++)
        left += scatter->places[t].bytes;
    return left - scatter->done;
}

weft_status weft_scatter_finish(weft_scatter *scatter)
{
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < scatter->file_count && status == WEFT_OK; i++)
        status = weft_file_finish(&scatter->files[i]);
    return status;
}

void weft_scatter_close(weft_scatter *scatter)
{
    for (uint64_t i = 0; scatter->files && i < scatter->file_count; i++)
        weft_file_drop(&scatter->files[i]);
    weft_mem_give(scatter->files);
    weft_mem_give(scatter->places);
    *scatter = (weft_scatter){0};
}
