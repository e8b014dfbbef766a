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
    uint32_t count;                   /* parts, at least 1 */
    weft_stride part[WEFT_BOX_PARTS]; /* parts, the outermost first; neighbours that are one part are joined */
} weft_box_index;

typedef struct weft_box {
    uint64_t row;     /* first row, counted in the tensor */
    uint64_t rows;    /* number of rows, at least 1 */
    uint64_t column;  /* first coded element, counted in the row */
    uint64_t columns; /* coded elements of each row, at least 1 */
    uint64_t all;     /* coded elements of a row of the tensor */
    uint64_t reach;   /* row after the last one that this box, or an earlier box of its tensor, has */
    uint8_t *data;    /* address of the first element */
    uint8_t width;    /* bytes of a coded element in memory */
    weft_cast cast;   /* how memory is read; where it is cast, it is never written */
    weft_box_index row_at;
    weft_box_index column_at;
    uint64_t side; /* columns that lie side by side, from each multiple of this number on */
} weft_box;

/* All boxes of a binding. A tensor has either boxes, or runs that name their memory. */
typedef struct weft_boxes {
    weft_box *box;   /* boxes, in order of tensor, row and column */
    uint64_t *first; /* number of each tensor's first box; layout->count + 1 entries */
    uint64_t count;
    weft_pattern *pattern; /* memory of each block with strides: blocks that are written must not meet */
    weft_slice *slice;     /* slice of each pattern, for messages */
    uint64_t pattern_count;
} weft_boxes;

/* Elements that lie side by side. */
typedef struct weft_segment {
    uint8_t *data;
    uint64_t count;
} weft_segment;

/* Returns the bytes from the box's first row or column to another. */
static inline uint64_t weft_box_offset(const weft_box_index *at, uint64_t index)
{
    uint64_t offset = 0, left = index;
    for (uint32_t i = at->count - 1; i > 0; i--) {
        offset += left % at->part[i].extent * at->part[i].stride;
        left /= at->part[i].extent;
    }
    return offset + left * at->part[0].stride;
}

/* Counts the columns from `column` of the box on that lie side by side. */
static inline uint64_t weft_box_side(const weft_box *box, uint64_t column)
{
    const uint64_t left = box->columns - column;
    if (box->side == 1)
        return 1;
    const uint64_t side = box->side - column % box->side;
    return side < left ? side : left;
}

/* Returns the first box of a tensor that can have elements of `row` or of later rows. *end receives the end of the
 * tensor's boxes. */
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

/* Returns the coded elements of a tensor from `element` on that lie side by side. */
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

/* Tells whether a box lies in memory as its elements follow each other in the tensor. */
static inline bool weft_box_is_flat(const weft_box *box)
{
    if (box->side != box->columns || box->rows == 1)
        return box->side == box->columns;
    return box->columns == box->all && box->row_at.count == 1 && box->row_at.part[0].stride == box->all * box->width;
}

/* Returns how the memory of a block is read as elements of the row. */
static inline weft_cast weft_block_casts(const weft_dtype_row *row, const weft_block *block)
{
    return weft_cast_find(block->memory, row->dtype);
}

/* A block that was read. */
typedef struct weft_box_read {
    weft_slice slice; /* of the block */
    weft_box box;
    weft_pattern pattern;
    bool flat;      /* the block lies as its tensor does: `count` elements from `first` on lie at box.data */
    uint64_t first; /* first coded element, if the block is flat */
    uint64_t count; /* coded elements; 0: the block is empty, and nothing else is set */
} weft_box_read;

/* Reads a block from outside, and checks it.
 *
 * number  number of the block, for the text about a block that names no tensor
 * read    receives the box
 * Errors: WEFT_E_LAYOUT, WEFT_E_ARGUMENT, with tensor, box and rule. */
weft_status weft_box_take(const weft_layout *layout, const weft_block *block, uint64_t number, weft_box_read *read);

/* Proves that boxes of one tensor have every element once, and sets how far they reach. The boxes stand in order of row
 * and column. Errors: WEFT_E_LAYOUT (two boxes share an element, or no box has one: the text names the place). */
weft_status weft_boxes_cover(const weft_layout *layout, uint64_t tensor, weft_box *boxes, uint64_t count);

/* Gives boxes back; NULL is allowed. */
void weft_boxes_free(weft_boxes *boxes);

#endif
