/* encode_fast.h - level fast from a list of changes, a block for each job: first what its parameters are decided by,
 * then its planes. */
#ifndef WEFT_BACKENDS_KERNELS_ENCODE_FAST_H
#define WEFT_BACKENDS_KERNELS_ENCODE_FAST_H

#include "backends/kernels/gaps.h"

typedef struct weft_fast_shared {
    weft_block_sums sums;
    weft_k_fast_counts counts;
    uint32_t still; /* as in weft_k_fast_made */
} weft_fast_shared;

WEFT_DEVICE void weft_fast_clear(weft_fast_shared *shared)
{
    uint32_t *words = (uint32_t *)&shared->counts;
    for (uint32_t i = weft_thread(); i < sizeof(weft_k_fast_counts) / 4; i += WEFT_BLOCK)
        words[i] = 0;
    if (weft_thread() == 0)
        shared->still = 0;
    weft_barrier();
}

/* Lists the exceptions; returns how many. */
WEFT_DEVICE uint32_t weft_fast_exceptions(weft_fast_shared *shared, const weft_k_changes *changes, uint32_t *ranks)
{
    const uint32_t *position = WEFT_AT(const uint32_t, changes->position);
    const uint32_t bits = weft_k_length(changes->elements);
    uint32_t found = 0, ones = 0;
    for (uint32_t first = 0; first < changes->count; first += WEFT_BLOCK) {
        const uint32_t i = first + weft_thread();
        const bool there = i < changes->count;
        const uint64_t magnitude = there ? weft_k_steps_any(changes, i).magnitude : 1;
        const bool exceptional = magnitude > 1;
        uint32_t all;
        if (magnitude == 0)
            weft_or32(&shared->still, 1);
        const uint32_t before = weft_block_prefix(&shared->sums, exceptional, &all);
        if (exceptional)
            ranks[found + before] = i;
        found += all;
        weft_k_ones_count(there ? weft_k_gap(position, i) : 0, bits, &ones);
    }
    if (weft_lane() < 32)
        weft_add32(&shared->counts.gap_ones[weft_lane()], ones);
    return found;
}

/* Bits of a number below the ones with which it begins in binary: all of them are ones where it is 2^n - 1. */
WEFT_DEVICE uint32_t weft_k_under(uint64_t number, uint32_t length)
{
    const uint64_t zeros = ~number & (length < 64 ? (1ull << length) - 1 : ~0ull);
    return weft_k_length(zeros);
}

WEFT_DEVICE void weft_fast_magnitudes(weft_fast_shared *shared, const weft_k_changes *changes, const uint32_t *ranks,
                                      uint32_t exceptions)
{
    const uint32_t bits = weft_k_length(changes->count);
    uint32_t ones = 0;
    for (uint32_t first = 0; first < exceptions; first += WEFT_BLOCK) {
        const uint32_t j = first + weft_thread();
        const bool there = j < exceptions;
        if (there) {
            const uint64_t excess = weft_k_steps_any(changes, ranks[j]).magnitude - 2;
            const uint32_t length = weft_k_length(excess);
            weft_add32(&shared->counts.length[length], 1);
            weft_add32(&shared->counts.under[weft_k_under(excess, length)], 1);
        }
        weft_k_ones_count(there ? weft_k_gap(ranks, j) : 0, bits, &ones);
    }
    if (weft_lane() < 32)
        weft_add32(&shared->counts.rank_ones[weft_lane()], ones);
}

/* Lists the exceptions and leaves all counts in shared memory. Collective. */
WEFT_DEVICE void weft_fast_counts(weft_fast_shared *shared, const weft_k_changes *changes, uint32_t *ranks)
{
    weft_fast_clear(shared);
    const uint32_t exceptions = weft_fast_exceptions(shared, changes, ranks);
    weft_barrier(); /* the ranks are written */
    weft_fast_magnitudes(shared, changes, ranks, exceptions);
    if (weft_thread() == 0)
        shared->counts.exceptions = exceptions;
    weft_barrier();
}

/* Ranks, the rest of the unary plane from bit `used` on, and magnitudes. */
WEFT_DEVICE void weft_fast_exceptions_write(weft_block_sums *sums, const weft_k_fast_planes *row,
                                            const weft_k_changes *changes, uint32_t used)
{
    const uint32_t *ranks = WEFT_AT(const uint32_t, row->ranks);
    const uint32_t s = row->rank_bits, q = row->magnitude_bits;
    uint32_t lows = 0;
    for (uint32_t first = 0; first < row->exceptions; first += WEFT_BLOCK) {
        const uint32_t j = first + weft_thread();
        const bool there = j < row->exceptions;
        const uint32_t gap = there ? weft_k_gap(ranks, j) : 0, high = gap >> s;
        const uint64_t y = there ? weft_k_steps_any(changes, ranks[j]).magnitude - 2 + (1ull << q) : 1ull << q;
        const uint32_t length = weft_highest(y), more = length - q;
        uint32_t all, bits;
        const uint32_t before = weft_block_prefix(sums, there ? high + more + 2 : 0, &all);
        const uint32_t low = lows + weft_block_prefix(sums, there ? length : 0, &bits);
        if (there) {
            const uint64_t unary = 8 * (uint64_t)row->unary_at + used + before + high;
            const uint64_t at = 8 * (uint64_t)row->magnitudes_at + low, value = y ^ 1ull << length;
            weft_k_put(row->payload, 8 * (uint64_t)row->ranks_at + (uint64_t)j * s, gap & ((1u << s) - 1));
            weft_k_put(row->payload, unary, 1);
            weft_k_put(row->payload, unary + 1 + more, 1);
            weft_k_put(row->payload, at, (uint32_t)value);
            weft_k_put(row->payload, at + 32, (uint32_t)(value >> 32));
        }
        used += all;
        lows += bits;
    }
}

/* Sets the ones of a payload that is all zero. Collective. */
WEFT_DEVICE void weft_fast_planes(weft_block_sums *sums, const weft_k_fast_planes *row, const weft_k_changes *changes)
{
    const uint32_t used =
        weft_k_gaps_put<true>(sums, changes, WEFT_AT(const uint32_t, changes->position), changes->count, row->gap_bits,
                              row->payload, 0, 8 * (uint64_t)row->unary_at);
    weft_fast_exceptions_write(sums, row, changes, used);
}

#endif
