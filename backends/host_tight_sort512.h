/* host_tight_sort512.h - the same in 512-bit vectors: each class in turn takes its ranks out of all, sixteen at a time,
 * by a compress. Classes are few, so that going through all changes for each costs less than a word of memory for every
 * class that each change would wait for. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_SORT512_H
#define WEFT_BACKENDS_HOST_TIGHT_SORT512_H

#include "backends/host_tight_sort.h"

/* Writes the ranks of one class; returns where they end. Up to fifteen words more are written behind them. */
WEFT_ALWAYS_INLINE uint32_t *weft_sort512_class(const uint8_t *class_of, const uint32_t *rank, uint32_t count,
                                                uint32_t class, uint32_t *out)
{
    const __m512i wanted = _mm512_set1_epi8((char)class);
    uint32_t i = 0;
    for (; i + 64 <= count; i += 64) {
        const uint64_t of = _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(class_of + i), wanted);
        _Pragma("GCC unroll 4") for (uint32_t part = 0; part < 64; part += 16)
        {
            const __m512i ranks = _mm512_loadu_si512(rank + i + part);
            const uint32_t some = (uint32_t)(of >> part) & 0xffff;
            _mm512_storeu_si512(out, _mm512_maskz_compress_epi32((uint16_t)some, ranks));
            out += __builtin_popcount(some);
        }
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

/* What is written overtakes nothing that is still to be read: no more are marked than were gone through. */
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
