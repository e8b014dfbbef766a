/* box.c - blocks from outside: checked, and brought into coded elements. */
#include "layout/box.h"

#include <string.h>

#include "base/status.h"

typedef unsigned long long ull;

/* A block that is being read. */
typedef struct reading {
    const weft_layout *layout;
    const weft_layout_entry *entry;
    const weft_block *block;
    uint8_t width; /* bytes of a coded element in memory */
    char name[WEFT_SLICE_TEXT];
} reading;

static bool is_packed(const weft_dtype_row *row)
{
    return row->bits % 8 != 0;
}

/* Converts elements that fill whole bytes to coded elements. */
static uint64_t coded_of(const weft_dtype_row *row, uint64_t elements)
{
    return is_packed(row) ? elements / 8 * row->bits + elements % 8 * row->bits / 8
                          : elements * (row->bits / (8u * row->width));
}

/* ---- rules */

static weft_status words_check(const reading *r)
{
    const weft_block *block = r->block;
    const weft_dtype_row *memory = weft_dtype_find(block->memory);
    if (block->memory && block->memory != r->entry->row->dtype && !weft_block_casts(r->entry->row, block))
        return weft_fail(WEFT_E_ARGUMENT,
                         "%s: memory %s: the layout says %s, and F32 that is read as BF16 or F16 is the only cast",
                         r->name, memory ? memory->name : "of an unknown dtype", r->entry->row->name);
    if (block->flags)
        return weft_fail(WEFT_E_ARGUMENT, "%s: flags %x of the block are reserved", r->name, block->flags);
    return WEFT_OK;
}

static weft_status data_check(const reading *r)
{
    const uint8_t width = r->width;
    if (!r->block->data)
        return weft_fail(WEFT_E_LAYOUT, "%s: the block has no memory", r->name);
    if ((uintptr_t)r->block->data % width != 0)
        return weft_fail(WEFT_E_LAYOUT, "%s: the block lies at %p, not aligned to %u bytes", r->name, r->block->data,
                         width);
    return WEFT_OK;
}

static bool is_given(const weft_stride *strides)
{
    for (uint32_t i = 0; i < WEFT_STRIDES_MAX; i++) {
        if (strides[i].extent || strides[i].stride)
            return true;
    }
    return false;
}

/* Counts the parts in use. They come first, and their extents multiply to `wanted`. */
static weft_status strides_check(const reading *r, const weft_stride *strides, const char *what, uint64_t wanted,
                                 uint32_t *count)
{
    const uint8_t width = r->width;
    uint64_t product = 1;
    *count = 0;
    for (uint32_t i = 0; i < WEFT_STRIDES_MAX; i++) {
        if (strides[i].extent == 0)
            continue;
        if (i != *count)
            return weft_fail(WEFT_E_LAYOUT, "%s: %s[%u] is used after an extent of 0", r->name, what, i);
        if (strides[i].extent > 1 && strides[i].stride % width != 0)
            return weft_fail(WEFT_E_LAYOUT, "%s: %s[%u] has a stride of %llu bytes: no multiple of %u", r->name, what,
                             i, (ull)strides[i].stride, width);
        if (__builtin_mul_overflow(product, strides[i].extent, &product))
            product = UINT64_MAX;
        ++*count;
    }
    if (product != wanted || *count == 0)
        return weft_fail(WEFT_E_LAYOUT, "%s: the extents of %s multiply to %llu, the box needs %llu", r->name, what,
                         (ull)(*count ? product : 0), (ull)wanted);
    return WEFT_OK;
}

/* ---- indices */

/* Leaves out parts of one value, and joins neighbours that are one part. */
static void index_join(weft_box_index *at)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < at->count; i++) {
        const weft_stride part = at->part[i];
        weft_stride *outer = used > 0 ? &at->part[used - 1] : NULL;
        uint64_t span;
        if (part.extent == 1)
            continue;
        if (outer && !__builtin_mul_overflow(part.extent, part.stride, &span) && span == outer->stride)
            *outer = (weft_stride){outer->extent * part.extent, part.stride};
        else
            at->part[used++] = part;
    }
    if (used == 0)
        at->part[used++] = (weft_stride){1, 0};
    at->count = used;
}

/* Makes an index of `wanted` values: by the caller's strides, or `stride` bytes apart if no strides are given. */
static weft_status index_take(const reading *r, const weft_stride *strides, const char *what, uint64_t wanted,
                              uint64_t stride, weft_box_index *at)
{
    *at = (weft_box_index){.count = 1, .part = {{wanted, stride}}};
    if (!is_given(strides))
        return WEFT_OK;
    const weft_status status = strides_check(r, strides, what, wanted, &at->count);
    memcpy(at->part, strides, WEFT_STRIDES_MAX * sizeof *strides);
    return status;
}

static weft_status indices_take(const reading *r, weft_box *box)
{
    const weft_dtype_row *row = r->entry->row;
    const uint64_t halves = is_packed(row) ? 1 : row->bits / (8u * row->width), values = box->columns / halves;
    weft_status status = index_take(r, r->block->row, "row", box->rows, box->columns * r->width, &box->row_at);
    if (status == WEFT_OK)
        status = index_take(r, r->block->column, "column", values, r->width * halves, &box->column_at);
    if (status != WEFT_OK)
        return status;
    if (halves > 1)
        box->column_at.part[box->column_at.count++] = (weft_stride){halves, r->width};
    index_join(&box->row_at);
    index_join(&box->column_at);
    const weft_stride *inner = &box->column_at.part[box->column_at.count - 1];
    box->side = inner->stride == r->width ? inner->extent : 1;
    return WEFT_OK;
}

/* ---- boxes */

/* Takes a tensor as one row of bytes, where rows of a packed dtype do not fill whole bytes. */
static weft_status ragged_take(const reading *r, const weft_slice *whole, weft_box *box)
{
    const weft_slice *slice = &r->block->slice;
    if (is_given(r->block->row) || is_given(r->block->column))
        return weft_fail(WEFT_E_LAYOUT, "%s: rows of %s that do not fill whole bytes take no strides", r->name,
                         r->entry->row->name);
    *box = (weft_box){.rows = 1,
                      .column = coded_of(r->entry->row, slice->row * whole->columns),
                      .columns = coded_of(r->entry->row, slice->rows * whole->columns),
                      .all = r->entry->coded};
    return WEFT_OK;
}

static weft_status box_take(const reading *r, weft_box *box)
{
    const weft_slice *slice = &r->block->slice, whole = weft_slice_whole(r->layout, slice->tensor);
    const weft_dtype_row *row = r->entry->row;
    weft_status status = WEFT_OK;
    if (whole.columns * row->bits % 8 != 0)
        status = ragged_take(r, &whole, box);
    else
        *box = (weft_box){.row = slice->row,
                          .rows = slice->rows,
                          .column = coded_of(row, slice->column),
                          .columns = coded_of(row, slice->columns),
                          .all = coded_of(row, whole.columns)};
    box->data = r->block->data;
    box->width = r->width;
    box->cast = weft_block_casts(row, r->block);
    return status == WEFT_OK ? indices_take(r, box) : status;
}

static weft_status pattern_take(const reading *r, const weft_box *box, weft_pattern *pattern)
{
    weft_stride parts[WEFT_PATTERN_PARTS], fault = {0};
    const uint32_t rows = box->row_at.count, columns = box->column_at.count;
    memcpy(parts, box->row_at.part, rows * sizeof *parts);
    memcpy(parts + rows, box->column_at.part, columns * sizeof *parts);
    switch (weft_pattern_make(box->data, box->width, parts, rows + columns, pattern, &fault)) {
    case WEFT_PATTERN_ALIASES:
        return weft_fail(WEFT_E_LAYOUT,
                         "%s: strides lead two elements to one address: %llu steps of %llu bytes, and smaller strides "
                         "that reach further than one of them",
                         r->name, (ull)fault.extent, (ull)fault.stride);
    case WEFT_PATTERN_ENDLESS:
        return weft_fail(WEFT_E_LAYOUT, "%s: the block runs past the end of memory", r->name);
    default:
        return WEFT_OK;
    }
}

weft_status weft_box_take(const weft_layout *layout, const weft_block *block, uint64_t number, weft_box_read *read)
{
    const weft_slice *slice = &block->slice;
    *read = (weft_box_read){.slice = *slice};
    if (slice->tensor >= layout->count)
        return weft_fail(WEFT_E_LAYOUT, "block %llu names tensor %llu of a layout of %llu", (ull)number,
                         (ull)slice->tensor, (ull)layout->count);
    weft_status status = weft_slice_check(layout, slice);
    if (status != WEFT_OK)
        return status;
    reading r = {.layout = layout, .entry = &layout->entries[slice->tensor], .block = block};
    r.width = weft_block_casts(r.entry->row, block) ? sizeof(float) : r.entry->row->width;
    weft_slice_name(layout, slice, r.name);
    status = words_check(&r);
    if (status != WEFT_OK || weft_slice_elements(slice) == 0)
        return status;
    status = data_check(&r);
    if (status == WEFT_OK)
        status = box_take(&r, &read->box);
    if (status == WEFT_OK)
        status = pattern_take(&r, &read->box, &read->pattern);
    if (status != WEFT_OK)
        return status;
    read->flat = weft_box_is_flat(&read->box);
    read->first = read->box.row * read->box.all + read->box.column;
    read->count = read->box.rows * read->box.columns;
    return WEFT_OK;
}
