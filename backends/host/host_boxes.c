/* host_boxes.c - rows of boxes copied: segment by segment where columns lie side by side, else in blocks of rows that
 * keep to few lines of memory. */
#include "backends/host/host_boxes.h"

#include "backends/host/host_element.h"

#define LINE       64u   /* bytes */
#define AHEAD      2048u /* bytes of rows that are asked for before they are copied */
#define GROUP_MOST 32u   /* rows that are copied together, element by element */

/* Rows and columns of one box, and where they go to or come from. */
typedef struct patch {
    const weft_box *box;
    uint64_t row, rows;               /* of the box */
    uint64_t column, columns;         /* of the box */
    uint8_t *dense;                   /* of the first element */
    uint64_t pitch;                   /* bytes of a row there */
    const weft_host_kernels *kernels; /* for a cast; NULL: the box has none, because it is stored to */
} patch;

/* Bytes of the sizes that tiles have are moved without a call. */
WEFT_ALWAYS_INLINE void bytes_move(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    switch (bytes) {
    case 16:
        memcpy(to, from, 16);
        return;
    case 32:
        memcpy(to, from, 32);
        return;
    case 64:
        memcpy(to, from, 64);
        return;
    default:
        memcpy(to, from, bytes);
    }
}

WEFT_ALWAYS_INLINE void segment_move(uint8_t *dense, uint8_t *boxed, uint64_t bytes, bool store)
{
    bytes_move(store ? boxed : dense, store ? dense : boxed, bytes);
}

/* ---- columns that lie side by side */

/* One row. */
WEFT_ALWAYS_INLINE void row_move(const patch *p, uint8_t *dense, uint8_t *boxed, uint64_t width, bool store)
{
    const weft_box *box = p->box;
    for (uint64_t c = 0, side; c < p->columns; c += side) {
        side = weft_box_side(box, p->column + c);
        side = side < p->columns - c ? side : p->columns - c;
        segment_move(dense + c * width, boxed + weft_box_offset(&box->column_at, p->column + c), side * width, store);
    }
}

/* Into the second cache, because the first takes few lines at a time. */
static void lines_ask(const uint8_t *at, uint64_t bytes)
{
    for (uint64_t byte = 0; byte < bytes; byte += LINE)
        __builtin_prefetch(at + byte, 0, 1);
}

/* Rows of one segment each, a stride apart. Those to come are asked for, beyond the patch too: the CPU follows no
 * stream across the pages that lie between rows. */
WEFT_ALWAYS_INLINE void rows_stride(const patch *p, uint64_t width, bool store)
{
    const weft_box *box = p->box;
    const uint64_t stride = box->row_at.part[0].stride, bytes = p->columns * width, ahead = AHEAD / bytes + 1;
    uint8_t *boxed = box->data + weft_box_offset(&box->row_at, p->row) + weft_box_offset(&box->column_at, p->column);
    uint8_t *dense = p->dense;
    for (uint64_t r = 0; r < p->rows; r++, dense += p->pitch, boxed += stride) {
        lines_ask((const uint8_t *)((uintptr_t)boxed + ahead * stride), bytes);
        segment_move(dense, boxed, bytes, store);
    }
}

WEFT_ALWAYS_INLINE void rows_segments(const patch *p, uint64_t width, bool store)
{
    uint8_t *dense = p->dense;
    for (uint64_t r = 0; r < p->rows; r++, dense += p->pitch)
        row_move(p, dense, p->box->data + weft_box_offset(&p->box->row_at, p->row + r), width, store);
}

/* ---- elements that lie apart */

WEFT_ALWAYS_INLINE void element_move(uint8_t *dense, uint8_t *boxed, unsigned width, bool store)
{
    memcpy(store ? boxed : dense, store ? dense : boxed, width);
}

/* A group of rows, column by column: in transposed storage the elements of a column share lines. */
WEFT_ALWAYS_INLINE void group_move(const patch *p, uint64_t row, uint32_t rows, unsigned width, bool store)
{
    const weft_box *box = p->box;
    uint8_t *boxed[GROUP_MOST], *dense = p->dense + (row - p->row) * p->pitch;
    for (uint32_t r = 0; r < rows; r++)
        boxed[r] = box->data + weft_box_offset(&box->row_at, row + r);
    for (uint64_t c = 0; c < p->columns; c++, dense += width) {
        const uint64_t offset = weft_box_offset(&box->column_at, p->column + c);
        for (uint32_t r = 0; r < rows; r++)
            element_move(dense + r * p->pitch, boxed[r] + offset, width, store);
    }
}

WEFT_ALWAYS_INLINE void rows_scattered(const patch *p, unsigned width, bool store)
{
    for (uint64_t r = 0; r < p->rows; r += GROUP_MOST) {
        const uint64_t left = p->rows - r;
        group_move(p, p->row + r, left < GROUP_MOST ? (uint32_t)left : GROUP_MOST, width, store);
    }
}

WEFT_ALWAYS_INLINE void scattered_move(const patch *p, uint8_t width, bool store)
{
    switch (width) {
    case 1:
        rows_scattered(p, 1, store);
        return;
    case 2:
        rows_scattered(p, 2, store);
        return;
    case 4:
        rows_scattered(p, 4, store);
        return;
    default:
        rows_scattered(p, 8, store);
    }
}

/* ---- elements that are cast */

#define CAST_WIDTH 2u /* bytes of the dense elements */

static void row_cast(const patch *p, uint8_t *dense, const uint8_t *boxed)
{
    const weft_box *box = p->box;
    for (uint64_t c = 0, side; c < p->columns; c += side) {
        side = weft_box_side(box, p->column + c);
        side = side < p->columns - c ? side : p->columns - c;
        p->kernels->cast[box->cast](boxed + weft_box_offset(&box->column_at, p->column + c), side,
                                    dense + c * CAST_WIDTH);
    }
}

/* Whole rows that follow each other at both ends are one. */
static bool rows_follow(const patch *p)
{
    const weft_box *box = p->box;
    return box->side == box->columns && p->columns == box->columns && box->row_at.count == 1 &&
           box->row_at.part[0].stride == p->columns * box->width && p->pitch == p->columns * CAST_WIDTH;
}

static void rows_cast(const patch *p)
{
    const weft_box *box = p->box;
    uint8_t *dense = p->dense;
    if (rows_follow(p)) {
        p->kernels->cast[box->cast](box->data + weft_box_offset(&box->row_at, p->row), p->rows * p->columns, dense);
        return;
    }
    for (uint64_t r = 0; r < p->rows; r++, dense += p->pitch)
        row_cast(p, dense, box->data + weft_box_offset(&box->row_at, p->row + r));
}

/* ---- ranges */

WEFT_ALWAYS_INLINE void patch_move(const patch *p, uint8_t width, bool store)
{
    const weft_box *box = p->box;
    if (box->cast)
        rows_cast(p);
    else if (box->side == 1)
        scattered_move(p, width, store);
    else if (box->side == box->columns && box->row_at.count == 1)
        rows_stride(p, width, store);
    else
        rows_segments(p, width, store);
}

/* Takes the elements that a box has of `rows` rows from `row` on, in the columns from `column` to `end`. */
WEFT_ALWAYS_INLINE void rows_take(const weft_box *box, const weft_host_range *range, uint8_t *bytes, uint64_t row,
                                  uint64_t rows, uint64_t column, uint64_t end, bool store,
                                  const weft_host_kernels *kernels)
{
    const uint64_t top = row > box->row ? row : box->row, left = column > box->column ? column : box->column;
    const uint64_t bottom = row + rows < box->row + box->rows ? row + rows : box->row + box->rows;
    const uint64_t right = end < box->column + box->columns ? end : box->column + box->columns;
    if (top >= bottom || left >= right)
        return;
    const patch p = {box,
                     top - box->row,
                     bottom - top,
                     left - box->column,
                     right - left,
                     bytes + (top * box->all + left - range->first) * range->width,
                     box->all * range->width,
                     kernels};
    patch_move(&p, range->width, store);
}

/* A range is a part of a row, whole rows, and a part of a row. */
WEFT_ALWAYS_INLINE void range_move(const weft_boxes *boxes, const weft_host_range *range, uint8_t *bytes, bool store,
                                   const weft_host_kernels *kernels)
{
    const uint64_t all = boxes->box[boxes->first[range->tensor]].all, last = range->first + range->count - 1;
    const uint64_t row = range->first / all, column = range->first % all, last_row = last / all;
    const uint64_t end = last % all + 1, head = column > 0 || row == last_row, tail = row < last_row && end < all;
    const weft_box *stop, *box = weft_boxes_from(boxes, range->tensor, row, &stop);
    for (; box < stop && box->row <= last_row; box++) {
        if (head)
            rows_take(box, range, bytes, row, 1, column, row == last_row ? end : all, store, kernels);
        rows_take(box, range, bytes, row + head, last_row + 1 - tail - row - head, 0, all, store, kernels);
        if (tail)
            rows_take(box, range, bytes, last_row, 1, 0, end, store, kernels);
    }
}

void weft_host_rows_load(const weft_host_kernels *kernels, const weft_box *box, uint64_t row, uint64_t rows,
                         uint8_t width, uint8_t *bytes)
{
    const patch p = {box, row, rows, 0, box->columns, bytes, box->columns * width, kernels};
    if (box->cast)
        rows_cast(&p);
    else
        rows_stride(&p, width, false);
}

void weft_host_boxes_load(const weft_host_kernels *kernels, const weft_boxes *boxes, const weft_host_range *range,
                          uint8_t *bytes)
{
    range_move(boxes, range, bytes, false, kernels);
}

void weft_host_boxes_store(const weft_boxes *boxes, const weft_host_range *range, const uint8_t *bytes)
{
    range_move(boxes, range, (uint8_t *)(uintptr_t)bytes, true, NULL);
}
