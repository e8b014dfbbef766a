/* decode_tight.h - level tight, from lists to positions: the elements of the base are cut into parts.
 *
 *   decode_classes        counts each part's elements of every class
 *   decode_populations    one block a frame: sums of those counts; the lists must fit them
 *   decode_bounds         which members of the lists belong to which part
 *   decode_places         the part's members as bits, in order of class and rank; each element looks its bit up
 *
 * Ranks of changes among those of their class, by which exceptions are listed, are counts of bits below. */
#ifndef WEFT_BACKENDS_KERNELS_DECODE_TIGHT_H
#define WEFT_BACKENDS_KERNELS_DECODE_TIGHT_H

#include "backends/kernels/decode.h"

WEFT_DEVICE const weft_k_tight *weft_tight_of(const weft_k_decode *job)
{
    return WEFT_AT(const weft_k_tight, job->level);
}

/* Class of each exponent, in shared memory. */
struct weft_class_table {
    uint8_t of[WEFT_K_EXPONENTS];
};

WEFT_DEVICE void weft_class_table_load(const weft_k_tight *tight, weft_class_table *table)
{
    for (uint32_t e = weft_thread(); e <= tight->mask; e += WEFT_BLOCK)
        table->of[e] = WEFT_AT(const uint8_t, tight->of)[e];
    weft_barrier();
}

template <unsigned width>
WEFT_DEVICE uint32_t weft_exponent(const weft_k_tight *tight, typename weft_bits_of<width>::type bits)
{
    return (uint32_t)(bits >> tight->shift) & tight->mask;
}

/* Elements of each class so far, of at most 255: a byte a class. */
typedef struct weft_class_counts {
    uint64_t low, high;
} weft_class_counts;

WEFT_DEVICE void weft_counts_add(weft_class_counts *counts, uint32_t cls)
{
    const uint64_t one = 1ull << cls % 8 * 8;
    counts->low += cls < 8 ? one : 0;
    counts->high += cls < 8 ? 0 : one;
}

WEFT_DEVICE uint32_t weft_counts_get(const weft_class_counts *counts, uint32_t cls)
{
    return (uint32_t)((cls < 8 ? counts->low : counts->high) >> cls % 8 * 8) & 255;
}

/* The counts of classes 2 * pair and 2 * pair + 1, in 16 bits each: sums over a block fit. */
WEFT_DEVICE uint32_t weft_counts_pair(const weft_class_counts *counts, uint32_t pair)
{
    const uint32_t both = (uint32_t)((pair < 4 ? counts->low : counts->high) >> pair % 4 * 16);
    return (both & 255) | (both & 0xff00) << 8;
}

template <unsigned width>
WEFT_DEVICE weft_class_counts weft_classes_count(const weft_k_decode *job, const weft_class_table *table,
                                                 uint32_t first)
{
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t count = weft_share_of(job, first), each = 16 / width;
    weft_class_counts counts = {0, 0};
    if (count == 0)
        return counts;
    weft_walk walk = weft_walk_from<width>(&job->view, first);
    for (uint32_t done = 0; done < count; done += each) {
        const weft_quad quad = weft_walk_quad<width>(&walk, count - done);
        for (uint32_t i = 0; i < each; i++) {
            if (done + i < count)
                weft_counts_add(&counts, table->of[weft_exponent<width>(tight, weft_quad_element<width>(quad, i))]);
        }
    }
    return counts;
}

WEFT_DEVICE weft_class_counts weft_classes_of(const weft_k_decode *job, const weft_class_table *table, uint32_t first)
{
    switch (job->view.width) {
    case 1:
        return weft_classes_count<1>(job, table, first);
    case 2:
        return weft_classes_count<2>(job, table, first);
    case 4:
        return weft_classes_count<4>(job, table, first);
    default:
        return weft_classes_count<8>(job, table, first);
    }
}

struct weft_classes_shared {
    weft_block_sums sums;
    weft_class_table table;
};

WEFT_KERNEL(decode_classes)(const weft_k_decode_classes *rows)
{
    WEFT_SHARED(weft_classes_shared, shared);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    const weft_k_tight *tight = weft_tight_of(job);
    uint32_t *populations = WEFT_AT(uint32_t, tight->populations) + part->index * WEFT_K_CLASSES;
    weft_class_table_load(tight, &shared.table);
    const uint32_t first = part->index * WEFT_K_ELEMENTS + weft_thread() * WEFT_K_SHARE;
    const weft_class_counts counts = weft_classes_of(job, &shared.table, first);
    for (uint32_t pair = 0; 2 * pair < tight->classes; pair++) {
        uint32_t all;
        weft_block_prefix(&shared.sums, weft_counts_pair(&counts, pair), &all);
        if (weft_thread() == 0) {
            populations[2 * pair] = all & 0xffff;
            populations[2 * pair + 1] = all >> 16;
        }
    }
}

/* Whether a list is of ranks below `universe` only. */
WEFT_DEVICE bool weft_set_fits(const weft_k_set *set, uint32_t universe)
{
    return set->count == 0 || WEFT_AT(const uint32_t, set->ranks)[set->count - 1] < universe;
}

/* Members of the set among the first `universe`, of which `listed` are listed. */
WEFT_DEVICE uint32_t weft_set_size(const weft_k_set *set, uint32_t universe, uint32_t listed)
{
    return set->inverted ? universe - listed : listed;
}

#define WEFT_K_SEGMENTS (WEFT_BLOCK / WEFT_K_CLASSES)
#define WEFT_K_AHEAD    8u /* parts whose counts are read before the first is used */

struct weft_populations_shared {
    uint32_t segment[WEFT_BLOCK];
    uint32_t changed[WEFT_K_CLASSES];
};

/* The lists of a class against its population. One thread a class. */
WEFT_DEVICE void weft_population_check(const weft_k_decode *job, uint32_t cls, uint32_t population, uint32_t *changed)
{
    const weft_k_tight *tight = weft_tight_of(job);
    const weft_k_set *positions = &tight->positions[cls];
    const bool fits = weft_set_fits(positions, population);
    *changed = fits ? weft_set_size(positions, population, positions->count) : 0;
    if (!fits || !weft_set_fits(&tight->exceptions[cls], *changed))
        weft_fault_note(job, WEFT_K_LAUNCH_POPULATIONS, WEFT_K_FAULT_BASE);
}

/* Threads stand in rows of a thread a class; each row sums a segment of the parts. */
WEFT_KERNEL(decode_populations)(const weft_k_decode_populations *rows)
{
    WEFT_SHARED(weft_populations_shared, shared);
    const weft_k_decode *job = weft_decode_of(rows + weft_block());
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t *populations = WEFT_AT(const uint32_t, tight->populations);
    uint32_t *starts = WEFT_AT(uint32_t, tight->starts);
    const uint32_t cls = weft_thread() % WEFT_K_CLASSES, segment = weft_thread() / WEFT_K_CLASSES;
    const uint32_t each = (tight->parts + WEFT_K_SEGMENTS - 1) / WEFT_K_SEGMENTS;
    const uint32_t first = segment * each, beyond = first + each < tight->parts ? first + each : tight->parts;
    const bool there = cls < tight->classes;
    if (weft_faulted(job, WEFT_K_LAUNCH_POPULATIONS))
        return;
    uint32_t sum = 0, before = 0, all = 0;
    for (uint32_t p = first; there && p < beyond; p++)
        sum += populations[p * WEFT_K_CLASSES + cls];
    shared.segment[weft_thread()] = sum;
    weft_barrier();
    for (uint32_t s = 0; s < WEFT_K_SEGMENTS; s++) {
        const uint32_t other = shared.segment[s * WEFT_K_CLASSES + cls];
        before += s < segment ? other : 0;
        all += other;
    }
    for (uint32_t p = first; p < beyond; p += WEFT_K_AHEAD) {
        uint32_t some[WEFT_K_AHEAD];
        for (uint32_t i = 0; i < WEFT_K_AHEAD; i++)
            some[i] = there && p + i < beyond ? populations[(p + i) * WEFT_K_CLASSES + cls] : 0;
        for (uint32_t i = 0; i < WEFT_K_AHEAD; i++) {
            if (p + i < beyond)
                starts[(p + i) * WEFT_K_CLASSES + cls] = before;
            before += some[i];
        }
    }
    if (segment == 0) {
        starts[tight->parts * WEFT_K_CLASSES + cls] = all;
        weft_population_check(job, cls, all, &shared.changed[cls]);
    }
    weft_barrier();
    if (weft_thread() != 0)
        return;
    uint32_t changed = 0;
    for (uint32_t c = 0; c < WEFT_K_CLASSES; c++)
        changed += shared.changed[c];
    if (changed != job->changed)
        weft_fault_note(job, WEFT_K_LAUNCH_POPULATIONS, WEFT_K_FAULT_BASE);
}

/* Listed ranks below one. */
WEFT_DEVICE uint32_t weft_set_below(const weft_k_set *set, uint32_t rank)
{
    const uint32_t *ranks = WEFT_AT(const uint32_t, set->ranks);
    uint32_t low = 0, high = set->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One thread a part and class, and one part more than there are. */
WEFT_KERNEL(decode_bounds)(const weft_k_decode_bounds *rows)
{
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t index = part->index * WEFT_BLOCK + weft_thread(), cls = index % WEFT_K_CLASSES;
    if (weft_faulted(job, WEFT_K_LAUNCH_BOUNDS) || index >= (tight->parts + 1) * WEFT_K_CLASSES)
        return;
    const uint32_t start = WEFT_AT(const uint32_t, tight->starts)[index];
    const uint32_t listed = weft_set_below(&tight->positions[cls], start);
    const uint32_t changed = weft_set_size(&tight->positions[cls], start, listed);
    weft_k_bound *bound = WEFT_AT(weft_k_bound, tight->bounds) + index;
    bound->positions = listed;
    bound->changed = changed;
    bound->exceptions = weft_set_below(&tight->exceptions[cls], changed);
}

/* A class in a part. */
struct weft_place_class {
    uint32_t first, count;         /* of its bits among those of the elements, which stand class by class */
    uint32_t first_change, change; /* of its bits among those of the changes */
};

struct weft_places_shared {
    weft_block_sums sums;
    weft_class_table table;
    weft_place_class cls[WEFT_K_CLASSES];
    uint32_t before[WEFT_K_CLASSES / 2][WEFT_BLOCK]; /* elements of two classes in the threads below */
    uint32_t changed[WEFT_BLOCK];                    /* bits of the elements */
    uint32_t ones[WEFT_BLOCK];                       /* changes before each word of them */
    uint32_t exceptional[WEFT_BLOCK];                /* bits of the changes */
};

/* Sets the bits of listed members number from.. to before end, of which rank `start` has bit `first`. */
WEFT_DEVICE void weft_bits_list(uint32_t *bits, const weft_k_set *set, uint32_t from, uint32_t end, uint32_t start,
                                uint32_t first)
{
    const uint32_t *ranks = WEFT_AT(const uint32_t, set->ranks);
    for (uint32_t i = from + weft_thread(); i < end; i += WEFT_BLOCK) {
        const uint32_t bit = first + (ranks[i] - start);
        weft_or32(&bits[bit / 32], 1u << bit % 32);
    }
}

/* The bits of a word that are among `count` from bit `first` on. */
WEFT_DEVICE uint32_t weft_word_range(uint32_t word, uint32_t first, uint32_t count)
{
    const uint32_t begin = word * 32, end = first + count;
    const uint32_t low = first > begin ? first - begin : 0, high = end > begin ? end - begin : 0;
    const uint32_t below = high < 32 ? (1u << high) - 1 : ~0u;
    return low < 32 ? below & ~0u << low : 0;
}

/* Fills `changed`, `ones` and `exceptional`; returns the number of the part's first change. Collective. */
WEFT_DEVICE uint32_t weft_places_bits(const weft_k_decode *job, weft_places_shared *shared, uint32_t index)
{
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t *starts = WEFT_AT(const uint32_t, tight->starts) + index * WEFT_K_CLASSES;
    const weft_k_bound *bounds = WEFT_AT(const weft_k_bound, tight->bounds) + index * WEFT_K_CLASSES;
    const uint32_t thread = weft_thread();
    shared->changed[thread] = 0;
    shared->exceptional[thread] = 0;
    if (thread < WEFT_K_CLASSES) {
        weft_place_class cls = {0, 0, 0, 0};
        for (uint32_t c = 0; c <= thread; c++) {
            cls.first += cls.count;
            cls.first_change += cls.change;
            cls.count = starts[WEFT_K_CLASSES + c] - starts[c];
            cls.change = bounds[WEFT_K_CLASSES + c].changed - bounds[c].changed;
        }
        shared->cls[thread] = cls;
    }
    weft_barrier();
    uint32_t first = 0, flip = 0, flip_change = 0, all;
    for (uint32_t c = 0; c < tight->classes; c++) {
        const weft_place_class *cls = &shared->cls[c];
        const weft_k_bound *from = bounds + c, *to = from + WEFT_K_CLASSES;
        first += from->changed;
        weft_bits_list(shared->changed, &tight->positions[c], from->positions, to->positions, starts[c], cls->first);
        weft_bits_list(shared->exceptional, &tight->exceptions[c], from->exceptions, to->exceptions, from->changed,
                       cls->first_change);
        if (tight->positions[c].inverted)
            flip |= weft_word_range(thread, cls->first, cls->count);
        if (tight->exceptions[c].inverted)
            flip_change |= weft_word_range(thread, cls->first_change, cls->change);
    }
    weft_barrier();
    shared->changed[thread] ^= flip;
    shared->exceptional[thread] ^= flip_change;
    shared->ones[thread] = weft_block_prefix(&shared->sums, weft_ones(shared->changed[thread]), &all);
    weft_barrier();
    return first;
}

/* The elements of a thread's share that changed, and which of these are exceptions and lie on a large base. */
typedef struct weft_places {
    uint32_t changed, exceptional, large;
} weft_places;

template <unsigned width>
WEFT_DEVICE weft_places weft_places_look(const weft_k_decode *job, const weft_places_shared *shared, uint32_t first)
{
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t count = weft_share_of(job, first), each = 16 / width, thread = weft_thread();
    weft_places places = {0, 0, 0};
    if (count == 0)
        return places;
    weft_walk walk = weft_walk_from<width>(&job->view, first);
    weft_class_counts counts = {0, 0};
    for (uint32_t done = 0; done < count; done += each) {
        const weft_quad quad = weft_walk_quad<width>(&walk, count - done);
        for (uint32_t i = 0; i < each; i++) {
            if (done + i >= count)
                continue;
            const uint32_t exponent = weft_exponent<width>(tight, weft_quad_element<width>(quad, i));
            const uint32_t cls = shared->table.of[exponent], one = 1u << (done + i);
            const uint32_t below = shared->before[cls / 2][thread] >> cls % 2 * 16 & 0xffff;
            const uint32_t bit = shared->cls[cls].first + below + weft_counts_get(&counts, cls);
            const uint32_t word = shared->changed[bit / 32];
            weft_counts_add(&counts, cls);
            if ((word >> bit % 32 & 1) == 0)
                continue;
            const uint32_t change = shared->ones[bit / 32] + weft_ones(word & ((1u << bit % 32) - 1));
            places.changed |= one;
            places.exceptional |= shared->exceptional[change / 32] >> change % 32 & 1 ? one : 0;
            places.large |= exponent > tight->magnitude_base ? one : 0;
        }
    }
    return places;
}

WEFT_DEVICE uint8_t weft_state_of(bool exceptional, bool large)
{
    if (!exceptional)
        return WEFT_K_STATE_STEP;
    return large ? WEFT_K_STATE_LARGE : WEFT_K_STATE_SMALL;
}

/* Lists the changes of a thread's share, of which `change` is the first. */
template <unsigned width>
WEFT_DEVICE void weft_places_put(const weft_k_decode *job, weft_places places, uint32_t first, uint32_t change)
{
    const weft_k_tight *tight = weft_tight_of(job);
    for (uint32_t mask = places.changed; mask != 0; mask &= mask - 1, change++) {
        const uint32_t i = weft_lowest(mask), position = first + i;
        const weft_k_run *run = weft_runs(&job->view) + weft_run_at(&job->view, position);
        const bool exceptional = places.exceptional >> i & 1, large = places.large >> i & 1;
        WEFT_AT(uint32_t, job->position)[change] = position;
        weft_element_store<width>(job->before, change,
                                  weft_element_load<width>(weft_run_data<width>(run, position), 0));
        WEFT_AT(uint8_t, tight->states)[change] = weft_state_of(exceptional, large);
        if (exceptional && large)
            weft_add32(WEFT_AT(uint32_t, tight->large) + change / WEFT_K_CHANGES, 1);
    }
}

template <unsigned width>
WEFT_DEVICE void weft_places_find(const weft_k_decode *job, weft_places_shared *shared, uint32_t first, uint32_t change)
{
    const weft_places places = weft_places_look<width>(job, shared, first);
    uint32_t all;
    change += weft_block_prefix(&shared->sums, weft_ones(places.changed), &all);
    weft_places_put<width>(job, places, first, change);
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
    const uint32_t first = part->index * WEFT_K_ELEMENTS + weft_thread() * WEFT_K_SHARE;
    if (weft_faulted(job, WEFT_K_LAUNCH_PLACES) || weft_part_untouched(tight, part->index))
        return;
    weft_class_table_load(tight, &shared.table);
    const weft_class_counts counts = weft_classes_of(job, &shared.table, first);
    for (uint32_t pair = 0; 2 * pair < tight->classes; pair++) {
        uint32_t all;
        shared.before[pair][weft_thread()] = weft_block_prefix(&shared.sums, weft_counts_pair(&counts, pair), &all);
    }
    const uint32_t change = weft_places_bits(job, &shared, part->index);
    switch (job->view.width) {
    case 1:
        weft_places_find<1>(job, &shared, first, change);
        break;
    case 2:
        weft_places_find<2>(job, &shared, first, change);
        break;
    case 4:
        weft_places_find<4>(job, &shared, first, change);
        break;
    default:
        weft_places_find<8>(job, &shared, first, change);
    }
}

#endif
