/* host_gaps512.h - level fast's positions in 512-bit vectors: the ones of a word are listed by a compress of bytes, and
 * one shuffle brings sixteen fields' bytes into their lanes. */
#ifndef WEFT_BACKENDS_HOST_GAPS512_H
#define WEFT_BACKENDS_HOST_GAPS512_H

#include "backends/host/fast/host_fast512.h"
#include "backends/host/fast/host_gaps.h"

/* Changes on their way from the numbers of their ones to positions; fields have up to 25 bits. */
typedef struct weft_place512 {
    __m512i bytes, shift, mask; /* of sixteen fields: where each one's bytes are, its first bit there, its bits */
    __m512i index, sum;         /* of the next sixteen: their places in the list; the low parts before them */
    __m128i by;
} weft_place512;

/* w: bits of a field; the first begins at bit `ahead` of a byte. */
WEFT_ALWAYS_INLINE weft_place512 weft_place512_of(uint32_t k, uint32_t w, uint32_t ahead)
{
    uint8_t bytes[64];
    uint32_t shift[16], index[16];
    for (uint32_t lane = 0; lane < 16; lane++) {
        index[lane] = lane;
        shift[lane] = (ahead + lane * w) % 8;
        for (uint32_t i = 0; i < 4; i++)
            bytes[4 * lane + i] = (uint8_t)((ahead + lane * w) / 8 + i);
    }
    return (weft_place512){.bytes = _mm512_loadu_si512(bytes),
                           .shift = _mm512_loadu_si512(shift),
                           .mask = _mm512_set1_epi32((int)((UINT32_C(1) << w) - 1)),
                           .index = _mm512_loadu_si512(index),
                           .sum = _mm512_setzero_si512(),
                           .by = _mm_cvtsi32_si128((int)k)};
}

/* Stores sixteen elements, small signed numbers in 32 bits. */
WEFT_ALWAYS_INLINE void weft_lanes512_narrow(__m512i lanes, uint8_t *out, unsigned width)
{
    switch (width) {
    case 1:
        _mm_storeu_si128((void *)out, _mm512_cvtepi32_epi8(lanes));
        return;
    case 2:
        _mm256_storeu_si256((void *)out, _mm512_cvtsepi32_epi16(lanes));
        return;
    case 4:
        _mm512_storeu_si512(out, lanes);
        return;
    default:
        _mm512_storeu_si512(out, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(lanes)));
        _mm512_storeu_si512(out + 64, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(lanes, 1)));
    }
}

/* The next sixteen, whose numbers stand in `position`; their fields are in the 64 bytes at `data`. */
WEFT_ALWAYS_INLINE void weft_place512_next(weft_place512 *as, const uint8_t *data, uint32_t *position, uint8_t *steps,
                                           bool directed, unsigned width)
{
    const __m512i one = _mm512_set1_epi32(1);
    __m512i field = _mm512_permutexvar_epi8(as->bytes, _mm512_loadu_si512(data));
    field = _mm512_and_si512(_mm512_srlv_epi32(field, as->shift), as->mask);
    __m512i low = _mm512_add_epi32(weft_lanes512_prefix(directed ? _mm512_srli_epi32(field, 1) : field), as->sum);
    __m512i high = _mm512_sll_epi32(_mm512_sub_epi32(_mm512_loadu_si512(position), as->index), as->by);
    __m512i down = _mm512_and_si512(field, one);
    _mm512_storeu_si512(position, _mm512_add_epi32(_mm512_add_epi32(high, as->index), low));
    if (directed)
        weft_lanes512_narrow(_mm512_sub_epi32(one, _mm512_add_epi32(down, down)), steps, width);
    as->sum = _mm512_set1_epi32((int)weft_lanes512_last(low));
    as->index = _mm512_add_epi32(as->index, _mm512_set1_epi32(16));
}

/* Fewer than 80 of a word's ones stand waiting: four fields' vectors at most are read after the first. */
WEFT_ALWAYS_INLINE bool weft_fast512_gaps(weft_gaps gaps, weft_bit_walker *unary, bool directed, unsigned width)
{
    const __m512i numbers = weft_lanes512_numbers();
    const uint32_t w = gaps.k + directed;
    weft_place512 as = weft_place512_of(gaps.k, w, gaps.lows % 8);
#define LANES512_LIST(word, base, position) weft_lanes512_list(word, numbers, base, position)
    for (uint64_t at = gaps.lows / 8; gaps.count - gaps.listed >= 64 && at + 8 * w + 64 <= gaps.source->bytes;) {
        WEFT_GAPS_WORD(&gaps, LANES512_LIST);
        for (; gaps.placed + 16 <= gaps.listed; gaps.placed += 16, at += 2 * w) {
            weft_place512_next(&as, gaps.source->data + at, gaps.position + gaps.placed,
                               gaps.steps + (uint64_t)gaps.placed * width, directed, width);
            weft_gaps_fetch(&gaps, gaps.placed, 16, width);
        }
        if (gaps.placed > WEFT_GAPS_AHEAD && !weft_gaps_take(&gaps, gaps.placed - WEFT_GAPS_AHEAD, width))
            return false;
    }
#undef LANES512_LIST
    gaps.sum = weft_lanes512_last(as.sum);
    return weft_gaps_end(&gaps, unary, directed, width);
}

#endif
