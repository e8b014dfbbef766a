/* encode_tight.h - level tight from a list of changes.
 *
 *   class_rank    reads the base: elements of each class, ranks of the changes among those of their slice
 *   tight_count   sets of positions, exceptions and further ones as bits, their sizes, and the lists of them
 *   list_make     members (lists.h)
 *   tight_frame   parameters, lists, directions and magnitudes */
#ifndef WEFT_BACKENDS_KERNELS_ENCODE_TIGHT_H
#define WEFT_BACKENDS_KERNELS_ENCODE_TIGHT_H

#include "backends/kernels/classes.h"
#include "backends/kernels/encode_frame.h"
#include "backends/kernels/lists.h"
#include "backends/kernels/pieces.h"

struct weft_rank_shared {
    weft_class_table table;
    weft_class_ranks ranks;
    weft_quad planes[WEFT_BLOCK];
    uint32_t carry[WEFT_K_CLASSES]; /* elements of the slice before the strip */
};

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
WEFT_DEVICE uint32_t weft_rank_of(const weft_rank_shared *shared, const weft_k_tight_job *job,
                                  const weft_k_changes *changes, uint32_t index, uint32_t in)
{
    const uint32_t cls = shared->table.of[(uint32_t)(weft_k_before(changes, index) >> job->shift) & job->mask];
    const uint32_t number = weft_class_number(cls), chunk = in / WEFT_CHUNK;
    const uint32_t below = weft_class_mask(shared->planes[chunk], cls) & ((1u << in % WEFT_CHUNK) - 1);
    return number << 16 | (shared->carry[number] + weft_ranks_below(&shared->ranks, number, chunk) + weft_ones(below));
}

WEFT_DEVICE void weft_rank_slice(weft_rank_shared *shared, const weft_k_tight_job *job, const weft_k_slice *slice,
                                 uint32_t place, uint32_t end)
{
    const weft_k_changes *changes = WEFT_AT(const weft_k_changes, job->job);
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
    const weft_k_tight_job *job = WEFT_AT(const weft_k_tight_job, row->job);
    const weft_k_slice slice = weft_slice_of(tile);
    if (slice.count == 0 || WEFT_AT(const weft_k_changes, job->job)->count == 0)
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

WEFT_DEVICE weft_tight_change weft_tight_change_of(const weft_k_tight_job *job, const weft_k_changes *changes,
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

/* Clears the sets and the counts, and puts in place of each slice's elements of a class those before it. Collective. */
WEFT_DEVICE void weft_tight_begin(weft_tight_shared *shared, const weft_k_tight_job *job, const weft_k_changes *changes)
{
    const uint32_t thread = weft_thread();
    uint32_t *words = (uint32_t *)&shared->counts;
    for (uint32_t i = thread; i < sizeof(weft_k_tight_counts) / 4; i += WEFT_BLOCK)
        words[i] = 0;
    weft_k_quads_clear(job->sets, (uint32_t)(weft_k_sets_bytes(changes->elements, changes->count) / 16));
    weft_barrier();
    for (uint32_t c = 0; c < job->classes; c++) {
        uint32_t *slices = WEFT_AT(uint32_t, job->counts) + c * (job->slices + 1);
        weft_scan_words(&shared->sums, slices, job->slices);
        if (thread == 0)
            shared->counts.population[c] = slices[job->slices];
    }
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
WEFT_DEVICE uint32_t weft_tight_sets(weft_tight_shared *shared, const weft_k_tight_job *job,
                                     const weft_k_changes *changes, uint32_t index, uint32_t large)
{
    const uint64_t exceptions = job->sets + weft_k_class_bytes(changes->elements);
    const uint64_t further = exceptions + weft_k_class_bytes(changes->elements);
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
        weft_k_put(job->sets, (uint64_t)shared->begin[cls] + base + (ranked & 0xffff), 1);
    }
    if (change.exceptional) {
        weft_k_put(exceptions, (uint64_t)shared->begin[cls] + rank, 1);
        weft_add32(&shared->counts.exceptions[cls], 1);
    }
    if (change.large && change.coded) {
        weft_k_put(further, (uint64_t)large + before, 1);
        weft_add32(&shared->counts.further, 1);
    }
    if (change.coded) {
        weft_add32(&shared->counts.unary_bits, change.code.unary + 1);
        weft_add32(&shared->counts.magnitude_bits, change.code.low_count);
    }
    return all;
}

/* Says of a list which set it is of, and of which members. Returns their number. */
WEFT_DEVICE uint32_t weft_set_list_put(weft_k_set_list *list, uint64_t bits, uint64_t members, uint32_t size,
                                       uint32_t universe)
{
    const uint32_t inverted = 2 * (uint64_t)size > universe, count = inverted ? universe - size : size;
    list->bits = bits;
    list->members = members;
    list->universe = universe;
    list->count = count;
    list->inverted = inverted;
    list->there = size > 0;
    return count;
}

/* Finds the lists of the payload, in its order. By one thread. */
WEFT_DEVICE void weft_tight_lists(const weft_tight_shared *shared, const weft_k_tight_job *job, uint32_t elements)
{
    const weft_k_tight_counts *counts = &shared->counts;
    weft_k_set_list *lists = WEFT_AT(weft_k_set_list, job->lists), *further = lists + 2 * WEFT_K_CLASSES;
    const uint64_t sets = weft_k_class_bytes(elements);
    uint64_t members = job->members;
    for (uint32_t c = 0; c < WEFT_K_CLASSES; c++)
        members += 4ull * weft_set_list_put(lists + c, job->sets + shared->begin[c] / 8, members, counts->changed[c],
                                            counts->population[c]);
    uint32_t exceptional = 0;
    for (uint32_t c = 0; c < WEFT_K_CLASSES; c++) {
        members += 4ull * weft_set_list_put(lists + WEFT_K_CLASSES + c, job->sets + sets + shared->begin[c] / 8,
                                            members, counts->exceptions[c], counts->changed[c]);
        exceptional += counts->exceptions[c];
    }
    weft_set_list_put(further, job->sets + 2 * sets, members, counts->further, counts->large);
    further->there = exceptional > 0;
}

WEFT_KERNEL(tight_count)(const weft_k_tight_count *rows)
{
    WEFT_SHARED(weft_tight_shared, shared);
    const weft_k_tight_job *job = rows + weft_block();
    const weft_k_changes *changes = WEFT_AT(const weft_k_changes, job->job);
    uint32_t *out = (uint32_t *)&job->numbers, large = 0;
    if (changes->count == 0)
        return;
    weft_tight_begin(&shared, job, changes);
    for (uint32_t first = 0; first < changes->count; first += WEFT_BLOCK)
        large += weft_tight_sets(&shared, job, changes, first + weft_thread(), large);
    if (weft_thread() == 0)
        shared.counts.large = large;
    weft_barrier();
    for (uint32_t i = weft_thread(); i < sizeof(weft_k_tight_counts) / 4; i += WEFT_BLOCK)
        out[i] = ((const uint32_t *)&shared.counts)[i];
    if (weft_thread() == 0)
        weft_tight_lists(&shared, job, changes->elements);
}

/* ---- planes */

/* A payload that is about to be written: of each list its parameter, and how many bits its high parts take. */
typedef struct weft_tight_chosen {
    uint32_t low_bits[WEFT_K_TIGHT_LISTS], unary[WEFT_K_TIGHT_LISTS];
    uint32_t parameters;                                      /* of the header */
    uint32_t directions_at, lows_at, unary_at, magnitudes_at; /* bits of the payload */
    uint32_t bytes;                                           /* 0: not worth a frame */
} weft_tight_chosen;

/* Chooses a list's parameter. By one thread for each list. */
WEFT_DEVICE void weft_tight_list_choose(weft_tight_chosen *chosen, const weft_k_set_list *list, uint32_t index)
{
    uint64_t highs = 0;
    chosen->low_bits[index] = chosen->unary[index] = 0;
    if (list->count == 0)
        return;
    chosen->low_bits[index] =
        weft_k_gap_bits(list->gap_ones, list->count, weft_k_rice(list->universe, list->count), &highs);
    chosen->unary[index] = (uint32_t)highs + list->count;
}

/* Places the planes, as core/codec/tight.h has them. By one thread. */
WEFT_DEVICE void weft_tight_choose(weft_tight_chosen *chosen, const weft_k_tight_job *job, const weft_k_set_list *lists,
                                   uint32_t changed)
{
    uint64_t low_bits = 0, unary = job->numbers.unary_bits;
    uint32_t descriptors = 0, parameters = 0;
    for (uint32_t i = 0; i < WEFT_K_TIGHT_LISTS; i++) {
        low_bits += (uint64_t)lists[i].count * chosen->low_bits[i];
        unary += chosen->unary[i];
        descriptors += lists[i].there;
        parameters |= i < 2 * WEFT_K_CLASSES ? lists[i].there << i : 0;
    }
    const uint64_t lows_at = 3ull * descriptors + (changed + 7) / 8, unary_at = lows_at + (low_bits + 7) / 8;
    const uint64_t magnitudes_at = unary_at + (unary + 7) / 8;
    const uint64_t bytes = (magnitudes_at + (job->numbers.magnitude_bits + 7) / 8 + 3) / 4 * 4;
    chosen->parameters = parameters;
    chosen->directions_at = 24 * descriptors;
    chosen->lows_at = (uint32_t)(8 * lows_at);
    chosen->unary_at = (uint32_t)(8 * unary_at);
    chosen->magnitudes_at = (uint32_t)(8 * magnitudes_at);
    chosen->bytes = bytes <= job->payload.room ? (uint32_t)bytes : 0;
}

/* Writes descriptors, and the gaps of all lists. Returns where the magnitudes' unary numbers begin. Collective. */
WEFT_DEVICE uint32_t weft_tight_lists_write(weft_block_sums *sums, const weft_tight_chosen *chosen,
                                            const weft_k_set_list *lists, uint64_t payload)
{
    uint32_t at = 0, lows = chosen->lows_at, unary = chosen->unary_at;
    for (uint32_t i = 0; i < WEFT_K_TIGHT_LISTS; i++) {
        const weft_k_set_list *list = lists + i;
        if (list->there && weft_thread() == 0)
            weft_k_put(payload, at, list->count | chosen->low_bits[i] << 18 | list->inverted << 23);
        at += list->there ? 24 : 0;
        if (list->count == 0)
            continue;
        weft_k_gaps_put<false>(sums, nullptr, WEFT_AT(const uint32_t, list->members), list->count, chosen->low_bits[i],
                               payload, lows, unary);
        lows += list->count * chosen->low_bits[i];
        unary += chosen->unary[i];
    }
    return unary;
}

/* Writes directions and magnitudes. Collective. */
WEFT_DEVICE void weft_tight_changes_write(weft_block_sums *sums, const weft_tight_chosen *chosen,
                                          const weft_k_tight_job *job, const weft_k_changes *changes, uint32_t unary)
{
    const uint64_t payload = job->payload.device;
    uint32_t lows = chosen->magnitudes_at;
    for (uint32_t first = 0; first < changes->count; first += WEFT_BLOCK) {
        const uint32_t i = first + weft_thread();
        weft_tight_change change = {false, false, false, false, {0, 0, 0}};
        if (i < changes->count)
            change = weft_tight_change_of(job, changes, i);
        uint32_t ones, bits;
        const uint32_t one = unary + weft_block_prefix(sums, change.coded ? change.code.unary + 1 : 0, &ones);
        const uint32_t at = lows + weft_block_prefix(sums, change.code.low_count, &bits);
        if (change.down)
            weft_k_put(payload, (uint64_t)chosen->directions_at + i, 1);
        if (change.coded) {
            weft_k_put(payload, (uint64_t)one + change.code.unary, 1);
            weft_k_put(payload, at, (uint32_t)change.code.low);
            weft_k_put(payload, (uint64_t)at + 32, (uint32_t)(change.code.low >> 32));
        }
        unary += ones;
        lows += bits;
    }
}

struct weft_tight_frame_shared {
    weft_block_sums sums;
    weft_tight_chosen chosen;
};

WEFT_KERNEL(tight_frame)(const weft_k_tight_frame *rows)
{
    WEFT_SHARED(weft_tight_frame_shared, shared);
    const weft_k_tight_job *job = rows + weft_block();
    const weft_k_changes *changes = WEFT_AT(const weft_k_changes, job->job);
    const weft_k_set_list *lists = WEFT_AT(const weft_k_set_list, job->lists);
    if (changes->count == 0)
        return;
    if (weft_thread() < WEFT_K_TIGHT_LISTS)
        weft_tight_list_choose(&shared.chosen, lists + weft_thread(), weft_thread());
    weft_barrier();
    if (weft_thread() == 0)
        weft_tight_choose(&shared.chosen, job, lists, changes->count);
    weft_barrier();
    const weft_tight_chosen *chosen = &shared.chosen;
    weft_k_quads_clear(job->payload.device, weft_k_quads(chosen->bytes));
    weft_barrier();
    if (chosen->bytes > 0) {
        const uint32_t unary = weft_tight_lists_write(&shared.sums, chosen, lists, job->payload.device);
        weft_tight_changes_write(&shared.sums, chosen, job, changes, unary);
    }
    weft_barrier();
    weft_frame_leave(&job->payload, chosen->bytes, chosen->parameters, 0);
}

#endif
