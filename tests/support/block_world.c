#include "tests/support/block_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/mix64.h"
#include "layout/slice.h"

#define CANARY 0xa5

static uint64_t below(uint64_t *seed, uint64_t limit)
{
    *seed += WEFT_PHI;
    return weft_mix64(*seed) % limit;
}

static void *memory_of(uint64_t bytes)
{
    void *memory = calloc(bytes + 1, 1);
    if (!memory)
        abort();
    return memory;
}

uint64_t block_width(const weft_dtype_row *row)
{
    return row->bits % 8 ? 1 : row->bits / 8;
}

uint64_t block_steps(const weft_dtype_row *row, uint64_t elements)
{
    return elements * row->bits / 8 / block_width(row);
}

static uint64_t index_bytes(const weft_stride *strides, uint64_t index, uint64_t otherwise)
{
    uint64_t bytes = 0, parts = 0;
    for (int i = WEFT_STRIDES_MAX - 1; i >= 0; i--) {
        if (strides[i].extent == 0)
            continue;
        parts++;
        bytes += index % strides[i].extent * strides[i].stride;
        index /= strides[i].extent;
    }
    return parts ? bytes : index * otherwise;
}

uint8_t *block_at(const weft_dtype_row *row, const weft_block *block, uint64_t r, uint64_t c)
{
    const uint64_t width = block_width(row), all = block_steps(row, block->slice.columns) * width;
    return (uint8_t *)block->data + index_bytes(block->row, r, all) + index_bytes(block->column, c, width);
}

/* ---- storage */

/* A divisor of a size, at most 16. */
static uint64_t divisor(uint64_t *seed, uint64_t size)
{
    uint64_t wanted = 1 + below(seed, 16);
    while (size % wanted)
        wanted--;
    return wanted;
}

/* Strides for rows x columns steps of `w` bytes; returns the bytes that they span. */
static uint64_t store(weft_block *block, uint64_t rows, uint64_t columns, uint64_t w, uint64_t *seed)
{
    const uint64_t a = divisor(seed, rows), b = divisor(seed, columns), c = divisor(seed, rows / a);
    const uint64_t tile = a * b * w, pitch = (columns + below(seed, 5)) * w, high = (rows + below(seed, 3)) * w;
    weft_stride *row = block->row, *column = block->column;
    switch (below(seed, 7)) {
    case 0: /* as the slice itself */
        return rows * columns * w;
    case 1: /* rows of a wider matrix */
        row[0] = (weft_stride){rows, pitch};
        return rows * pitch;
    case 2: /* transposed */
        row[0] = (weft_stride){rows, w};
        column[0] = (weft_stride){columns, high};
        return columns * high;
    case 3: /* tiles a x b */
        row[0] = (weft_stride){rows / a, columns / b * tile};
        row[1] = (weft_stride){a, b * w};
        column[0] = (weft_stride){columns / b, tile};
        column[1] = (weft_stride){b, w};
        return rows * columns * w;
    case 4: /* transposed tiles, in columns of tiles */
        row[0] = (weft_stride){rows / a, tile};
        row[1] = (weft_stride){a, w};
        column[0] = (weft_stride){columns / b, rows / a * tile};
        column[1] = (weft_stride){b, a * w};
        return rows * columns * w;
    case 5: /* rows in an order of three digits, turned round */
        row[0] = (weft_stride){rows / a / c, pitch};
        row[1] = (weft_stride){c, rows / a / c * pitch};
        row[2] = (weft_stride){a, rows / a * pitch};
        return rows * pitch;
    default: /* every other element of every other row */
        row[0] = (weft_stride){rows, 2 * pitch * 2};
        column[0] = (weft_stride){columns, 2 * w};
        return 4 * rows * pitch;
    }
}

/* ---- cutting */

typedef struct cutting {
    block_world *world;
    uint64_t seed;
    uint64_t at; /* bytes of memory used */
} cutting;

static uint64_t place(cutting *c, uint64_t bytes)
{
    const uint64_t at = c->at = (c->at + 16 + 8 * below(&c->seed, 4)) / 8 * 8;
    c->at += bytes;
    return at;
}

/* A band of rows whose column boxes lie in one matrix, the last one first, as engines fuse q, k and v. */
static void band_fuse(cutting *c, const weft_slice *band, const uint64_t *cut, uint64_t cuts, const weft_dtype_row *row)
{
    const uint64_t w = block_width(row), pitch = (block_steps(row, band->columns) + below(&c->seed, 3)) * w;
    uint64_t at = place(c, band->rows * pitch);
    for (uint64_t i = cuts; i-- > 0;) {
        weft_slice slice = *band;
        slice.column = cut[i];
        slice.columns = cut[i + 1] - cut[i];
        c->world->blocks[c->world->count++] =
            (weft_block){.slice = slice, .data = (void *)at, .row = {{band->rows, pitch}}};
        at += block_steps(row, slice.columns) * w;
    }
}

static void band_put(cutting *c, const weft_slice *band, const uint64_t *cut, uint64_t cuts, const weft_dtype_row *row)
{
    for (uint64_t i = 0; i < cuts; i++) {
        weft_block block = {.slice = *band};
        block.slice.column = cut[i];
        block.slice.columns = cut[i + 1] - cut[i];
        const uint64_t steps = block_steps(row, block.slice.columns);
        block.data = (void *)place(c, store(&block, band->rows, steps, block_width(row), &c->seed));
        c->world->blocks[c->world->count++] = block;
    }
}

/* Rising places from 0 to `size`, multiples of `step`; returns how many parts they make. */
static uint64_t parts_choose(cutting *c, uint64_t size, uint64_t step, uint64_t most, uint64_t *cut)
{
    uint64_t parts = 0;
    cut[0] = 0;
    while (parts + 1 < most && cut[parts] < size && below(&c->seed, 3)) {
        const uint64_t left = (size - cut[parts]) / step;
        cut[parts + 1] = cut[parts] + step * (1 + below(&c->seed, left));
        parts++;
    }
    if (cut[parts] < size)
        cut[++parts] = size;
    return parts;
}

static void tensor_cut(cutting *c, uint64_t tensor)
{
    const weft_dtype_row *row = c->world->layout->entries[tensor].row;
    const weft_slice whole = weft_slice_whole(c->world->layout, tensor);
    const bool ragged = whole.columns * row->bits % 8 != 0, crowded = c->world->count + 20 > BLOCK_MOST;
    const uint64_t step = row->bits % 8 ? 4 : 1;
    uint64_t rows[6], columns[5];
    if (weft_slice_elements(&whole) == 0)
        return;
    if (ragged || crowded || whole.columns % step) {
        c->world->blocks[c->world->count++] =
            (weft_block){.slice = whole, .data = (void *)place(c, c->world->layout->entries[tensor].bytes)};
        return;
    }
    const uint64_t bands = parts_choose(c, whole.rows, 1, 5, rows);
    for (uint64_t i = 0; i < bands; i++) {
        weft_slice band = whole;
        band.row = rows[i];
        band.rows = rows[i + 1] - rows[i];
        const uint64_t cuts = parts_choose(c, whole.columns, step, 4, columns);
        if (below(&c->seed, 3))
            band_put(c, &band, columns, cuts, row);
        else
            band_fuse(c, &band, columns, cuts, row);
    }
}

/* ---- the world */

static void own(block_world *world)
{
    for (uint64_t i = 0; i < world->count; i++) {
        weft_block *block = &world->blocks[i];
        const weft_dtype_row *row = world->layout->entries[block->slice.tensor].row;
        const weft_slice whole = weft_slice_whole(world->layout, block->slice.tensor);
        if (whole.columns * row->bits % 8 != 0) {
            memset(world->owned + ((uint8_t *)block->data - world->memory), 1,
                   world->layout->entries[block->slice.tensor].bytes);
            continue;
        }
        for (uint64_t r = 0; r < block->slice.rows; r++)
            for (uint64_t c = 0; c < block_steps(row, block->slice.columns); c++)
                memset(world->owned + (block_at(row, block, r, c) - world->memory), 1, block_width(row));
    }
}

void block_world_open(block_world *world, const weft_layout *layout, uint64_t seed, bool image)
{
    cutting c = {world, seed, 0};
    uint64_t dense = 0;
    *world = (block_world){.layout = layout, .offsets = memory_of(layout->count * sizeof(uint64_t))};
    for (uint64_t t = 0; t < layout->count; t++) {
        world->offsets[t] = image ? layout->entries[t].offset : dense;
        dense += layout->entries[t].bytes;
        tensor_cut(&c, t);
    }
    world->bytes = place(&c, 64);
    world->memory = memory_of(world->bytes);
    world->owned = memory_of(world->bytes);
    memset(world->memory, CANARY, world->bytes);
    for (uint64_t i = 0; i < world->count; i++)
        world->blocks[i].data = world->memory + (uintptr_t)world->blocks[i].data;
    own(world);
}

void block_world_close(block_world *world)
{
    free(world->owned);
    free(world->memory);
    free(world->offsets);
    *world = (block_world){0};
}

/* Moves the bytes of one block between memory and the dense bytes of its tensor. */
static void block_move(const block_world *world, const weft_block *block, uint8_t *dense, bool put)
{
    const weft_layout_entry *entry = &world->layout->entries[block->slice.tensor];
    const weft_slice whole = weft_slice_whole(world->layout, block->slice.tensor);
    const uint64_t w = block_width(entry->row), all = block_steps(entry->row, whole.columns);
    if (whole.columns * entry->row->bits % 8 != 0) {
        memcpy(put ? block->data : dense, put ? dense : block->data, entry->bytes);
        return;
    }
    for (uint64_t r = 0; r < block->slice.rows; r++)
        for (uint64_t c = 0; c < block_steps(entry->row, block->slice.columns); c++) {
            uint8_t *here = block_at(entry->row, block, r, c);
            uint8_t *there =
                dense + ((block->slice.row + r) * all + block_steps(entry->row, block->slice.column) + c) * w;
            memcpy(put ? here : there, put ? there : here, w);
        }
}

void block_world_put(block_world *world, const uint8_t *dense)
{
    for (uint64_t i = 0; i < world->count; i++)
        block_move(world, &world->blocks[i],
                   (uint8_t *)(uintptr_t)dense + world->offsets[world->blocks[i].slice.tensor], true);
}

void block_world_get(const block_world *world, uint8_t *dense)
{
    for (uint64_t i = 0; i < world->count; i++)
        block_move(world, &world->blocks[i], dense + world->offsets[world->blocks[i].slice.tensor], false);
}

uint8_t *block_world_at(const block_world *world, uint64_t at)
{
    for (uint64_t i = 0; i < world->count; i++) {
        const weft_block *block = &world->blocks[i];
        const weft_layout_entry *entry = &world->layout->entries[block->slice.tensor];
        const weft_slice whole = weft_slice_whole(world->layout, block->slice.tensor);
        const uint64_t w = block_width(entry->row), all = block_steps(entry->row, whole.columns);
        const uint64_t byte = at - world->offsets[block->slice.tensor];
        if (byte >= entry->bytes)
            continue;
        if (whole.columns * entry->row->bits % 8 != 0)
            return (uint8_t *)block->data + byte;
        const uint64_t r = byte / w / all - block->slice.row;
        const uint64_t c = byte / w % all - block_steps(entry->row, block->slice.column);
        if (r < block->slice.rows && c < block_steps(entry->row, block->slice.columns))
            return block_at(entry->row, block, r, c) + byte % w;
    }
    abort();
}

bool block_world_is_whole(const block_world *world)
{
    for (uint64_t i = 0; i < world->bytes; i++) {
        if (!world->owned[i] && world->memory[i] != CANARY)
            return false;
    }
    return true;
}
