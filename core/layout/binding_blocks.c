/* binding_blocks.c - a layout bound to blocks: boxes where strides are needed, pieces of memory where they are not.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/box.h"
#include "layout/coded_piece.h"

typedef unsigned long long ull;

/* Blocks on their way into a binding. */
typedef struct taking {
    weft_layout *layout;
    weft_box_read *reads; /* blocks that hold elements, by tensor, row and column */
    uint64_t count;
    weft_boxes *boxes;
    weft_coded_piece *pieces;
    uint64_t piece_count;
} taking;

void weft_boxes_free(weft_boxes *boxes)
{
    if (!boxes)
        return;
    weft_mem_give(boxes->slice);
    weft_mem_give(boxes->pattern);
    weft_mem_give(boxes->first);
    weft_mem_give(boxes->box);
    weft_mem_give(boxes);
}

static weft_status boxes_make(const weft_layout *layout, uint64_t count, weft_boxes **boxes)
{
    weft_boxes *made = weft_mem_take(1, sizeof *made);
    if (made) {
        made->box = weft_mem_take(count + 1, sizeof *made->box);
        made->first = weft_mem_take(layout->count + 1, sizeof *made->first);
        made->pattern = weft_mem_take(count + 1, sizeof *made->pattern);
        made->slice = weft_mem_take(count + 1, sizeof *made->slice);
    }
    if (!made || !made->box || !made->first || !made->pattern || !made->slice) {
        weft_boxes_free(made);
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu blocks", (ull)count);
    }
    *boxes = made;
    return WEFT_OK;
}

static int read_order(const void *left, const void *right)
{
    const weft_box_read *a = left, *b = right;
    return weft_slice_order(&a->slice, &b->slice);
}

static weft_status reads_take(taking *t, const weft_block *blocks, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        weft_box_read *read = &t->reads[t->count];
        const weft_status status = weft_box_take(t->layout, &blocks[i], i, read);
        if (status != WEFT_OK)
            return status;
        t->count += read->count > 0;
    }
    qsort(t->reads, t->count, sizeof *t->reads, read_order);
    return WEFT_OK;
}

/* Puts the boxes of a tensor after the boxes that are kept. */
static void boxes_put(weft_boxes *boxes, const weft_box_read *reads, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        boxes->box[boxes->count + i] = reads[i].box;
        boxes->slice[boxes->count + i] = reads[i].slice;
        boxes->pattern[boxes->count + i] = reads[i].pattern;
    }
}

static void pieces_put(taking *t, const weft_box_read *reads, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        t->pieces[t->piece_count++] =
            (weft_coded_piece){reads[i].slice.tensor, reads[i].first, reads[i].count, reads[i].box.data};
}

/* Takes all blocks of a tensor as boxes if one of them needs its strides or a cast. */
static weft_status tensor_take(taking *t, uint64_t tensor, const weft_box_read *reads, uint64_t count)
{
    weft_boxes *boxes = t->boxes;
    bool flat = true;
    for (uint64_t i = 0; i < count; i++)
        flat = flat && reads[i].flat && !reads[i].box.cast;
    boxes->first[tensor] = boxes->count;
    boxes_put(boxes, reads, count); /* the next tensor's boxes take their place if these are not kept */
    weft_status status = weft_boxes_cover(t->layout, tensor, boxes->box + boxes->count, count);
    if (status != WEFT_OK)
        return status;
    if (flat) {
        pieces_put(t, reads, count);
        return WEFT_OK;
    }
    boxes->count += count;
    t->pieces[t->piece_count++] = (weft_coded_piece){tensor, 0, t->layout->entries[tensor].coded, NULL};
    return WEFT_OK;
}

static weft_status tensors_take(taking *t)
{
    const weft_box_read *reads = t->reads;
    uint64_t left = t->count;
    for (uint64_t tensor = 0; tensor < t->layout->count; tensor++) {
        uint64_t count = 0;
        while (count < left && reads[count].slice.tensor == tensor)
            count++;
        const weft_status status = tensor_take(t, tensor, reads, count);
        if (status != WEFT_OK)
            return status;
        reads += count;
        left -= count;
    }
    t->boxes->first[t->layout->count] = t->boxes->count;
    t->boxes->pattern_count = t->boxes->count;
    return WEFT_OK;
}

static weft_status taking_fill(taking *t, weft_binding *binding)
{
    weft_binding made = {.layout = t->layout};
    weft_status status = tensors_take(t);
    if (status == WEFT_OK)
        status = weft_binding_fill(&made, t->pieces, t->piece_count);
    if (status != WEFT_OK)
        return status;
    if (t->boxes->count > 0) {
        made.boxes = t->boxes;
        t->boxes = NULL;
    }
    *binding = made;
    return WEFT_OK;
}

weft_status weft_binding_open_blocks(weft_layout *layout, const weft_block *blocks, uint64_t count,
                                     weft_binding *binding)
{
    taking t = {.layout = layout};
    if (count < UINT64_MAX - layout->count) {
        t.reads = weft_mem_take(count + 1, sizeof *t.reads);
        t.pieces = weft_mem_take(count + layout->count + 1, sizeof *t.pieces);
    }
    weft_status status =
        t.reads && t.pieces ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for %llu blocks", (ull)count);
    if (status == WEFT_OK)
        status = boxes_make(layout, count, &t.boxes);
    if (status == WEFT_OK)
        status = reads_take(&t, blocks, count);
    if (status == WEFT_OK)
        status = taking_fill(&t, binding);
    weft_boxes_free(t.boxes);
    weft_mem_give(t.pieces);
    weft_mem_give(t.reads);
    return status;
}
