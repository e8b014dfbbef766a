/* encode_tight.h - level tight from a list of changes.
 *
 *   class_rank    reads the base: elements of each class, ranks of the changes among those of their slice
 *   tight_count   sets of positions, exceptions and further ones as bits, and their sizes
 *   tight_write   directions and magnitudes; lists.h has the rest */
#ifndef WEFT_BACKENDS_KERNELS_ENCODE_TIGHT_H
#define WEFT_BACKENDS_KERNELS_ENCODE_TIGHT_H

#include "backends/kernels/classes.h"
#include "backends/kernels/lists.h"
#include "backends/kernels/pieces.h"

struct weft_rank_shared {
    weft_class_table table;
    weft_class_ranks ranks;
    weft_quad planes[WEFT_BLOCK];
    uint32_t carry[WEFT_K_CLASSES]; /* elements of the slice before the strip */
};

WEFT_DEVICE const weft_k_encode_classes *weft_classes_at(uint64_t address)
{
    return WEFT_AT(const weft_k_encode_classes, address);
}

WEFT_DEVICE uint64_t weft_k_before(const weft_k_changes *changes, uint32_t index)
{
    switch (changes->width) {
    case 1:
        return weft_element_load<1>(changes->before, index);
    case 2:
        return weft_element_load<2>(changes->before, index);
    case 4:
        return weft_element_load<4>(changes->before, index);
    default:
        return weft_element_load<8>(changes->before, index);
    }
}

/* The changes of a slice that a thread ranks: every WEFT_BLOCK-th. */
typedef struct weft_rank_next {
    uint32_t index, end;
    uint32_t position; /* of the next; after all if there is none */
} weft_rank_next;

WEFT_DEVICE void weft_rank_seek(weft_rank_next *next, const weft_k_changes *changes, uint32_t index)
{
    next->index = index;
    next->position = index < next->end ? WEFT_AT(const uint32_t, changes->position)[index] : ~0u;
}

/* Rank of a change: members of the class before the strip, in the chunks before, and before it in its own. */
WEFT_DEVICE uint32_t weft_rank_of(const weft_rank_shared *shared, const weft_k_encode_classes *job,
                                  const weft_k_changes *changes, uint32_t index, uint32_t in)
{
    const uint32_t cls = shared->table.of[(uint32_t)(weft_k_before(changes, index) >> job->shift) & job->mask];
    const uint32_t number = weft_class_number(cls), chunk = in / WEFT_CHUNK;
    const uint32_t below = weft_class_mask(shared->planes[chunk], cls) & ((1u << in % WEFT_CHUNK) - 1);
    return number << 16 | (shared->carry[number] + weft_ranks_below(&shared->ranks, number, chunk) + weft_ones(below));
}

WEFT_DEVICE void weft_rank_slice(weft_rank_shared *shared, const weft_k_encode_classes *job, const weft_k_slice *slice,
                                 uint32_t place, uint32_t end)
{
    const weft_k_changes *changes = WEFT_AT(const weft_k_changes, job->changes);
    const uint32_t thread = weft_thread();
    weft_rank_next next = {0, end, 0};
    weft_rank_seek(&next, changes, place + thread);
    for (uint32_t strip = 0; strip < slice->count; strip += WEFT_STRIP) {
        const uint32_t at = strip + thread * WEFT_CHUNK, left = slice->count > at ? slice->count - at : 0;
        const uint32_t count = left < WEFT_CHUNK ? left : WEFT_CHUNK, begin = slice->first + strip;
        const weft_quad planes =
            weft_planes_of(&shared->table, job->shift, job->mask, &job->base, slice->first + at, count);
        shared->planes[thread] = planes;
        weft_ranks_make(&shared->ranks, planes, count, job->classes);
        while (next.position < begin + WEFT_STRIP) {
            WEFT_AT(uint32_t, job->ranks)
            [next.index] = weft_rank_of(shared, job, changes, next.index, next.position - begin);
            weft_rank_seek(&next, changes, next.index + WEFT_BLOCK);
        }
        weft_barrier();
        if (thread < job->classes)
            shared->carry[thread] += shared->ranks.all[thread];
        weft_barrier();
    }
}

WEFT_KERNEL(class_rank)(const weft_k_class_rank *rows)
{
    WEFT_SHARED(weft_rank_shared, shared);
    const weft_k_class_rank *row = rows + weft_block() / WEFT_K_SLICES;
    const weft_k_diff *tile = WEFT_AT(const weft_k_diff, row->tile);
    const weft_k_encode_classes *job = weft_classes_at(row->job);
    const weft_k_slice slice = weft_slice_of(tile);
    if (slice.count == 0)
        return;
    if (weft_thread() < WEFT_K_CLASSES)
        shared.carry[weft_thread()] = 0;
    weft_class_table_load(&shared.table, job->of, job->mask);
    const uint32_t *counts = WEFT_AT(const uint32_t, tile->counts) + slice.number;
    weft_rank_slice(&shared, job, &slice, counts[0], counts[1]);
    const uint32_t number = slice.first / WEFT_K_SLICE;
    if (weft_thread() < job->classes)
        WEFT_AT(uint32_t, job->counts)[weft_thread() * (job->slices + 1) + number] = shared.carry[weft_thread()];
}

/* ---- sets */

/* The magnitude's code at a Rice parameter: core/codec/tight.h holds the law. */
typedef struct weft_k_code {
    uint32_t unary, low_count;
    uint64_t low;
} weft_k_code;

WEFT_DEVICE weft_k_code weft_k_code_of(uint64_t value, uint32_t rice)
{
    const uint64_t quotient = value >> rice;
    if (quotient < 8)
        return {(uint32_t)quotient, rice, value & ((1ull << rice) - 1)};
    const uint32_t order = rice + 4;
    const uint64_t y = value - (8ull << rice) + (1ull << order);
    const uint32_t length = weft_highest(y);
    return {8 + length - order, length, y ^ 1ull << length};
}

/* One change as level tight sees it. */
typedef struct weft_tight_change {
    bool down, exceptional, large, coded;
    weft_k_code code; /* of its magnitude; none: no bits */
} weft_tight_change;

WEFT_DEVICE weft_tight_change weft_tight_change_of(const weft_k_encode_classes *job, const weft_k_changes *changes,
                                                   uint32_t index)
{
    const weft_k_steps steps = weft_k_steps_any(changes, index);
    const uint32_t exponent = (uint32_t)(weft_k_before(changes, index) >> job->shift) & job->mask;
    weft_tight_change made = {steps.down, steps.magnitude > 1, false, false, {0, 0, 0}};
    made.large = made.exceptional && exponent > job->magnitude_base;
    made.coded = made.exceptional && (steps.magnitude > 2 || !made.large);
    if (made.coded) {
        const uint32_t bits = job->magnitude_base - exponent;
        const uint32_t rice = made.large ? 0 : bits < job->rice_most ? bits : job->rice_most;
        made.code = weft_k_code_of(steps.magnitude - (made.large ? 3 : 2), rice);
    }
    return made;
}

struct weft_tight_shared {
    weft_block_sums sums;
    uint32_t begin[WEFT_K_CLASSES];            /* bit at which a class begins */
    uint32_t warp[WEFT_WARPS][WEFT_K_CLASSES]; /* changes of a warp */
    weft_k_tight_counts counts;
};

WEFT_DEVICE void weft_tight_begin(weft_tight_shared *shared, const weft_k_encode_classes *job)
{
    const uint32_t thread = weft_thread();
    uint32_t *words = (uint32_t *)&shared->counts;
    for (uint32_t i = thread; i < sizeof(weft_k_tight_counts) / 4; i += WEFT_BLOCK)
        words[i] = 0;
    weft_barrier();
    if (thread < job->classes)
        shared->counts.population[thread] =
            WEFT_AT(const uint32_t, job->counts)[thread * (job->slices + 1) + job->slices];
    weft_barrier();
    if (thread == 0) {
        uint32_t at = 0;
        for (uint32_t c = 0; c < WEFT_K_CLASSES; c++) {
            shared->begin[c] = at;
            at += (shared->counts.population[c] + WEFT_K_SET_ALIGN - 1) / WEFT_K_SET_ALIGN * WEFT_K_SET_ALIGN;
        }
    }
    weft_barrier();
}

/* Changes of the same class before this one, in all; the class's are counted. Collective. */
WEFT_DEVICE uint32_t weft_tight_rank(weft_tight_shared *shared, uint32_t cls, bool there)
{
    const uint32_t warp = weft_thread() / WEFT_LANES;
    uint64_t same = weft_ballot(there);
    for (uint32_t b = 0; b < 4; b++) {
        const uint64_t set = weft_ballot(cls >> b & 1);
        same &= cls >> b & 1 ? set : ~set;
    }
    uint32_t rank = weft_ones(same & ((1ull << weft_lane()) - 1));
    for (uint32_t c = weft_lane(); c < WEFT_K_CLASSES; c += WEFT_LANES)
        shared->warp[warp][c] = 0;
    weft_barrier();
    if (there && rank == 0)
        shared->warp[warp][cls] = weft_ones(same);
    weft_barrier();
    for (uint32_t w = 0; w < warp; w++)
        rank += shared->warp[w][cls];
    rank += shared->counts.changed[cls];
    weft_barrier();
    if (weft_thread() < WEFT_K_CLASSES) {
        for (uint32_t w = 0; w < WEFT_WARPS; w++)
            shared->counts.changed[weft_thread()] += shared->warp[w][weft_thread()];
    }
    weft_barrier();
    return rank;
}

/* Sets the bits of one change for each thread; `large` large exceptions come before. Collective. */
WEFT_DEVICE uint32_t weft_tight_sets(weft_tight_shared *shared, const weft_k_tight_count *row,
                                     const weft_k_encode_classes *job, const weft_k_changes *changes, uint32_t index,
                                     uint32_t large)
{
    const bool there = index < changes->count;
    const uint32_t ranked = there ? WEFT_AT(const uint32_t, job->ranks)[index] : 0, cls = ranked >> 16;
    const weft_tight_change change =
        there ? weft_tight_change_of(job, changes, index) : weft_tight_change{false, false, false, false, {0, 0, 0}};
    const uint32_t rank = weft_tight_rank(shared, cls, there);
    uint32_t all;
    const uint32_t before = weft_block_prefix(&shared->sums, change.large, &all);
    if (there) {
        const uint32_t slice = WEFT_AT(const uint32_t, changes->position)[index] / WEFT_K_SLICE;
        const uint32_t base = WEFT_AT(const uint32_t, job->counts)[cls * (job->slices + 1) + slice];
        weft_k_put(row->positions, (uint64_t)shared->begin[cls] + base + (ranked & 0xffff), 1);
    }
    if (change.exceptional) {
        weft_k_put(row->exceptions, (uint64_t)shared->begin[cls] + rank, 1);
        weft_add32(&shared->counts.exceptions[cls], 1);
    }
    if (change.large && change.coded) {
        weft_k_put(row->further, (uint64_t)large + before, 1);
        weft_add32(&shared->counts.further, 1);
    }
    if (change.coded) {
        weft_add32(&shared->counts.unary_bits, change.code.unary + 1);
        weft_add32(&shared->counts.magnitude_bits, change.code.low_count);
    }
    return all;
}

WEFT_KERNEL(tight_count)(const weft_k_tight_count *rows)
{
    WEFT_SHARED(weft_tight_shared, shared);
    const weft_k_tight_count *row = rows + weft_block();
    const weft_k_encode_classes *job = weft_classes_at(row->job);
    const weft_k_changes *changes = WEFT_AT(const weft_k_changes, job->changes);
    uint32_t *out = WEFT_AT(uint32_t, row->counts), large = 0;
    weft_tight_begin(&shared, job);
    for (uint32_t first = 0; first < changes->count; first += WEFT_BLOCK)
        large += weft_tight_sets(&shared, row, job, changes, first + weft_thread(), large);
    if (weft_thread() == 0)
        shared.counts.large = large;
    weft_barrier();
    for (uint32_t i = weft_thread(); i < sizeof(weft_k_tight_counts) / 4; i += WEFT_BLOCK)
        out[i] = ((const uint32_t *)&shared.counts)[i];
}

WEFT_KERNEL(tight_write)(const weft_k_tight_write *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_tight_write *row = rows + weft_block();
    const weft_k_encode_classes *job = weft_classes_at(row->job);
    const weft_k_changes *changes = WEFT_AT(const weft_k_changes, job->changes);
    uint32_t unary = 0, lows = 0;
    for (uint32_t first = 0; first < changes->count; first += WEFT_BLOCK) {
        const uint32_t i = first + weft_thread();
        weft_tight_change change = {false, false, false, false, {0, 0, 0}};
        if (i < changes->count)
            change = weft_tight_change_of(job, changes, i);
        uint32_t ones, bits;
        const uint32_t one = weft_block_prefix(&sums, change.coded ? change.code.unary + 1 : 0, &ones);
        const uint32_t low = weft_block_prefix(&sums, change.code.low_count, &bits);
        if (change.down)
            weft_k_put(row->payload, (uint64_t)row->directions_at + i, 1);
        if (change.coded) {
            const uint64_t at = (uint64_t)row->magnitudes_at + lows + low;
            weft_k_put(row->payload, (uint64_t)row->unary_at + unary + one + change.code.unary, 1);
            weft_k_put(row->payload, at, (uint32_t)change.code.low);
            weft_k_put(row->payload, at + 32, (uint32_t)(change.code.low >> 32));
        }
        unary += ones;
        lows += bits;
    }
}

#endif
