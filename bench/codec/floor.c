/* floor.c - entropies of an update: how few bits a change can take for a code that knows the old exponents.
 *
 *   position   sum over exponents of n * h(changed / n), h being the entropy of a coin: which elements changed
 *   direction  entropy of up and down
 *   magnitude  entropy of the size of the step, given the exponent
 *
 * all divided by the changes. Elements of different kinds count as different exponents. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"
#include "bench/codec/codec.h"
#include "codec/classes.h"
#include "layout/layout.h"

#define CELLS (WEFT_KIND_COUNT * WEFT_EXPONENTS_MAX)

/* A change: the cell of its old exponent and how many steps it goes. */
typedef struct step {
    uint64_t magnitude;
    uint32_t cell;
} step;

typedef struct counts {
    uint64_t all[CELLS], changed[CELLS];
    uint64_t down, one;
    step *steps;
    uint64_t count, capacity;
} counts;

/* Elements in order of value: sign and magnitude to two's complement. */
static uint64_t place_of(uint64_t bits, const weft_dtype_row *row)
{
    const uint64_t top = UINT64_C(1) << (8u * row->width - 1) % 64;
    return row->is_float && (bits & top) ? bits ^ (top - 1) : bits;
}

static weft_status step_note(counts *c, const weft_dtype_row *row, uint32_t cell, uint64_t before, uint64_t after)
{
    const uint64_t mask = row->width == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * row->width)) - 1;
    uint64_t step_up = (place_of(after, row) - place_of(before, row)) & mask;
    bool down = step_up >> (8u * row->width - 1) % 64;
    uint64_t magnitude = down ? (~step_up + 1) & mask : step_up;
    if (c->count == c->capacity) {
        uint64_t capacity = 2 * c->capacity + 65536;
        step *grown = weft_mem_grow(c->steps, c->capacity, capacity, sizeof *grown);
        if (!grown)
            return weft_fail(WEFT_E_MEMORY, "no memory for %llu changes", (unsigned long long)capacity);
        c->steps = grown;
        c->capacity = capacity;
    }
    c->steps[c->count++] = (step){magnitude, cell};
    c->changed[cell]++;
    c->down += down;
    c->one += magnitude == 1;
    return WEFT_OK;
}

static weft_status tensor_count(counts *c, const weft_layout_entry *entry, const uint8_t *before, const uint8_t *after)
{
    const weft_dtype_row *row = entry->row;
    const uint32_t shift = 8u * row->width - 1u - row->exponent_bits, mask = (1u << row->exponent_bits) - 1u;
    const uint32_t first = weft_kind_of(row->width, row->exponent_bits) * WEFT_EXPONENTS_MAX;
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < entry->coded && status == WEFT_OK; i++) {
        uint64_t old = weft_bytes_get(before + i * row->width, row->width);
        uint64_t new = weft_bytes_get(after + i * row->width, row->width);
        uint32_t cell = first + ((uint32_t)(old >> shift) & mask);
        c->all[cell]++;
        if (old != new)
            status = step_note(c, row, cell, old, new);
    }
    return status;
}

/* Bits of `part` marks among `all` places. */
static double coin_bits(double part, double all)
{
    double bits = 0;
    if (part > 0 && part < all)
        bits = part * log2(all / part) + (all - part) * log2(all / (all - part));
    return bits;
}

static int by_magnitude(const void *a, const void *b)
{
    const step *x = a, *y = b;
    return (x->magnitude > y->magnitude) - (x->magnitude < y->magnitude);
}

static int by_cell(const void *a, const void *b)
{
    const step *x = a, *y = b;
    int cell = (x->cell > y->cell) - (x->cell < y->cell);
    return cell ? cell : by_magnitude(a, b);
}

/* Bits of the magnitudes in the order that `compare` sorts: equal ones lie together, and their share of `total` (of
 * their cell's changes, or of all) makes their price. */
static double magnitude_bits(const counts *c, int (*compare)(const void *, const void *))
{
    double bits = 0;
    qsort(c->steps, c->count, sizeof *c->steps, compare);
    for (uint64_t i = 0, end; i < c->count; i = end) {
        for (end = i + 1; end < c->count && compare(&c->steps[i], &c->steps[end]) == 0;)
            end++;
        double same = (double)(end - i);
        double total = (double)(compare == by_cell ? c->changed[c->steps[i].cell] : c->count);
        bits += same * log2(total / same);
    }
    return bits;
}

static void floor_sum(counts *c, weft_bench_floor *floor)
{
    double all = 0, position = 0, changed = (double)c->count;
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        position += coin_bits((double)c->changed[cell], (double)c->all[cell]);
        all += (double)c->all[cell];
    }
    *floor = (weft_bench_floor){.elements = (uint64_t)all, .changed = c->count};
    if (c->count == 0)
        return;
    floor->position = position / changed;
    floor->position_free = coin_bits(changed, all) / changed;
    floor->direction = coin_bits((double)c->down, changed) / changed;
    floor->magnitude = magnitude_bits(c, by_cell) / changed;
    floor->magnitude_free = magnitude_bits(c, by_magnitude) / changed;
    floor->one_step = (double)c->one / changed;
}

weft_status weft_bench_floor_find(const weft_bench_pair *pair, weft_bench_floor *floor)
{
    counts *c = weft_mem_take(1, sizeof *c);
    if (!c)
        return weft_fail(WEFT_E_MEMORY, "no memory for counts");
    weft_status status = WEFT_OK;
    for (uint64_t t = 0; t < pair->count && status == WEFT_OK; t++)
        status = tensor_count(c, &pair->layout->entries[t], pair->pieces_before[t].data, pair->pieces_after[t].data);
    if (status == WEFT_OK)
        floor_sum(c, floor);
    weft_mem_give(c->steps);
    weft_mem_give(c);
    return status;
}
