/* update_grid.c - tensors as literals (dtype, coded elements) and copies (0, distance, count) of LEB128 numbers. */
#include "update/update_grid.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"
#include "update/update_format.h"

#define TENSORS_MAX  (UINT64_C(1) << 20)
#define DISTANCE_MAX 1024u /* tensors that a copy reaches back */
#define COPY_LEAST   2u
#define ITEM_BYTES   15u /* more than a literal or a copy takes */
#define NAME_BYTES   12u

typedef unsigned long long ull;

/* ---- write */

static bool alike(const weft_layout *layout, uint64_t a, uint64_t b)
{
    return layout->entries[a].row == layout->entries[b].row && layout->entries[a].coded == layout->entries[b].coded;
}

/* The longest copy for the tensors from `at` on, the nearest of several. */
static uint64_t copy_find(const weft_layout *layout, uint64_t at, uint64_t *distance)
{
    uint64_t longest = 0;
    for (uint64_t d = 1; d <= at && d <= DISTANCE_MAX; d++) {
        uint64_t length = 0;
        while (at + length < layout->count && alike(layout, at + length, at + length - d))
            length++;
        if (length > longest) {
            longest = length;
            *distance = d;
        }
    }
    return longest;
}

weft_status weft_update_grid_room(const weft_layout *layout)
{
    return layout->count <= TENSORS_MAX
               ? WEFT_OK
               : weft_fail(WEFT_E_LAYOUT, "an update file holds at most %llu tensors, the layout has %llu",
                           (ull)TENSORS_MAX, (ull)layout->count);
}

weft_status weft_update_grid_write(const weft_layout *layout, uint8_t **bytes, uint64_t *length)
{
    weft_status status = weft_update_grid_room(layout);
    if (status != WEFT_OK)
        return status;
    uint64_t room = layout->count * ITEM_BYTES + 1, distance = 0, copied;
    weft_out out = {weft_mem_take(room, 1), room, 0, false};
    if (!out.data)
        return weft_fail(WEFT_E_MEMORY, "no memory for the grid of %llu tensors", (ull)layout->count);
    for (uint64_t t = 0; t < layout->count; t += copied) {
        copied = copy_find(layout, t, &distance);
        if (copied >= COPY_LEAST) {
            weft_number_put(&out, 0);
            weft_number_put(&out, distance);
            weft_number_put(&out, copied);
        } else {
            copied = 1;
            weft_number_put(&out, layout->entries[t].row->dtype);
            weft_number_put(&out, layout->entries[t].coded);
        }
    }
    *bytes = out.data;
    *length = out.used;
    return WEFT_OK;
}

/* ---- read */

typedef struct grid_tensor {
    const weft_dtype_row *row;
    uint64_t elements; /* of the dtype */
} grid_tensor;

/* Counts elements of the dtype; `whole` is false if they do not fill the words. */
static uint64_t elements_of(const weft_dtype_row *row, uint64_t coded, bool *whole)
{
    uint64_t bits;
    *whole = !__builtin_mul_overflow(coded, 8u * row->width, &bits) && bits % row->bits == 0;
    return *whole ? bits / row->bits : 0;
}

/* The next item. `tensors` NULL: only counts. */
static void item_read(weft_in *in, grid_tensor *tensors, uint64_t *count)
{
    uint64_t dtype = weft_number_get(in), distance, copied;
    bool whole;
    if (dtype > 0) {
        uint64_t coded = weft_number_get(in);
        const weft_dtype_row *row = dtype <= WEFT_DTYPE_LAST ? weft_dtype_find((weft_dtype)dtype) : NULL;
        uint64_t elements = row ? elements_of(row, coded, &whole) : 0;
        in->bad = in->bad || !row || !whole || *count >= TENSORS_MAX;
        if (!in->bad && tensors)
            tensors[*count] = (grid_tensor){row, elements};
        *count += !in->bad;
        return;
    }
    distance = weft_number_get(in);
    copied = weft_number_get(in);
    in->bad = in->bad || distance == 0 || distance > *count || copied == 0 || copied > TENSORS_MAX - *count;
    for (uint64_t i = 0; i < copied && tensors && !in->bad; i++)
        tensors[*count + i] = tensors[*count + i - distance];
    *count += in->bad ? 0 : copied;
}

static uint64_t items_read(const uint8_t *bytes, uint64_t length, grid_tensor *tensors, bool *bad)
{
    weft_in in = {bytes, length, 0, false};
    uint64_t count = 0;
    while (!in.bad && in.used < in.length)
        item_read(&in, tensors, &count);
    *bad = in.bad;
    return count;
}

static weft_status layout_make(const grid_tensor *grid, uint64_t count, weft_layout **layout)
{
    weft_tensor *tensors = weft_mem_take(count + 1, sizeof *tensors);
    char(*names)[NAME_BYTES] = weft_mem_take(count + 1, sizeof *names);
    weft_status status;
    for (uint64_t t = 0; t < count && tensors && names; t++) {
        snprintf(names[t], sizeof names[t], "#%u", (unsigned)t);
        tensors[t] = (weft_tensor){names[t], grid[t].row->dtype, 1, &grid[t].elements};
    }
    if (tensors && names)
        status = weft_layout_create(tensors, count, layout);
    else
        status = weft_fail(WEFT_E_MEMORY, "no memory for a grid of %llu tensors", (ull)count);
    weft_mem_give(names);
    weft_mem_give(tensors);
    return status;
}

weft_status weft_update_grid_read(const uint8_t *bytes, uint64_t length, weft_layout **layout)
{
    bool bad;
    uint64_t count = items_read(bytes, length, NULL, &bad);
    if (bad)
        return weft_fail(WEFT_E_CORRUPT, "update file: its grid of %llu bytes is invalid", (ull)length);
    grid_tensor *grid = weft_mem_take(count + 1, sizeof *grid);
    if (!grid)
        return weft_fail(WEFT_E_MEMORY, "no memory for a grid of %llu tensors", (ull)count);
    items_read(bytes, length, grid, &bad);
    weft_status status = layout_make(grid, count, layout);
    weft_mem_give(grid);
    return status;
}
