/* host_tight_sort512.h - the same in 512-bit vectors: each class in turn takes its ranks out of all. Which of 64
 * changes are of the class is a mask, a compress makes numbers of its bits, and these pick ranks from four vectors.
 * Classes are few: going through all changes for each costs less than a place in memory that each change waits for. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_SORT512_H
#define WEFT_BACKENDS_HOST_TIGHT_SORT512_H

#include "backends/host/host_lanes512.h"
#include "backends/host/tight/host_tight_sort.h"

/* Writes those of 64 ranks whose numbers are in `which`. */
WEFT_ALWAYS_INLINE void weft_sort512_pick(const uint32_t *rank, __m128i which, uint32_t *out)
{
    const __m512i number = _mm512_cvtepu8_epi32(which);
    const __m512i low = _mm512_permutex2var_epi32(_mm512_loadu_si512(rank), number, _mm512_loadu_si512(rank + 16));
    const __m512i high =
        _mm512_permutex2var_epi32(_mm512_loadu_si512(rank + 32), number, _mm512_loadu_si512(rank + 48));
    const uint16_t upper = _mm512_test_epi32_mask(number, _mm512_set1_epi32(32));
    _mm512_storeu_si512(out, _mm512_mask_blend_epi32(upper, low, high));
}

/* Writes the ranks of one class; returns where they end. Up to 64 words from there on are written as well. */
WEFT_ALWAYS_INLINE uint32_t *weft_sort512_class(const uint8_t *class_of, const uint32_t *rank, uint32_t count,
                                                uint32_t class, uint32_t *out)
{
    const __m512i wanted = _mm512_set1_epi8((char)class), numbers = weft_lanes512_numbers();
    uint32_t i = 0;
    for (; i + 64 <= count; i += 64) {
        const uint64_t of = _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(class_of + i), wanted);
        const uint32_t some = (uint32_t)__builtin_popcountll(of);
        const __m512i set = _mm512_maskz_compress_epi8(of, numbers);
        weft_sort512_pick(rank + i, _mm512_castsi512_si128(set), out);
        if (some > 16) {
            weft_sort512_pick(rank + i, _mm512_extracti32x4_epi32(set, 1), out + 16);
            weft_sort512_pick(rank + i, _mm512_extracti32x4_epi32(set, 2), out + 32);
            weft_sort512_pick(rank + i, _mm512_extracti32x4_epi32(set, 3), out + 48);
        }
        out += some;
    }
    for (; i < count; i++) {
        *out = rank[i];
        out += class_of[i] == class;
    }
    return out;
}

WEFT_ALWAYS_INLINE void weft_sort512(const uint8_t *class_of, const uint32_t *rank, uint32_t count, uint32_t *changed,
                                     uint32_t *sorted)
{
    uint32_t *const end = sorted + count;
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        const uint32_t *begin = sorted;
        if (sorted < end)
            sorted = weft_sort512_class(class_of, rank, count, c, sorted);
        changed[c] = (uint32_t)(sorted - begin);
    }
}

/* Writes overtake no rank that is still to be read, because no more ranks are marked than were gone through. */
WEFT_ALWAYS_INLINE uint32_t weft_split512(uint32_t *ranks, uint32_t count, uint32_t *members)
{
    const __m512i unmarked = _mm512_set1_epi32((int)~WEFT_HOST_MARK), step = _mm512_set1_epi32(16);
    uint32_t lane[16], marked = 0, i = 0;
    for (uint32_t l = 0; l < 16; l++)
        lane[l] = l;
    __m512i places = _mm512_loadu_si512(lane);
    for (; i + 16 <= count; i += 16) {
        const __m512i some = _mm512_loadu_si512(ranks + i);
        const uint32_t mask = _mm512_movepi32_mask(some);
        _mm512_storeu_si512(members + i, _mm512_and_si512(some, unmarked));
        _mm512_storeu_si512(ranks + marked, _mm512_maskz_compress_epi32((uint16_t)mask, places));
        marked += (uint32_t)__builtin_popcount(mask);
        places = _mm512_add_epi32(places, step);
    }
    return weft_loop_split(ranks, i, count, marked, members);
}

/* Functions for the slots of a set. */
#define WEFT_TIGHT_SORT512(P)                                                                                          \
    static void P##_sort(const uint8_t *class_of, const uint32_t *rank, uint32_t count,                                \
                         uint32_t changed[WEFT_CLASS_MAX], uint32_t *sorted)                                           \
    {                                                                                                                  \
        weft_sort512(class_of, rank, count, changed, sorted);                                                          \
    }                                                                                                                  \
    static uint32_t P##_split(uint32_t *ranks, uint32_t count, uint32_t *members)                                      \
    {                                                                                                                  \
        return weft_split512(ranks, count, members);                                                                   \
    }

#endif
