/* box.h - blocks that do not lie as their tensors do: where each of their elements is.
 *
 * A *box* is a checked block in coded elements. Addresses are computed from its strides, so that what a binding keeps
 * grows with the blocks, and never with rows. The loops over elements are the backends'. */
#ifndef WEFT_CORE_BOX_H
#define WEFT_CORE_BOX_H

#include "layout/pattern.h"
#include "layout/slice.h"

#define WEFT_BOX_PARTS 4u /* of one index: three of the caller, and the two halves of a C64 */

/* How an index becomes bytes. */
typedef struct weft_box_index {
    uint64_t from;                    /* value at which the box begins, within the strides */
    uint32_t count;                   /* parts, at least 1 */
    weft_stride part[WEFT_BOX_PARTS]; /* the outermost first; neighbours that are one are joined */
} weft_box_index;

typedef struct weft_box {
    uint64_t row;     /* first, in the tensor */
    uint64_t rows;    /* at least 1 */
    uint64_t column;  /* first coded element, in the row */
    uint64_t columns; /* coded elements of each row, at least 1 */
    uint64_t all;     /* coded elements of a row of the tensor */
    uint64_t reach;   /* end of the last row that this box, or one before it of its tensor, has */
    uint8_t *data;    /* of row and column 0 of the strides */
    weft_box_index row_at;
    weft_box_index column_at;
    uint64_t side; /* columns that lie side by side, from each multiple of it in the strides on */
} weft_box;

/* All boxes of a binding. A tensor has either boxes, or runs that name their memory. */
typedef struct weft_boxes {
    weft_box *box;   /* by tensor, row and column */
    uint64_t *first; /* by tensor: its first box; layout->count + 1 entries */
    uint64_t count;
    weft_pattern *pattern;  /* one a block with strides: what is written may not meet another's */
    weft_slice *slice;      /* of each pattern, for messages */
    uint64_t pattern_count; /* 0 where patterns are proved apart already */
} weft_boxes;

/* Elements that lie side by side. */
typedef struct weft_segment {
    uint8_t *data;
    uint64_t count;
} weft_segment;

/* Bytes to an index, counted from the box's first. */
static inline uint64_t weft_box_offset(const weft_box_index *at, uint64_t index)
{
    uint64_t offset = 0, left = index + at->from;
    for (uint32_t i = at->count - 1; i > 0; i--) {
        offset += left % at->part[i].extent * at->part[i].stride;
        left /= at->part[i].extent;
    }
    return offset + left * at->part[0].stride;
}

/* Columns from `column` of the box on that lie side by side. */
static inline uint64_t weft_box_side(const weft_box *box, uint64_t column)
{
    const uint64_t left = box->columns - column;
    if (box->side == 1)
        return 1;
    const uint64_t side = box->side - (column + box->column_at.from) % box->side;
    return side < left ? side : left;
}

/* The boxes of a tensor that can have elements of a row or of rows after it: from the one returned up to *end. */
static inline const weft_box *weft_boxes_from(const weft_boxes *boxes, uint64_t tensor, uint64_t row,
                                              const weft_box **end)
{
    uint64_t low = boxes->first[tensor], high = boxes->first[tensor + 1];
    *end = boxes->box + high;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (boxes->box[middle].reach <= row)
            low = middle + 1;
        else
            high = middle;
    }
    return boxes->box + low;
}

/* The coded elements of a tensor from `element` on that lie side by side. */
static inline weft_segment weft_boxes_segment(const weft_boxes *boxes, uint64_t tensor, uint64_t element)
{
    const uint64_t all = boxes->box[boxes->first[tensor]].all, row = element / all, column = element % all;
    const weft_box *end, *box = weft_boxes_from(boxes, tensor, row, &end);
    while (row - box->row >= box->rows || column - box->column >= box->columns)
        box++;
    const uint64_t here = column - box->column;
    return (weft_segment){box->data + weft_box_offset(&box->row_at, row - box->row) +
                              weft_box_offset(&box->column_at, here),
                          weft_box_side(box, here)};
}

/* What a block comes to. */
typedef struct weft_box_read {
    weft_slice slice; /* of the block */
    weft_box box;
    weft_pattern pattern;
    bool flat; /* it lies as its tensor does: `first` and `count` elements at box.data */
    uint64_t first, count;
} weft_box_read;

/* Reads a block from outside.
 *
 * number  of the block, for a text about one that names no tensor
 * read    receives the box; of a slice without elements `count` alone, which is 0
 * Errors: WEFT_E_LAYOUT, WEFT_E_ARGUMENT, with tensor, box and rule. */
weft_status weft_box_take(const weft_layout *layout, const weft_block *block, uint64_t number, weft_box_read *read);

/* Proves that boxes of one tensor, in order of row and column, have every element once, and notes how far they reach.
 *
 * tensor, elements  number of the tensor, and its coded elements
 * Errors: WEFT_E_LAYOUT. */
weft_status weft_boxes_cover(const weft_layout *layout, uint64_t tensor, weft_box *boxes, uint64_t count);

/* Gives boxes back; NULL is allowed. */
void weft_boxes_free(weft_boxes *boxes);

#endif
