/* encode_tight.h - level tight from a list of changes.
 *
 *   class_rank    reads the base: elements of each class, ranks of the changes among those of their slice
 *   tight_count   sets of positions, exceptions and further ones as bits, and their sizes
 *   tight_write   directions and magnitudes; lists.h has the rest */
#ifndef WEFT_BACKENDS_KERNELS_ENCODE_TIGHT_H
#define WEFT_BACKENDS_KERNELS_ENCODE_TIGHT_H

#include "backends/kernels/decode_tight.h"
#include "backends/kernels/lists.h"

#define WEFT_RANK_EACH  32u /* elements of a thread, one behind the other: a word of the bitmap */
#define WEFT_RANK_STRIP (WEFT_RANK_EACH * WEFT_BLOCK)
#define WEFT_RANK_PAIRS (WEFT_K_CLASSES / 2)

struct weft_rank_shared {
    weft_block_sums sums;
    uint8_t of[WEFT_K_EXPONENTS];
    uint32_t before[WEFT_RANK_PAIRS][WEFT_BLOCK]; /* in the strip, of two classes in 16 bits each */
    uint32_t strip[WEFT_RANK_PAIRS];              /* the same of the whole strip */
    uint32_t carry[WEFT_K_CLASSES];               /* elements of the slice before the strip */
};

WEFT_DEVICE const weft_k_encode_classes *weft_classes_at(uint64_t address)
{
    return WEFT_AT(const weft_k_encode_classes, address);
}

/* A thread's elements of one strip. */
typedef struct weft_rank_share {
    uint32_t first, count; /* elements of the job */
    uint32_t word;         /* those that changed */
    uint32_t place;        /* of the first of them in the list */
} weft_rank_share;

template <unsigned width>
WEFT_DEVICE uint32_t weft_rank_class(const weft_rank_shared *shared, const weft_k_encode_classes *job,
                                     const weft_quad &quad, uint32_t index)
{
    return shared->of[(uint32_t)(weft_quad_element<width>(quad, index) >> job->shift) & job->mask];
}

template <unsigned width>
WEFT_DEVICE weft_class_counts weft_rank_count(const weft_rank_shared *shared, const weft_k_encode_classes *job,
                                              const weft_rank_share *share)
{
    weft_class_counts counts = {0, 0};
    if (share->count == 0)
        return counts;
    weft_walk walk = weft_walk_from<width>(&job->base, share->first);
    for (uint32_t done = 0; done < share->count; done += 16 / width) {
        const weft_quad quad = weft_walk_quad<width>(&walk, share->count - done);
        for (uint32_t i = 0; i < 16 / width; i++) {
            if (done + i < share->count)
                weft_counts_add(&counts, weft_rank_class<width>(shared, job, quad, i));
        }
    }
    return counts;
}

/* Ranks of a thread's changes: members of the class before the strip, before the thread, and before the element. */
template <unsigned width>
WEFT_DEVICE void weft_rank_put(const weft_rank_shared *shared, const weft_k_encode_classes *job,
                               const weft_rank_share *share)
{
    weft_class_counts counts = {0, 0};
    uint32_t place = share->place;
    weft_walk walk = weft_walk_from<width>(&job->base, share->first);
    for (uint32_t done = 0; done < share->count; done += 16 / width) {
        const weft_quad quad = weft_walk_quad<width>(&walk, share->count - done);
        for (uint32_t i = 0; i < 16 / width; i++) {
            if (done + i >= share->count)
                continue;
            const uint32_t c = weft_rank_class<width>(shared, job, quad, i);
            if (share->word >> (done + i) & 1) {
                const uint32_t pair = shared->before[c / 2][weft_thread()];
                const uint32_t before = c % 2 ? pair >> 16 : pair & 0xffff;
                WEFT_AT(uint32_t, job->ranks)
                [place++] = c << 16 | (shared->carry[c] + before + weft_counts_get(&counts, c));
            }
            weft_counts_add(&counts, c);
        }
    }
}

template <unsigned width>
WEFT_DEVICE void weft_rank_strip(weft_rank_shared *shared, const weft_k_encode_classes *job,
                                 const weft_rank_share *share)
{
    const weft_class_counts counts = weft_rank_count<width>(shared, job, share);
    for (uint32_t pair = 0; 2 * pair < job->classes; pair++) {
        uint32_t all;
        shared->before[pair][weft_thread()] = weft_block_prefix(&shared->sums, weft_counts_pair(&counts, pair), &all);
        if (weft_thread() == 0)
            shared->strip[pair] = all;
    }
    if (share->word != 0)
        weft_rank_put<width>(shared, job, share);
    weft_barrier();
    if (weft_thread() < job->classes) {
        const uint32_t pair = shared->strip[weft_thread() / 2];
        shared->carry[weft_thread()] += weft_thread() % 2 ? pair >> 16 : pair & 0xffff;
    }
    weft_barrier();
}

template <unsigned width>
WEFT_DEVICE void weft_rank_slice(weft_rank_shared *shared, const weft_k_encode_classes *job, const weft_k_diff *tile,
                                 const weft_slice *slice, uint32_t place)
{
    const uint32_t *bitmap = WEFT_AT(const uint32_t, tile->bitmap) + slice->number * (WEFT_K_SLICE / 32);
    for (uint32_t strip = 0; strip < slice->count; strip += WEFT_RANK_STRIP) {
        const uint32_t at = strip + weft_thread() * WEFT_RANK_EACH, left = slice->count > at ? slice->count - at : 0;
        const uint32_t word = left > 0 ? bitmap[at / 32] : 0;
        uint32_t all;
        const uint32_t before = weft_block_prefix(&shared->sums, weft_ones(word), &all);
        const weft_rank_share share = {slice->first + at, left < WEFT_RANK_EACH ? left : WEFT_RANK_EACH, word,
                                       place + before};
        weft_rank_strip<width>(shared, job, &share);
        place += all;
    }
}

WEFT_KERNEL(class_rank)(const weft_k_class_rank *rows)
{
    WEFT_SHARED(weft_rank_shared, shared);
    const weft_k_class_rank *row = rows + weft_block() / WEFT_K_SLICES;
    const weft_k_diff *tile = WEFT_AT(const weft_k_diff, row->tile);
    const weft_k_encode_classes *job = weft_classes_at(row->job);
    const weft_slice slice = weft_slice_of(tile);
    if (slice.count == 0)
        return;
    for (uint32_t e = weft_thread(); e <= job->mask; e += WEFT_BLOCK)
        shared.of[e] = WEFT_AT(const uint8_t, job->of)[e];
    if (weft_thread() < WEFT_K_CLASSES)
        shared.carry[weft_thread()] = 0;
    weft_barrier();
    const uint32_t place = WEFT_AT(const uint32_t, tile->counts)[slice.number];
    switch (tile->width) {
    case 1:
        weft_rank_slice<1>(&shared, job, tile, &slice, place);
        break;
    case 2:
        weft_rank_slice<2>(&shared, job, tile, &slice, place);
        break;
    case 4:
        weft_rank_slice<4>(&shared, job, tile, &slice, place);
        break;
    default:
        weft_rank_slice<8>(&shared, job, tile, &slice, place);
    }
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
