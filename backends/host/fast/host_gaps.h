/* host_gaps.h - level fast's positions, read with vectors: what sets of every width share.
 *
 * If the i-th one of the unary plane is its bit number u, the i-th position is ((u - i) << k) + i + (sum of the low
 * parts up to the i-th): with the bit numbers listed, one prefix sum for as many lanes as a vector has gives positions,
 * and since they only rise the last is the only one to check. As soon as positions stand, their elements are asked for,
 * and read a while behind: memory works while the next are computed. What the vectors do not take (wide fields, the
 * last few, the end of the source) plain loops do. */
#ifndef WEFT_BACKENDS_HOST_GAPS_H
#define WEFT_BACKENDS_HOST_GAPS_H

#include "backends/host/fast/host_fast_loops.h"

/* With at most 2^30 for the limit and for all low parts, no position in range and no part of one leaves 32 bits. */
#define WEFT_GAPS_MOST (UINT64_C(1) << 30)

/* How far positions run ahead of the elements that are read there. */
#define WEFT_GAPS_AHEAD 128u

/* A gaps plane on its way into a list: numbers of ones up to `listed`, positions up to `placed`, elements up to
 * `taken`. */
typedef struct weft_gaps {
    const weft_bit_source *source;
    weft_bit_walker walker;
    uint64_t origin, most; /* bit numbers: of the plane's first, and within the plane the largest of the last one */
    uint64_t lows;         /* bit at which the fields begin */
    uint32_t k, limit, count, listed, placed, taken;
    uint32_t sum;            /* of the low parts before `placed` */
    const uint8_t *elements; /* NULL: none are read */
    uint32_t *position;
    uint8_t *before, *steps;
} weft_gaps;

WEFT_ALWAYS_INLINE weft_gaps weft_gaps_of(const weft_bit_source *source, const weft_bit_walker *unary, uint32_t k,
                                          uint32_t limit, uint32_t count)
{
    return (weft_gaps){.source = source,
                       .walker = *unary,
                       .origin = unary->last,
                       .most = count - 1 + (uint64_t)(limit >> k),
                       .k = k,
                       .limit = limit,
                       .count = count};
}

/* Reads elements at positions that are proved to be in range. False if one is not. */
WEFT_ALWAYS_INLINE bool weft_gaps_take(weft_gaps *gaps, uint32_t until, unsigned width)
{
    if (until > gaps->taken && gaps->position[until - 1] >= gaps->limit)
        return false;
    for (uint32_t i = gaps->taken; i < until && gaps->elements; i++)
        weft_element_put(gaps->before, i, weft_element_get(gaps->elements, gaps->position[i], width), width);
    gaps->taken = until;
    return true;
}

WEFT_ALWAYS_INLINE void weft_gaps_fetch(const weft_gaps *gaps, uint32_t first, uint32_t count, unsigned width)
{
    for (uint32_t i = first; gaps->elements && i < first + count; i++)
        weft_ahead_element((const uint8_t *)((uintptr_t)gaps->elements + (uint64_t)gaps->position[i] * width), 0);
}

/* Reads the gaps that vectors leave over. */
WEFT_ALWAYS_INLINE bool weft_gaps_end(weft_gaps *gaps, weft_bit_walker *unary, bool directed, unsigned width)
{
    const uint32_t k = gaps->k, w = k + directed, first = gaps->placed;
    uint32_t *position = gaps->position;
    for (uint32_t i = first; i < gaps->count; i++) {
        if (i >= gaps->listed) {
            if (weft_bits_unary(&gaps->walker) == UINT64_MAX || gaps->walker.last > gaps->origin + gaps->most + 1)
                return false;
            position[i] = (uint32_t)(gaps->walker.last - 1 - gaps->origin);
        }
        uint64_t field = weft_bits_get(gaps->source, gaps->lows + (uint64_t)i * w, w);
        gaps->sum += (uint32_t)(field >> directed);
        position[i] = ((position[i] - i) << k) + i + gaps->sum;
        if (directed)
            weft_element_put(gaps->steps, i, 1 - 2 * (field & 1), width);
    }
    if (gaps->walker.last > gaps->origin + gaps->most + 1 || position[gaps->count - 1] >= gaps->limit)
        return false;
    weft_gaps_fetch(gaps, first, gaps->count - first, width);
    *unary = gaps->walker;
    return weft_gaps_take(gaps, gaps->count, width);
}

/* Lists the ones of the next word; a word has 64 at most. */
#define WEFT_GAPS_WORD(gaps, LIST)                                                                                     \
    do {                                                                                                               \
        if (!weft_bits_refill(&(gaps)->walker) || (gaps)->walker.base > (gaps)->origin + (gaps)->most)                 \
            return false;                                                                                              \
        (gaps)->listed += LIST((gaps)->walker.word, (uint32_t)((gaps)->walker.base - (gaps)->origin),                  \
                               (gaps)->position + (gaps)->listed);                                                     \
        (gaps)->walker.word = 0;                                                                                       \
        (gaps)->walker.last = (gaps)->origin + (gaps)->position[(gaps)->listed - 1] + 1;                               \
    } while (0)

/* The slot `gaps` of a set whose vectors take fields of up to 25 bits. */
#define WEFT_GAPS_SLOT(P, W, VECTORS)                                                                                  \
    static bool P##_gaps_##W(const weft_bit_source *source, weft_bit_walker *unary, uint32_t gap_bits, uint32_t limit, \
                             uint32_t count, uintptr_t elements, uint32_t *position, uint8_t *before, uint8_t *steps)  \
    {                                                                                                                  \
        if (gap_bits > 24 || count == 0 || limit > WEFT_GAPS_MOST || (uint64_t)count << gap_bits > WEFT_GAPS_MOST)     \
            return weft_loop_gaps_take(source, unary, gap_bits, limit, count, elements, position, before, steps, W);   \
        weft_gaps gaps = weft_gaps_of(source, unary, gap_bits, limit, count);                                          \
        gaps.elements = (const uint8_t *)elements;                                                                     \
        gaps.position = position;                                                                                      \
        gaps.before = before;                                                                                          \
        gaps.steps = steps;                                                                                            \
        return VECTORS(gaps, unary, true, W);                                                                          \
    }

/* The slot `gap_places`: the same without directions, from any bit on. */
#define WEFT_PLACES_SLOT(P, VECTORS)                                                                                   \
    static bool P##_gap_places(const weft_bit_source *source, uint64_t lows, weft_bit_walker *unary,                   \
                               uint32_t gap_bits, uint32_t limit, uint32_t count, uint32_t *place)                     \
    {                                                                                                                  \
        if (gap_bits > 24 || count < 64 || limit > WEFT_GAPS_MOST || (uint64_t)count << gap_bits > WEFT_GAPS_MOST)     \
            return weft_loop_gap_places(source, lows, unary, gap_bits, limit, count, place) <= limit;                  \
        weft_gaps gaps = weft_gaps_of(source, unary, gap_bits, limit, count);                                          \
        gaps.lows = lows;                                                                                              \
        gaps.position = place;                                                                                         \
        gaps.steps = (uint8_t *)place; /* not written: there are no directions */                                      \
        return VECTORS(gaps, unary, false, 1);                                                                         \
    }

#endif
