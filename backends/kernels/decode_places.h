/* decode_places.h - level tight, from lists to positions, part by part of the base.
 *
 * The part's elements stand class by class, and so do the bits that the lists set. The changes have numbers in that
 * order; of each, the element is sought that has its rank, so that elements that did not change cost nothing here. Then
 * they are listed in order of position. */
#ifndef WEFT_BACKENDS_KERNELS_DECODE_PLACES_H
#define WEFT_BACKENDS_KERNELS_DECODE_PLACES_H

#include "backends/kernels/decode_classes.h"
#include "backends/kernels/gather.h"

/* Members of the lists of one sort that belong to the part, list after list. */
struct weft_place_lists {
    uint32_t before[WEFT_K_CLASSES]; /* members of the classes before */
    uint32_t from[WEFT_K_CLASSES];   /* the first of the class's list */
    uint32_t start[WEFT_K_CLASSES];  /* its rank 0 in the part */
    uint32_t bit[WEFT_K_CLASSES];    /* which has this bit */
    uint32_t inverted;               /* a bit a class */
    uint32_t all;
    uint32_t end; /* after the last bit */
};

struct weft_places_shared {
    weft_class_ranks ranks;
    weft_quad planes[WEFT_BLOCK];
    weft_place_lists positions, exceptions;
    uint32_t changed[WEFT_BLOCK];     /* bits of the elements, class by class */
    uint32_t exceptional[WEFT_BLOCK]; /* bits of the changes, class by class */
    uint32_t found[WEFT_BLOCK];       /* bits of the elements that changed, in order of position */
    uint32_t odd[WEFT_BLOCK];         /* and of those that are exceptions */
    weft_seek seek;
    uint32_t first; /* number of the part's first change */
};

/* Sum over the classes below, for lanes that are a class each. Whole warps. */
WEFT_DEVICE uint32_t weft_classes_below(uint32_t value)
{
    return weft_prefix_32(value) - value;
}

/* Figures that a thread has of its class; zero for a thread without one. */
typedef struct weft_place_class {
    uint32_t start, count; /* rank of the first element in the part, and how many */
    weft_k_bound from, to;
    bool positions_inverted, exceptions_inverted;
} weft_place_class;

WEFT_DEVICE weft_place_class weft_place_class_of(const weft_k_tight *tight, uint32_t index, uint32_t cls)
{
    weft_place_class found = {0, 0, {0, 0, 0, 0}, {0, 0, 0, 0}, false, false};
    if (cls >= tight->classes)
        return found;
    const uint32_t at = index * WEFT_K_CLASSES + cls;
    const uint32_t *starts = WEFT_AT(const uint32_t, tight->starts) + at;
    const weft_k_bound *bounds = WEFT_AT(const weft_k_bound, tight->bounds) + at;
    found.start = starts[0];
    found.count = starts[WEFT_K_CLASSES] - starts[0];
    found.from = bounds[0];
    found.to = bounds[WEFT_K_CLASSES];
    found.positions_inverted = tight->positions[cls].inverted != 0;
    found.exceptions_inverted = tight->exceptions[cls].inverted != 0;
    return found;
}

/* Lays the lists out. One warp. */
WEFT_DEVICE void weft_places_lay(weft_places_shared *shared, const weft_k_tight *tight, uint32_t index)
{
    const uint32_t cls = weft_lane();
    const weft_place_class of = weft_place_class_of(tight, index, cls);
    const uint32_t positions = of.to.positions - of.from.positions, changes = of.to.changed - of.from.changed;
    const uint32_t exceptions = of.to.exceptions - of.from.exceptions;
    const uint32_t positions_before = weft_classes_below(positions), bit = weft_classes_below(of.count);
    const uint32_t exceptions_before = weft_classes_below(exceptions), change = weft_classes_below(changes);
    const uint32_t first = weft_classes_below(of.from.changed);
    const uint64_t inverted = weft_ballot(of.positions_inverted), inverted_too = weft_ballot(of.exceptions_inverted);
    if (cls >= WEFT_K_CLASSES)
        return;
    weft_place_lists *a = &shared->positions, *b = &shared->exceptions;
    a->before[cls] = positions_before;
    a->from[cls] = of.from.positions;
    a->start[cls] = of.start;
    a->bit[cls] = bit;
    b->before[cls] = exceptions_before;
    b->from[cls] = of.from.exceptions;
    b->start[cls] = of.from.changed;
    b->bit[cls] = change;
    if (cls < WEFT_K_CLASSES - 1)
        return;
    a->inverted = (uint32_t)inverted;
    a->all = positions_before + positions;
    a->end = bit + of.count;
    b->inverted = (uint32_t)inverted_too;
    b->all = exceptions_before + exceptions;
    b->end = change + changes;
    shared->first = first + of.from.changed;
}

/* The last of numbers that rise which is not above one; the first is not. */
WEFT_DEVICE uint32_t weft_class_at(const uint32_t *numbers, uint32_t one)
{
    uint32_t at = 0;
    for (uint32_t half = WEFT_K_CLASSES / 2; half > 0; half /= 2)
        at += numbers[at + half] <= one ? half : 0;
    return at;
}

/* The bits of a word that are among `count` from bit `first` on. */
WEFT_DEVICE uint32_t weft_word_range(uint32_t word, uint32_t first, uint32_t count)
{
    const uint32_t begin = word * 32, end = first + count;
    const uint32_t low = first > begin ? first - begin : 0, high = end > begin ? end - begin : 0;
    const uint32_t below = high < 32 ? (1u << high) - 1 : ~0u;
    return low < 32 ? below & ~0u << low : 0;
}

/* Sets the bits of what is listed. */
WEFT_DEVICE void weft_places_set(uint32_t *bits, const weft_place_lists *lists, const weft_k_set *sets)
{
    for (uint32_t i = weft_thread(); i < lists->all; i += WEFT_BLOCK) {
        const uint32_t cls = weft_class_at(lists->before, i), member = lists->from[cls] + i - lists->before[cls];
        const uint32_t rank = WEFT_AT(const uint32_t, sets[cls].ranks)[member];
        const uint32_t bit = lists->bit[cls] + (rank - lists->start[cls]);
        weft_or32(&bits[bit / 32], 1u << bit % 32);
    }
}

/* Bits of a thread's word that belong to classes whose lists are of what is not in the set. */
WEFT_DEVICE uint32_t weft_places_flip(const weft_place_lists *lists)
{
    uint32_t flip = 0;
    for (uint32_t left = lists->inverted; left != 0; left &= left - 1) {
        const uint32_t cls = weft_lowest(left), first = lists->bit[cls];
        const uint32_t end = cls + 1 < WEFT_K_CLASSES ? lists->bit[cls + 1] : lists->end;
        flip |= weft_word_range(weft_thread(), first, end - first);
    }
    return flip;
}

/* Number of the element that has a rank in its class. */
WEFT_DEVICE uint32_t weft_places_element(const weft_places_shared *shared, uint32_t cls, uint32_t rank)
{
    const weft_class_ranks *ranks = &shared->ranks;
    uint32_t group = 0;
    for (uint32_t half = WEFT_GROUPS / 2; half > 0; half /= 2)
        group += ranks->group[group + half][cls] <= rank ? half : 0;
    rank -= ranks->group[group][cls];
    uint32_t chunk = group * WEFT_GROUP;
    for (uint32_t half = WEFT_GROUP / 2; half > 0; half /= 2)
        chunk += weft_ranks_group(ranks, cls, chunk + half) <= rank ? half : 0;
    rank -= weft_ranks_group(ranks, cls, chunk);
    return chunk * WEFT_CHUNK + weft_one_at(weft_class_mask(shared->planes[chunk], weft_class_spread(cls)), rank);
}

/* The bits of the lists to their elements. Collective. */
WEFT_DEVICE void weft_places_find(weft_places_shared *shared)
{
    const uint32_t thread = weft_thread(), word = shared->changed[thread];
    uint32_t all;
    const uint32_t ones = weft_block_prefix(&shared->seek.sums, weft_ones(word), &all);
    shared->seek.before[thread] = ones;
    weft_barrier();
    for (uint32_t i = thread; i < all; i += WEFT_BLOCK) {
        const uint32_t at = weft_seek_thread(&shared->seek, i);
        const uint32_t bit = at * 32 + weft_one_at(shared->changed[at], i - shared->seek.before[at]);
        const uint32_t cls = weft_class_at(shared->positions.bit, bit);
        const uint32_t element = weft_places_element(shared, cls, bit - shared->positions.bit[cls]);
        weft_or32(&shared->found[element / 32], 1u << element % 32);
        if (shared->exceptional[i / 32] >> i % 32 & 1)
            weft_or32(&shared->odd[element / 32], 1u << element % 32);
    }
}

WEFT_DEVICE uint8_t weft_state_of(bool exceptional, bool large)
{
    if (!exceptional)
        return WEFT_K_STATE_STEP;
    return large ? WEFT_K_STATE_LARGE : WEFT_K_STATE_SMALL;
}

/* Lists one change. */
template <unsigned width>
WEFT_DEVICE void weft_places_put(const weft_k_decode *job, uint32_t change, uint32_t position, bool exceptional)
{
    const weft_k_tight *tight = weft_tight_of(job);
    const weft_k_run *run = weft_runs(&job->view) + weft_run_at(&job->view, position);
    const typename weft_bits_of<width>::type before = weft_element_load<width>(weft_run_data<width>(run, position), 0);
    const bool large = weft_exponent<width>(tight, before) > tight->magnitude_base;
    WEFT_AT(uint32_t, job->position)[change] = position;
    weft_element_store<width>(job->before, change, before);
    WEFT_AT(uint8_t, tight->states)[change] = weft_state_of(exceptional, large);
    if (exceptional && large)
        weft_add32(WEFT_AT(uint32_t, tight->large) + change / WEFT_K_CHANGES, 1);
}

/* Lists the part's changes, in order of position. Collective. */
template <unsigned width>
WEFT_DEVICE void weft_places_list(const weft_k_decode *job, weft_places_shared *shared, uint32_t first)
{
    uint32_t all;
    const uint32_t ones = weft_block_prefix(&shared->seek.sums, weft_ones(shared->found[weft_thread()]), &all);
    shared->seek.before[weft_thread()] = ones;
    weft_barrier();
    for (uint32_t i = weft_thread(); i < all; i += WEFT_BLOCK) {
        const uint32_t at = weft_seek_thread(&shared->seek, i), word = shared->found[at];
        const uint32_t bit = weft_one_at(word, i - shared->seek.before[at]);
        weft_places_put<width>(job, shared->first + i, first + at * 32 + bit, shared->odd[at] >> bit & 1);
    }
}

/* Whether none of a part's elements changed. */
WEFT_DEVICE bool weft_part_untouched(const weft_k_tight *tight, uint32_t index)
{
    const weft_k_bound *bounds = WEFT_AT(const weft_k_bound, tight->bounds) + index * WEFT_K_CLASSES;
    uint32_t more = 0;
    for (uint32_t c = 0; c < tight->classes; c++)
        more |= bounds[WEFT_K_CLASSES + c].changed - bounds[c].changed;
    return more == 0;
}

WEFT_KERNEL(decode_places)(const weft_k_decode_places *rows)
{
    WEFT_SHARED(weft_places_shared, shared);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t thread = weft_thread(), first = part->index * WEFT_K_ELEMENTS;
    if (weft_faulted(job, WEFT_K_LAUNCH_PLACES) || weft_part_untouched(tight, part->index))
        return;
    const weft_quad planes = WEFT_AT(const weft_quad, tight->planes)[part->index * WEFT_BLOCK + thread];
    shared.planes[thread] = planes;
    shared.changed[thread] = shared.exceptional[thread] = shared.found[thread] = shared.odd[thread] = 0;
    if (thread < WEFT_LANES)
        weft_places_lay(&shared, tight, part->index);
    weft_ranks_make(&shared.ranks, planes, weft_share_of(job, first + thread * WEFT_K_SHARE), tight->classes);
    weft_places_set(shared.changed, &shared.positions, tight->positions);
    weft_places_set(shared.exceptional, &shared.exceptions, tight->exceptions);
    weft_barrier();
    shared.changed[thread] ^= weft_places_flip(&shared.positions);
    shared.exceptional[thread] ^= weft_places_flip(&shared.exceptions);
    weft_places_find(&shared);
    weft_barrier();
    switch (job->view.width) {
    case 1:
        weft_places_list<1>(job, &shared, first);
        break;
    case 2:
        weft_places_list<2>(job, &shared, first);
        break;
    case 4:
        weft_places_list<4>(job, &shared, first);
        break;
    default:
        weft_places_list<8>(job, &shared, first);
    }
}

#endif
