/* cell_blocks.c - pieces and blocks of a model, parted where cells end. */
#include "shard/cell_blocks.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/box.h"

typedef unsigned long long ull;

#define INDEX_MOST 5u /* ranges that a range of a split index comes to, at most */

/* A range of an index: its first value counted in the range asked for, and where that value lies. */
typedef struct index_range {
    uint64_t first, count;
    uint64_t offset;
    weft_stride part[WEFT_STRIDES_MAX]; /* all zero: none is needed */
} index_range;

typedef struct index_ranges {
    index_range list[INDEX_MOST];
    uint32_t count;
} index_ranges;

void weft_cell_blocks_close(weft_cell_blocks *made)
{
    weft_mem_give(made->blocks);
    *made = (weft_cell_blocks){0};
}

/* ---- pieces */

static uint64_t bytes_of(const weft_layout *model, uint64_t tensor, uint64_t elements)
{
    const uint32_t bits = model->entries[tensor].row->bits;
    return elements / 8 * bits + elements % 8 * bits / 8;
}

static weft_status piece_check(const weft_layout *model, const weft_piece *piece, uint64_t number)
{
    if (piece->tensor >= model->count)
        return weft_fail(WEFT_E_LAYOUT, "piece %llu names tensor %llu of a layout of %llu", (ull)number,
                         (ull)piece->tensor, (ull)model->count);
    const weft_layout_entry *entry = &model->entries[piece->tensor];
    if (piece->first <= entry->elements && piece->count <= entry->elements - piece->first)
        return WEFT_OK;
    return weft_fail(WEFT_E_LAYOUT, "tensor %s: a piece of %llu elements from %llu on reaches past its %llu",
                     entry->tensor.name, (ull)piece->count, (ull)piece->first, (ull)entry->elements);
}

/* Puts the boxes of a piece: the end of a row, whole rows, the begin of a row. Returns how many there are. */
static uint64_t piece_boxes(const weft_layout *model, const weft_piece *piece, weft_block *out)
{
    const weft_slice whole = weft_slice_whole(model, piece->tensor);
    uint64_t used = 0;
    for (uint64_t at = piece->first, end = piece->first + piece->count, columns; at < end; used++) {
        const uint64_t column = at % whole.columns, left = end - at;
        const bool rows = column == 0 && left >= whole.columns;
        columns = rows ? whole.columns : left < whole.columns - column ? left : whole.columns - column;
        const uint64_t count = rows ? left / whole.columns : 1;
        out[used] = (weft_block){.slice = {piece->tensor, at / whole.columns, count, column, columns},
                                 .data = (uint8_t *)piece->data + bytes_of(model, piece->tensor, at - piece->first)};
        at += count * columns;
    }
    return used;
}

weft_status weft_piece_blocks(const weft_layout *model, const weft_piece *pieces, uint64_t count,
                              weft_cell_blocks *made)
{
    weft_status status = WEFT_OK;
    *made = (weft_cell_blocks){.blocks =
                                   count < UINT64_MAX / 4 ? weft_mem_take(3 * count + 1, sizeof *made->blocks) : NULL};
    if (!made->blocks)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu pieces", (ull)count);
    for (uint64_t i = 0; i < count && status == WEFT_OK; i++) {
        status = piece_check(model, &pieces[i], i);
        if (status == WEFT_OK)
            made->count += piece_boxes(model, &pieces[i], made->blocks + made->count);
    }
    if (status != WEFT_OK)
        weft_cell_blocks_close(made);
    return status;
}

/* ---- indices */

/* Puts the ranges that `count` values from `begin` on of a split index come to. A range is whole turns of the outermost
 * part, or lies within one turn of it. */
static void index_split(const weft_stride *parts, uint32_t part_count, uint64_t begin, uint64_t count, index_range to,
                        index_ranges *out)
{
    uint64_t inner = 1;
    for (uint32_t i = 1; i < part_count; i++)
        inner *= parts[i].extent;
    for (uint64_t take; count > 0; begin += take, count -= take, to.first += take) {
        const uint64_t within = begin % inner, turns = within == 0 ? count / inner : 0;
        index_range next = to;
        next.offset += begin / inner * parts[0].stride;
        take = turns > 0 ? turns * inner : inner - within < count ? inner - within : count;
        if (turns == 0) {
            index_split(parts + 1, part_count - 1, within, take, next, out);
            continue;
        }
        next.count = take;
        memcpy(next.part, parts, part_count * sizeof *parts);
        next.part[0].extent = turns;
        out->list[out->count++] = next;
    }
}

static uint32_t parts_given(const weft_stride *strides)
{
    uint32_t given = 0;
    for (uint32_t i = 0; i < WEFT_STRIDES_MAX; i++)
        given = strides[i].extent || strides[i].stride ? i + 1 : given;
    return given;
}

static bool extents_fit(const weft_stride *strides, uint32_t given, uint64_t wanted)
{
    uint64_t product = 1;
    for (uint32_t i = 0; i < given; i++)
        if (strides[i].extent == 0 || __builtin_mul_overflow(product, strides[i].extent, &product))
            return false;
    return product == wanted;
}

/* ---- blocks */

/* A block on its way, and the part of it that one cell has. */
typedef struct parting {
    const weft_layout *model;
    const weft_block *block;
    weft_slice common; /* what block and cell have in common */
    weft_block *out;   /* NULL: the blocks are only counted */
    bool beyond;       /* elements that are in no cell are passed over */
    uint64_t used;
} parting;

/* Bytes of elements in the memory of the block. */
static uint64_t memory_bytes(const parting *p, uint64_t elements)
{
    const uint64_t tensor = p->block->slice.tensor;
    return weft_block_casts(p->model->entries[tensor].row, p->block) ? elements * sizeof(float)
                                                                     : bytes_of(p->model, tensor, elements);
}

/* Rows without strides follow each other, also where a row of a packed dtype does not fill whole bytes. */
static void rows_of(const parting *p, index_ranges *out)
{
    const weft_block *block = p->block;
    const uint32_t given = parts_given(block->row);
    const uint64_t begin = p->common.row - block->slice.row;
    if (given)
        index_split(block->row, given, begin, p->common.rows, (index_range){0}, out);
    else
        out->list[out->count++] = (index_range){.count = p->common.rows,
                                                .offset = memory_bytes(p, begin * block->slice.columns),
                                                .part = {{p->common.rows, memory_bytes(p, block->slice.columns)}}};
}

/* Columns without strides lie side by side; a packed dtype counts the bytes of a row. */
static void columns_of(const parting *p, index_ranges *out)
{
    const weft_block *block = p->block;
    const uint32_t given = parts_given(block->column);
    const uint64_t begin = p->common.column - block->slice.column, tensor = block->slice.tensor;
    const bool packed = p->model->entries[tensor].row->bits % 8 != 0;
    if (given)
        index_split(block->column, given, packed ? bytes_of(p->model, tensor, begin) : begin,
                    packed ? bytes_of(p->model, tensor, p->common.columns) : p->common.columns, (index_range){0}, out);
    else
        out->list[out->count++] = (index_range){.count = p->common.columns, .offset = memory_bytes(p, begin)};
}

/* Converts a count of a packed dtype's bytes in strides to elements. */
static uint64_t elements_of(const parting *p, bool strides, uint64_t count)
{
    const uint32_t bits = p->model->entries[p->block->slice.tensor].row->bits;
    return strides && bits % 8 != 0 ? count * 8 / bits : count;
}

static bool lies_plain(const parting *p)
{
    const bool one_row = p->common.rows == 1, full = p->common.columns == p->block->slice.columns;
    return !parts_given(p->block->row) && !parts_given(p->block->column) && (one_row || full);
}

/* Puts the blocks of one cell: each range of rows with each range of columns. */
static void cell_put(parting *p, const weft_cell *cell, uint64_t number)
{
    index_ranges rows = {.count = 0}, columns = {.count = 0};
    const bool strides = parts_given(p->block->column) > 0, plain = lies_plain(p);
    rows_of(p, &rows);
    columns_of(p, &columns);
    for (uint32_t r = 0; r < rows.count; r++) {
        for (uint32_t c = 0; c < columns.count; c++, p->used++) {
            if (!p->out)
                continue;
            weft_block *block = &p->out[p->used];
            *block = *p->block;
            block->data = (uint8_t *)p->block->data + rows.list[r].offset + columns.list[c].offset;
            block->slice =
                (weft_slice){number, p->common.row + rows.list[r].first - cell->slice.row, rows.list[r].count,
                             p->common.column + elements_of(p, strides, columns.list[c].first) - cell->slice.column,
                             elements_of(p, strides, columns.list[c].count)};
            memcpy(block->row, rows.list[r].part, sizeof block->row);
            memcpy(block->column, columns.list[c].part, sizeof block->column);
            if (plain)
                memset(block->row, 0, sizeof block->row);
        }
    }
}

/* Cells by tensor: numbers of cells, those of tensor t from first[t] on. */
typedef struct cell_index {
    uint64_t *first, *number;
} cell_index;

static weft_status index_open(const weft_layout *model, const weft_cell *cells, uint64_t count, cell_index *index)
{
    index->first = weft_mem_take(model->count + 2, sizeof *index->first);
    index->number = weft_mem_take(count + 1, sizeof *index->number);
    if (!index->first || !index->number)
        return weft_fail(WEFT_E_MEMORY, "no memory to find %llu cells", (ull)count);
    for (uint64_t c = 0; c < count; c++)
        index->first[cells[c].slice.tensor + 2]++;
    for (uint64_t t = 0; t < model->count; t++)
        index->first[t + 2] += index->first[t + 1];
    for (uint64_t c = 0; c < count; c++)
        index->number[index->first[cells[c].slice.tensor + 1]++] = c;
    return WEFT_OK;
}

static weft_status refuse_outside(const weft_layout *model, const weft_slice *slice, uint64_t inside)
{
    char name[WEFT_SLICE_TEXT];
    weft_slice_name(model, slice, name);
    return weft_fail(WEFT_E_LAYOUT,
                     "bind: %s: %llu of its elements are not in the slices that this session opened with", name,
                     (ull)(weft_slice_elements(slice) - inside));
}

/* Parts one block. */
static weft_status block_put(parting *p, const weft_cell *cells, const cell_index *index)
{
    const weft_slice *slice = &p->block->slice;
    const uint64_t tensor = slice->tensor;
    uint64_t inside = 0;
    for (uint64_t i = index->first[tensor]; i < index->first[tensor + 1]; i++) {
        const weft_cell *cell = &cells[index->number[i]];
        p->common = weft_slice_common(&cell->slice, slice);
        inside += weft_slice_elements(&p->common);
        if (weft_slice_elements(&p->common) > 0)
            cell_put(p, cell, index->number[i]);
    }
    return p->beyond || inside == weft_slice_elements(slice) ? WEFT_OK : refuse_outside(p->model, slice, inside);
}

static weft_status block_check(const weft_layout *model, const weft_block *block)
{
    const weft_slice *slice = &block->slice;
    weft_status status = weft_slice_check(model, slice);
    const uint32_t rows = parts_given(block->row), columns = parts_given(block->column);
    char name[WEFT_SLICE_TEXT];
    if (status != WEFT_OK)
        return status;
    const uint64_t values = model->entries[slice->tensor].row->bits % 8 == 0
                                ? slice->columns
                                : bytes_of(model, slice->tensor, slice->columns);
    if ((!rows || extents_fit(block->row, rows, slice->rows)) &&
        (!columns || extents_fit(block->column, columns, values)))
        return WEFT_OK;
    weft_slice_name(model, slice, name);
    return weft_fail(WEFT_E_LAYOUT, "bind: %s: the extents of its strides do not multiply to its %s", name,
                     rows && !extents_fit(block->row, rows, slice->rows) ? "rows" : "columns");
}

/* Goes over all blocks once. Without `out` the blocks are checked and counted. */
static weft_status blocks_put(const weft_layout *model, const weft_cell *cells, const cell_index *index,
                              const weft_block *blocks, uint64_t count, bool beyond, weft_cell_blocks *made)
{
    parting p = {.model = model, .out = made->blocks, .beyond = beyond};
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < count && status == WEFT_OK; i++) {
        p.block = &blocks[i];
        status = p.out ? WEFT_OK : block_check(model, &blocks[i]);
        if (status == WEFT_OK)
            status = block_put(&p, cells, index);
    }
    made->count = p.used;
    return status;
}

weft_status weft_cell_blocks_open(const weft_layout *model, const weft_cell *cells, uint64_t cell_count,
                                  const weft_block *blocks, uint64_t count, bool beyond, weft_cell_blocks *made)
{
    cell_index index = {NULL, NULL};
    *made = (weft_cell_blocks){0};
    weft_status status = index_open(model, cells, cell_count, &index);
    if (status == WEFT_OK)
        status = blocks_put(model, cells, &index, blocks, count, beyond, made);
    if (status == WEFT_OK) {
        made->blocks = weft_mem_take(made->count + 1, sizeof *made->blocks);
        status = made->blocks ? blocks_put(model, cells, &index, blocks, count, beyond, made)
                              : weft_fail(WEFT_E_MEMORY, "no memory for %llu blocks", (ull)made->count);
    }
    if (status != WEFT_OK)
        weft_cell_blocks_close(made);
    weft_mem_give(index.number);
    weft_mem_give(index.first);
    return status;
}
