/* share_weights.c - a share file's slices, in a slice file or in new memory. */
#include "tools/share/share_weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "model/slices.h"

weft_status weft_share_weights_open(const char *path, const weft_layout *model, weft_share_weights *own)
{
    *own = (weft_share_weights){.model = weft_layout_hold((weft_layout *)(uintptr_t)model)};
    static const weft_share_rule whole = {.patterns = "*"};
    if (!path)
        return weft_share_open(own->model, &whole, 1, &own->share);
    weft_status status = weft_share_file_open(path, &own->file); /* which names the path */
    if (status != WEFT_OK)
        return status;
    status = weft_share_open(own->model, own->file.rules, own->file.count, &own->share);
    if (status != WEFT_OK)
        weft_fail_about("%s", path);
    return status;
}

/* Gives new memory the header that its slice file will have. */
static weft_status header_take(const weft_share_weights *own, weft_weights *weights)
{
    uint8_t *header = NULL;
    uint64_t bytes;
    weft_status status = weft_slices_header(&own->share, &header, &bytes);
    if (status != WEFT_OK)
        return status;
    weights->header = malloc(bytes);
    if (weights->header) {
        memcpy(weights->header, header, bytes);
        weights->header_bytes = bytes;
    }
    weft_mem_give(header);
    return weights->header ? WEFT_OK : weft_fail_quiet(WEFT_E_MEMORY, "no memory for a header");
}

static weft_status weights_take(const weft_share_weights *own, const char *path, weft_weights *weights)
{
    weft_layout *slices = NULL;
    weft_status status = weft_slices_layout(&own->share, &slices);
    if (status == WEFT_OK && path) {
        status = weft_weights_begin(path, weights);
        if (status == WEFT_OK)
            status = weft_slices_check(&(weft_slices_part){path, weights->file, &own->share, 0});
        if (status == WEFT_OK)
            status = weft_weights_fill(path, weights);
    } else if (status == WEFT_OK) {
        status = weft_weights_create(slices, weights);
        if (status == WEFT_OK)
            status = header_take(own, weights);
    }
    weft_layout_free(slices);
    return status;
}

weft_status weft_share_weights_take(weft_share_weights *own, const char *path, weft_weights *weights)
{
    uint64_t count;
    weft_status status = weights_take(own, path, weights);
    if (status != WEFT_OK)
        return status;
    own->blocks = weft_mem_take(own->share.slice_count + 1, sizeof *own->blocks);
    if (!own->blocks)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu blocks", (unsigned long long)own->share.slice_count);
    weft_slices_blocks(&own->share, weft_weights_pieces(weights, &count), own->blocks);
    return WEFT_OK;
}

void weft_share_weights_close(weft_share_weights *own)
{
    weft_mem_give(own->blocks);
    if (own->share.portions)
        weft_share_close(&own->share);
    weft_share_file_close(&own->file);
    weft_layout_free(own->model);
    *own = (weft_share_weights){0};
}
