#include "layout/slice.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

typedef unsigned long long ull;

weft_slice weft_slice_whole(const weft_layout *layout, uint64_t tensor)
{
    const weft_layout_entry *entry = &layout->entries[tensor];
    const uint32_t rank = entry->tensor.rank;
    const uint64_t columns = rank > 0 ? entry->tensor.shape[rank - 1] : 1;
    return (weft_slice){
        .tensor = tensor, .rows = entry->elements > 0 ? entry->elements / columns : 0, .columns = columns};
}

/* Returns the first number that two ranges have in common, and counts such numbers. */
static uint64_t common(uint64_t a, uint64_t a_count, uint64_t b, uint64_t b_count, uint64_t *count)
{
    const uint64_t first = a > b ? a : b, a_end = a + a_count, b_end = b + b_count, end = a_end < b_end ? a_end : b_end;
    *count = end > first ? end - first : 0;
    return first;
}

weft_slice weft_slice_common(const weft_slice *a, const weft_slice *b)
{
    weft_slice both = {.tensor = a->tensor};
    if (a->tensor != b->tensor)
        return both;
    both.row = common(a->row, a->rows, b->row, b->rows, &both.rows);
    both.column = common(a->column, a->columns, b->column, b->columns, &both.columns);
    if (both.rows == 0 || both.columns == 0)
        both.rows = both.columns = 0;
    return both;
}

static bool within(uint64_t first, uint64_t count, uint64_t all)
{
    return first <= all && count <= all - first;
}

/* Tells whether every row of a slice begins and ends at a whole byte. */
static bool bytes_are_whole(const weft_layout_entry *entry, const weft_slice *slice, const weft_slice *whole)
{
    const uint64_t bits = entry->row->bits;
    if (slice->columns == whole->columns)
        return slice->row * slice->columns * bits % 8 == 0 && slice->rows * slice->columns * bits % 8 == 0;
    return whole->columns * bits % 8 == 0 && slice->column * bits % 8 == 0 && slice->columns * bits % 8 == 0;
}

weft_status weft_slice_check(const weft_layout *layout, const weft_slice *slice)
{
    char name[WEFT_SLICE_TEXT];
    if (slice->tensor >= layout->count)
        return weft_fail(WEFT_E_LAYOUT, "a slice names tensor %llu of a layout of %llu", (ull)slice->tensor,
                         (ull)layout->count);
    const weft_slice whole = weft_slice_whole(layout, slice->tensor);
    weft_slice_name(layout, slice, name);
    if (!within(slice->row, slice->rows, whole.rows) || !within(slice->column, slice->columns, whole.columns))
        return weft_fail(WEFT_E_LAYOUT, "%s: the slice reaches past the tensor", name);
    if (!bytes_are_whole(&layout->entries[slice->tensor], slice, &whole))
        return weft_fail(WEFT_E_LAYOUT, "%s: rows of %s that do not fill whole bytes", name,
                         layout->entries[slice->tensor].row->name);
    return WEFT_OK;
}

int weft_slice_order(const void *left, const void *right)
{
    const weft_slice *a = left, *b = right;
    if (a->tensor != b->tensor)
        return a->tensor < b->tensor ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return (a->column > b->column) - (a->column < b->column);
}

void weft_slice_name(const weft_layout *layout, const weft_slice *slice, char text[WEFT_SLICE_TEXT])
{
    enum { MOST = 80 };
    const char *name = layout->entries[slice->tensor].tensor.name;
    const size_t length = strlen(name);
    const weft_slice whole = weft_slice_whole(layout, slice->tensor);
    snprintf(text, WEFT_SLICE_TEXT, "%s%s, %llu rows from %llu of %llu, %llu columns from %llu of %llu",
             length > MOST ? "..." : "", length > MOST ? name + length - MOST : name, (ull)slice->rows, (ull)slice->row,
             (ull)whole.rows, (ull)slice->columns, (ull)slice->column, (ull)whole.columns);
}
