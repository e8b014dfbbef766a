/* box_cover.c - whether the boxes of a tensor have each of its elements once. */
#include "base/status.h"
#include "layout/box.h"

typedef unsigned long long ull;

static bool columns_meet(const weft_box *a, const weft_box *b)
{
    return a->column < b->column + b->columns && b->column < a->column + a->columns;
}

/* In elements of the dtype, for messages. */
static ull column_of(const weft_layout_entry *entry, uint64_t coded)
{
    return (ull)(coded * 8 * entry->row->width / entry->row->bits);
}

static weft_status overlap(const weft_layout_entry *entry, const weft_box *a, const weft_box *b)
{
    const uint64_t column = a->column > b->column ? a->column : b->column;
    return weft_fail(WEFT_E_LAYOUT,
                     "tensor %s: two blocks hold row %llu, column %llu: that of %llu rows from %llu, and that of %llu "
                     "rows from %llu",
                     entry->tensor.name, (ull)b->row, column_of(entry, column), (ull)a->rows, (ull)a->row, (ull)b->rows,
                     (ull)b->row);
}

/* The first coded element of a row that no box has; `all` if there is none. */
static uint64_t missing_in_row(const weft_box *boxes, uint64_t count, uint64_t row)
{
    uint64_t column = 0;
    for (uint64_t i = 0; i < count; i++) {
        const weft_box *box = &boxes[i];
        if (row - box->row >= box->rows || column - box->column >= box->columns)
            continue;
        column = box->column + box->columns;
        i = UINT64_MAX; /* boxes of rows that begin later may stand further left */
    }
    return column;
}

/* The first missing element lies in row 0, or in a row where a box ends. */
static weft_status missing(const weft_layout_entry *entry, const weft_box *boxes, uint64_t count)
{
    const uint64_t all = count > 0 ? boxes->all : entry->coded;
    uint64_t row = UINT64_MAX, column = 0;
    for (uint64_t i = 0; i <= count; i++) {
        const uint64_t at = i < count ? boxes[i].row + boxes[i].rows : 0;
        const uint64_t here = at < row && at * all < entry->coded ? missing_in_row(boxes, count, at) : all;
        if (here == all)
            continue;
        row = at;
        column = here;
    }
    return weft_fail(WEFT_E_LAYOUT, "tensor %s: no block holds row %llu, column %llu", entry->tensor.name, (ull)row,
                     column_of(entry, column));
}

weft_status weft_boxes_cover(const weft_layout *layout, uint64_t tensor, weft_box *boxes, uint64_t count)
{
    const weft_layout_entry *entry = &layout->entries[tensor];
    uint64_t elements = 0, reach = 0;
    for (uint64_t i = 0; i < count; i++) {
        const weft_box *box = &boxes[i];
        for (uint64_t j = i + 1; j < count && boxes[j].row - box->row < box->rows; j++) {
            if (columns_meet(box, &boxes[j]))
                return overlap(entry, box, &boxes[j]);
        }
        elements += box->rows * box->columns;
        reach = reach > box->row + box->rows ? reach : box->row + box->rows;
        boxes[i].reach = reach;
    }
    return elements == entry->coded ? WEFT_OK : missing(entry, boxes, count);
}
