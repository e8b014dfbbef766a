/* source_part.c - the part of a model that one process of a simulation has. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/source_world.h"

static uint64_t bytes_of(const source_world *w, uint64_t tensor, uint64_t elements)
{
    return elements * w->layout->entries[tensor].row->bits / 8;
}

/* Where a tensor begins in dense bytes, and in a part's memory, where each is aligned. */
static uint64_t dense_at(const source_world *w, uint64_t tensor)
{
    uint64_t at = 0;
    for (uint64_t t = 0; t < tensor; t++)
        at += w->layout->entries[t].bytes;
    return at;
}

static uint64_t own_at(const source_world *w, uint64_t tensor)
{
    uint64_t at = 0;
    for (uint64_t t = 0; t < tensor; t++)
        at += (w->layout->entries[t].bytes + 63) / 64 * 64;
    return at;
}

/* Calls `each` for the bytes of a part, row by row; rows that are whole together. Returns false if one call does. */
static bool every_row(const source_world *w, const part *p, const uint8_t *dense,
                      bool (*each)(uint8_t *, const uint8_t *, uint64_t))
{
    bool all = true;
    for (uint64_t i = 0; i < p->count; i++) {
        const weft_slice *slice = &p->slices[i], whole = weft_slice_whole(w->layout, slice->tensor);
        const bool together = slice->columns == whole.columns;
        const uint64_t rows = together ? 1 : slice->rows,
                       columns = together ? slice->rows * slice->columns : slice->columns;
        for (uint64_t r = 0; r < rows; r++) {
            const uint64_t at = bytes_of(w, slice->tensor, (slice->row + r) * whole.columns + slice->column);
            all = all && each(p->dense + own_at(w, slice->tensor) + at, dense + dense_at(w, slice->tensor) + at,
                              bytes_of(w, slice->tensor, columns));
        }
    }
    return all;
}

static bool copy_row(uint8_t *mine, const uint8_t *theirs, uint64_t bytes)
{
    memcpy(mine, theirs, bytes);
    return true;
}

static bool same_row(uint8_t *mine, const uint8_t *theirs, uint64_t bytes)
{
    return memcmp(mine, theirs, bytes) == 0;
}

void part_put(const source_world *w, part *p, const uint8_t *dense)
{
    every_row(w, p, dense, copy_row);
}

bool part_has(const source_world *w, const part *p, const uint8_t *dense)
{
    return every_row(w, p, dense, same_row);
}

void part_open(const source_world *w, part *p)
{
    p->count = 0;
    p->order = NULL;
    p->dense = malloc(own_at(w, w->layout->count));
    memset(p->dense, 0xee, own_at(w, w->layout->count));
}

void part_add(part *p, weft_slice slice)
{
    if (slice.rows == 0 || slice.columns == 0)
        return;
    if (p->count == SLICES)
        abort();
    p->slices[p->count++] = slice;
}

static uint64_t number_of(const part *p, uint64_t tensor)
{
    return p->order ? p->order->number[tensor] : tensor;
}

const weft_slice *part_names(const part *p, const part *of, weft_slice slices[SLICES])
{
    for (uint64_t i = 0; i < of->count; i++) {
        slices[i] = of->slices[i];
        slices[i].tensor = number_of(p, slices[i].tensor);
    }
    return slices;
}

void part_blocks(const source_world *w, const part *p, weft_block blocks[SLICES])
{
    for (uint64_t i = 0; i < p->count; i++) {
        const weft_slice *slice = &p->slices[i], whole = weft_slice_whole(w->layout, slice->tensor);
        const uint64_t at =
            own_at(w, slice->tensor) + bytes_of(w, slice->tensor, slice->row * whole.columns + slice->column);
        blocks[i] = (weft_block){.slice = *slice, .data = p->dense + at};
        blocks[i].slice.tensor = number_of(p, slice->tensor);
        if (slice->columns != whole.columns)
            blocks[i].row[0] = (weft_stride){slice->rows, bytes_of(w, slice->tensor, whole.columns)};
    }
}

void part_bind(const source_world *w, const part *p, weft_session *session, uint32_t flags)
{
    weft_block blocks[SLICES];
    part_blocks(w, p, blocks);
    fleet_need(weft_bind_blocks(session, blocks, p->count, NULL, 0, flags), "bind");
}

static bool blank_row(uint8_t *mine, const uint8_t *theirs, uint64_t bytes)
{
    (void)theirs;
    memset(mine, 0xee, bytes);
    return true;
}

/* Nothing is written beside the part. */
bool part_is_clean(const source_world *w, const part *p)
{
    const uint64_t bytes = own_at(w, w->layout->count);
    part copy = *p;
    bool clean = true;
    copy.dense = malloc(bytes);
    memcpy(copy.dense, p->dense, bytes);
    every_row(w, &copy, w->dense, blank_row);
    for (uint64_t i = 0; i < bytes; i++)
        clean = clean && copy.dense[i] == 0xee;
    free(copy.dense);
    return clean;
}

void part_move(const source_world *w, part *p)
{
    const uint64_t bytes = own_at(w, w->layout->count);
    uint8_t *fresh = malloc(bytes);
    memcpy(fresh, p->dense, bytes);
    p->dense = fresh;
}

void part_free(part *p)
{
    free(p->dense);
    p->dense = NULL;
}
