/* slices.c - portions of tensors as tensors of their own, and back. */
#include "slices.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "model.h"
#include "shard/cover.h"
#include "shard/holding.h"

typedef unsigned long long ull;

/* ---- where a portion lies in its tensor */

/* The strips of a portion: `outer` times, each range `unit` bytes a number, every `step` bytes. */
typedef struct strips {
    uint64_t outer;
    uint64_t step;
    uint64_t unit_bits;
} strips;

static strips strips_of(const weft_layout_entry *entry, const weft_portion *portion)
{
    const weft_tensor *tensor = &entry->tensor;
    strips of = {.outer = 1, .step = entry->bytes, .unit_bits = entry->row->bits};
    if (portion->rule->kind == WEFT_SHARE_WHOLE || portion->rule->kind == WEFT_SHARE_ELEMENTS)
        return of;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (d < portion->dimension)
            of.outer *= tensor->shape[d];
        else if (d > portion->dimension)
            of.unit_bits *= tensor->shape[d];
    }
    of.step = of.outer > 0 ? entry->bytes / of.outer : 0;
    return of;
}

/* Copies a portion out of its tensor, or back into it. Returns the bytes of the portion. */
static uint64_t portion_copy(const weft_layout_entry *entry, const weft_portion *portion, uint8_t *whole,
                             uint8_t *slice, bool back)
{
    const strips of = strips_of(entry, portion);
    uint64_t at = 0;
    for (uint64_t o = 0; o < of.outer; o++) {
        for (uint64_t i = 0; i < portion->range_count; i++) {
            const weft_range range = weft_portion_range(portion, i);
            const uint64_t first = o * of.step + range.first * of.unit_bits / 8, bytes = range.count * of.unit_bits / 8;
            if (bytes == 0)
                continue;
            if (back)
                memcpy(whole + first, slice + at, bytes);
            else
                memcpy(slice + at, whole + first, bytes);
            at += bytes;
        }
    }
    return at;
}

/* ---- the layout of a slice file */

/* Writes the shape that a portion has by itself. */
static void shape_make(const weft_tensor *tensor, const weft_portion *portion, weft_tensor *made, uint64_t *shape)
{
    *made = *tensor;
    made->shape = shape;
    for (uint32_t d = 0; d < tensor->rank; d++)
        shape[d] = tensor->shape[d];
    if (portion->rule->kind == WEFT_SHARE_ELEMENTS) {
        made->rank = 1;
        shape[0] = portion->only.count;
    } else if (portion->rule->kind != WEFT_SHARE_WHOLE) {
        shape[portion->dimension] = weft_portion_size(portion);
    }
}

weft_status weft_slices_layout(const weft_share *share, weft_layout **layout)
{
    const uint64_t count = share->layout->count;
    weft_tensor *tensors = weft_mem_take(count + 1, sizeof *tensors);
    uint64_t(*shapes)[WEFT_MAX_RANK] = weft_mem_take(count + 1, sizeof *shapes), used = 0;
    for (uint64_t t = 0; tensors && shapes && t < count; t++) {
        if (share->portions[t].range_count == 0)
            continue;
        shape_make(&share->layout->entries[t].tensor, &share->portions[t], &tensors[used], shapes[used]);
        used++;
    }
    weft_status status = tensors && shapes
                             ? weft_layout_create(tensors, used, layout)
                             : weft_fail(WEFT_E_MEMORY, "no memory for the layout of %llu slices", (ull)count);
    weft_mem_give(shapes);
    weft_mem_give(tensors);
    return status;
}

weft_status weft_slices_header(const weft_share *share, uint8_t **header, uint64_t *bytes)
{
    weft_layout *layout = NULL;
    weft_status status = weft_slices_layout(share, &layout);
    if (status == WEFT_OK)
        status = weft_model_header_make(layout, header, bytes);
    weft_layout_free(layout);
    return status;
}

/* Places the slices of one tensor, which are the ranges of columns side by side, or boxes of rows one after another.
 * Returns how many slices there are. */
static uint64_t portion_blocks(const weft_share *share, uint64_t first, uint8_t *data, weft_block *blocks)
{
    const uint64_t tensor = share->slices[first].tensor;
    const weft_layout_entry *entry = &share->layout->entries[tensor];
    const weft_portion *portion = &share->portions[tensor];
    const weft_share_kind kind = portion->rule->kind;
    const bool beside = (kind == WEFT_SHARE_PART || kind == WEFT_SHARE_RANGES) && entry->tensor.rank > 1 &&
                        portion->dimension + 1 == entry->tensor.rank;
    const uint64_t pitch = beside ? weft_portion_size(portion) * entry->row->bits / 8 : 0;
    uint64_t at = first, elements = 0;
    for (; at < share->slice_count && share->slices[at].tensor == tensor; at++) {
        const weft_slice *slice = &share->slices[at];
        blocks[at] = (weft_block){.slice = *slice, .data = data + elements * entry->row->bits / 8};
        if (beside)
            blocks[at].row[0] = (weft_stride){slice->rows, pitch};
        elements += beside ? slice->columns : weft_slice_elements(slice);
    }
    return at - first;
}

void weft_slices_blocks(const weft_share *share, const weft_piece *pieces, weft_block *blocks)
{
    uint64_t piece = 0, slice = 0;
    for (uint64_t t = 0; t < share->layout->count; t++) {
        if (share->portions[t].range_count == 0)
            continue;
        if (slice < share->slice_count && share->slices[slice].tensor == t)
            slice += portion_blocks(share, slice, pieces[piece].data, blocks);
        piece++;
    }
}

/* ---- saved */

static weft_status data_write(const weft_model *model, const weft_share *share, weft_model_output *output,
                              uint64_t *bytes)
{
    const weft_layout *layout = model->layout;
    weft_status status = WEFT_OK;
    *bytes = 0;
    for (uint64_t t = 0; t < layout->count && status == WEFT_OK; t++) {
        const weft_portion *portion = &share->portions[t];
        if (portion->range_count == 0)
            continue;
        uint8_t *slice = weft_mem_take(layout->entries[t].bytes + 1, 1);
        if (!slice)
            return weft_fail(WEFT_E_MEMORY, "no memory for a slice of %s", layout->entries[t].tensor.name);
        const uint64_t used = portion_copy(&layout->entries[t], portion, model->pieces[t].data, slice, false);
        status = weft_model_output_write(output, slice, used);
        weft_mem_give(slice);
        *bytes += used;
    }
    return status;
}

weft_status weft_slices_save(const weft_model *model, const weft_share *share, const char *path, uint64_t *bytes)
{
    weft_layout *layout = NULL;
    weft_model_output *output = NULL;
    uint8_t *header = NULL;
    uint64_t header_bytes;
    weft_status status = weft_slices_layout(share, &layout);
    if (status == WEFT_OK)
        status = weft_slices_header(share, &header, &header_bytes);
    if (status == WEFT_OK)
        status = weft_model_output_open(layout, header, header_bytes, path, &output);
    if (status == WEFT_OK)
        status = data_write(model, share, output, bytes);
    if (status == WEFT_OK)
        status = weft_model_output_finish(output);
    if (output)
        weft_model_output_close(output);
    weft_mem_give(header);
    weft_layout_free(layout);
    return status;
}

/* ---- joined */

static bool same_tensor(const weft_tensor *a, const weft_tensor *b)
{
    bool same = strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t d = 0; same && d < a->rank; d++)
        same = a->shape[d] == b->shape[d];
    return same;
}

/* Slice files have their tensors in the order of the model, as weft writes them. */
weft_status weft_slices_check(const weft_slices_part *part)
{
    weft_layout *wanted;
    const weft_layout *found = part->model->layout;
    weft_status status = weft_slices_layout(part->share, &wanted);
    if (status != WEFT_OK)
        return status;
    const uint64_t least = wanted->count < found->count ? wanted->count : found->count;
    for (uint64_t t = 0; t < least && status == WEFT_OK; t++) {
        if (!same_tensor(&wanted->entries[t].tensor, &found->entries[t].tensor))
            status = weft_fail(WEFT_E_LAYOUT, "%s: tensor %llu is %s, and its share says %s of another shape or dtype",
                               part->path, (ull)t, found->entries[t].tensor.name, wanted->entries[t].tensor.name);
    }
    if (status == WEFT_OK && wanted->count != found->count)
        status = weft_fail(WEFT_E_LAYOUT, "%s has %llu tensors, and its share says %llu", part->path, (ull)found->count,
                           (ull)wanted->count);
    weft_layout_free(wanted);
    return status;
}

/* Makes the entries that a share contributes. */
static weft_status contribution_make(const weft_layout *layout, const weft_cells *cells, const weft_share *share,
                                     weft_contribution *made)
{
    weft_slice *slices = weft_mem_take(share->slice_count + 1, sizeof *slices);
    weft_cell *entries;
    uint64_t used = 0;
    if (!slices)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu slices", (ull)share->slice_count);
    for (uint64_t i = 0; i < share->slice_count; i++) {
        if (share->contributed[i])
            slices[used++] = share->slices[i];
    }
    weft_status status = weft_holding_open(layout, cells, slices, used, &entries, &made->count);
    if (status == WEFT_OK)
        made->entries = entries;
    weft_mem_give(slices);
    return status;
}

weft_status weft_slices_cover(const weft_layout *layout, const weft_slices_part *parts, uint32_t count)
{
    static const bool wanted[] = {true}; /* without cuts there is one key */
    weft_cells cells = {0};
    weft_contribution *made = weft_mem_take((uint64_t)count + 1, sizeof *made);
    weft_status status = made ? weft_cells_open(layout, NULL, 0, &cells)
                              : weft_fail(WEFT_E_MEMORY, "no memory for the shares of %u files", count);
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++)
        status = contribution_make(layout, &cells, parts[i].share, &made[i]);
    if (status == WEFT_OK)
        status = weft_cover_check(layout, &cells, wanted, made, count);
    for (uint32_t i = 0; made && i < count; i++)
        weft_mem_give((weft_cell *)made[i].entries);
    weft_mem_give(made);
    weft_cells_close(&cells);
    return status;
}

/* One tensor of one part, under the guard of the part's file. */
typedef struct gather {
    const weft_layout_entry *entry;
    const weft_portion *portion;
    const weft_slices_part *part;
    uint8_t *slice, *data, *room;
} gather;

static weft_status part_take(void *user)
{
    const gather *g = user;
    if (!g->portion->rule->replica) {
        portion_copy(g->entry, g->portion, g->data, g->slice, true);
        return WEFT_OK;
    }
    const uint64_t bytes = portion_copy(g->entry, g->portion, g->data, g->room, false);
    if (memcmp(g->room, g->slice, bytes) == 0)
        return WEFT_OK;
    return weft_fail(WEFT_E_LAYOUT, "%s: its replica of %s has other bits than the share that contributes them",
                     g->part->path, g->entry->tensor.name);
}

weft_status weft_slices_gather(const weft_layout *layout, uint64_t tensor, weft_slices_part *parts, uint32_t count,
                               uint8_t *data, uint8_t *room)
{
    weft_status status = WEFT_OK;
    for (int replicas = 0; replicas < 2; replicas++) { /* because they are compared with what was contributed */
        for (uint32_t i = 0; i < count && status == WEFT_OK; i++) {
            const weft_portion *portion = &parts[i].share->portions[tensor];
            if (portion->range_count == 0 || portion->rule->replica != (replicas > 0))
                continue;
            gather g = {
                &layout->entries[tensor], portion, &parts[i], parts[i].model->pieces[parts[i].next].data, data, room};
            status = weft_model_guard(parts[i].model, part_take, &g);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        parts[i].next += parts[i].share->portions[tensor].range_count > 0;
    return status;
}
