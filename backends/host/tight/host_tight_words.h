/* host_tight_words.h - the loops of level tight over words of 64 elements, for kernel sets that can tell in a few
 * instructions which of 64 exponents reach a threshold.
 *
 * Element i of the word is bit i of a mask. above[t] has the elements whose exponent is not below threshold t; the
 * thresholds rise, so the masks nest, and class c is above[c - 1] without above[c]. The rank of an element in its class
 * is the class's population before the word plus the ones of its mask below the element; the other way, pdep puts a one
 * at the r-th element of a class. Loops over thresholds run to a number known when compiled, the next multiple of four:
 * thresholds beyond the real ones are reached by no exponent, so that their masks are empty.
 *
 * A set defines, before it includes this file,
 *
 *   WORD_THRESHOLDS(name, map)              declares WEFT_CLASS_MAX thresholds as the set wants them
 *   WORD_ABOVE(data, name, map, above, n, width)   fills above[0..n - 1] for 64 elements
 *
 * and instantiates WEFT_TIGHT_WORDS for the widths it can do (exponents of at most 8 bits). */
#ifndef WEFT_BACKENDS_HOST_TIGHT_WORDS_H
#define WEFT_BACKENDS_HOST_TIGHT_WORDS_H

#include "backends/host/tight/host_tight_loops.h"

/* Bytes that are asked for ahead of use. */
#define WEFT_WORDS_AHEAD 2048u

#define WEFT_UNROLL _Pragma("GCC unroll 16")

/* Ranks of the changes in a word; returns the first change after it. */
WEFT_ALWAYS_INLINE uint32_t weft_word_rank(const uint8_t *data, uint32_t begin, const weft_class_map *map,
                                           const uint64_t *above, const uint64_t *reached, const uint32_t *position,
                                           uint32_t i, uint32_t changes, uint32_t *ranks, unsigned width)
{
    for (; i < changes && position[i] - begin < 64; i++) {
        uint32_t at = position[i] - begin;
        uint32_t c = map->of[weft_class_exponent(map, weft_element_get(data, at, width))];
        uint64_t before = above[c] & ~above[c + 1] & ((UINT64_C(1) << at) - 1);
        ranks[i] = (uint32_t)(reached[c] - reached[c + 1]) + (uint32_t)__builtin_popcountll(before);
    }
    return i;
}

/* Listed members of the class in this word, as a mask; `left` is the next one's distance after the word. */
static __attribute__((noinline)) uint64_t weft_word_listed(weft_host_class *class, uint64_t members, int64_t *left)
{
    const int64_t count = __builtin_popcountll(members);
    uint64_t listed = 0;
    int64_t at = *left + count;
    while (at < count) {
        listed |= _pdep_u64(UINT64_C(1) << at, members);
        uint32_t rank = *class->next++;
        at += (int64_t) * class->next - rank;
    }
    *left = at - count;
    return listed;
}

/* above[0] and reached[0] are of all elements: class c is what reaches c and not c + 1. */
#define WEFT_TIGHT_WORDS_OF(P, W, N)                                                                                   \
    static void P##_rank_##W##_##N(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,     \
                                   const uint32_t *position, uint32_t changes, uint32_t population[WEFT_CLASS_MAX],    \
                                   uint32_t *ranks)                                                                    \
    {                                                                                                                  \
        uint64_t above[N + 1], reached[N + 1] = {0};                                                                   \
        uint32_t at = 0, i = 0;                                                                                        \
        WORD_THRESHOLDS(thresholds, map);                                                                              \
        above[0] = UINT64_MAX;                                                                                         \
        above[N] = 0;                                                                                                  \
        for (uint32_t c = N; c-- > 0;)                                                                                 \
            reached[c] = reached[c + 1] + population[c];                                                               \
        for (; count - at >= 64; at += 64) {                                                                           \
            const uint8_t *word = data + (uint64_t)at * W;                                                             \
            WORD_ABOVE(word, thresholds, map, above + 1, N - 1, W);                                                    \
            i = weft_word_rank(word, first + at, map, above, reached, position, i, changes, ranks, W);                 \
            WEFT_UNROLL for (uint32_t t = 0; t < N; t++) reached[t] += (uint32_t)__builtin_popcountll(above[t]);       \
        }                                                                                                              \
        for (uint32_t c = 0; c < N; c++)                                                                               \
            population[c] = (uint32_t)(reached[c] - reached[c + 1]);                                                   \
        weft_loop_rank(data + (uint64_t)at * W, count - at, first + at, map, position + i, changes - i, population,    \
                       ranks + i, W);                                                                                  \
    }                                                                                                                  \
    static uint32_t P##_place_##W##_##N(const uint8_t *data, uint32_t count, uint32_t first,                           \
                                        const weft_class_map *map, weft_host_class classes[WEFT_CLASS_MAX],            \
                                        uint32_t *position, uint32_t room)                                             \
    {                                                                                                                  \
        uint64_t above[N + 1];                                                                                         \
        int64_t left[N];                                                                                               \
        uint32_t at = 0, found = 0, inverted = 0;                                                                      \
        WORD_THRESHOLDS(thresholds, map);                                                                              \
        above[0] = UINT64_MAX;                                                                                         \
        above[N] = 0;                                                                                                  \
        for (uint32_t c = 0; c < N; c++) {                                                                             \
            inverted |= classes[c].inverted << c;                                                                      \
            left[c] = (int64_t)*classes[c].next - classes[c].population;                                               \
        }                                                                                                              \
        for (; count - at >= 64; at += 64) {                                                                           \
            uint64_t changed = 0;                                                                                      \
            weft_ahead_stream(data + (uint64_t)at * W, WEFT_WORDS_AHEAD, W);                                           \
            WORD_ABOVE(data + (uint64_t)at * W, thresholds, map, above + 1, N - 1, W);                                 \
            for (uint32_t rest = inverted; rest; rest &= rest - 1)                                                     \
                changed |= above[__builtin_ctz(rest)] & ~above[__builtin_ctz(rest) + 1];                               \
            WEFT_UNROLL for (uint32_t c = 0; c < N; c++)                                                               \
            {                                                                                                          \
                uint64_t members = above[c] & ~above[c + 1];                                                           \
                left[c] -= __builtin_popcountll(members);                                                              \
                if (__builtin_expect(left[c] < 0, 0))                                                                  \
                    changed ^= weft_word_listed(&classes[c], members, &left[c]);                                       \
            }                                                                                                          \
            if ((uint32_t)__builtin_popcountll(changed) > room - found)                                                \
                return room + 1;                                                                                       \
            for (; changed; changed &= changed - 1)                                                                    \
                position[found++] = first + at + (uint32_t)__builtin_ctzll(changed);                                   \
        }                                                                                                              \
        for (uint32_t c = 0; c < N; c++)                                                                               \
            classes[c].population = (uint32_t)((int64_t)*classes[c].next - left[c]);                                   \
        uint32_t rest = weft_loop_place(data + (uint64_t)at * W, count - at, first + at, map, classes,                 \
                                        position + found, room - found, W);                                            \
        return found + rest;                                                                                           \
    }

#define WEFT_TIGHT_WORDS(P, W)                                                                                         \
    WEFT_TIGHT_WORDS_OF(P, W, 4)                                                                                       \
    WEFT_TIGHT_WORDS_OF(P, W, 8)                                                                                       \
    WEFT_TIGHT_WORDS_OF(P, W, 12)                                                                                      \
    WEFT_TIGHT_WORDS_OF(P, W, 16)                                                                                      \
    static void P##_rank_words_##W(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,     \
                                   const uint32_t *position, uint32_t changes, uint32_t population[WEFT_CLASS_MAX],    \
                                   uint32_t *ranks)                                                                    \
    {                                                                                                                  \
        static void (*const of[])(const uint8_t *, uint32_t, uint32_t, const weft_class_map *, const uint32_t *,       \
                                  uint32_t, uint32_t *, uint32_t *) = {P##_rank_##W##_4, P##_rank_##W##_8,             \
                                                                       P##_rank_##W##_12, P##_rank_##W##_16};          \
        of[(map->count - 1) / 4](data, count, first, map, position, changes, population, ranks);                       \
    }                                                                                                                  \
    static uint32_t P##_place_words_##W(const uint8_t *data, uint32_t count, uint32_t first,                           \
                                        const weft_class_map *map, weft_host_class classes[WEFT_CLASS_MAX],            \
                                        uint32_t *position, uint32_t room)                                             \
    {                                                                                                                  \
        static uint32_t (*const of[])(const uint8_t *, uint32_t, uint32_t, const weft_class_map *, weft_host_class *,  \
                                      uint32_t *, uint32_t) = {P##_place_##W##_4, P##_place_##W##_8,                   \
                                                               P##_place_##W##_12, P##_place_##W##_16};                \
        return of[(map->count - 1) / 4](data, count, first, map, classes, position, room);                             \
    }

#endif
