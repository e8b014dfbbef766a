/* host_gaps256.h - level fast's positions in 256-bit vectors: a byte shuffle brings each field's bytes into its lane
 * and a shift per lane aligns it. */
#ifndef WEFT_BACKENDS_HOST_GAPS256_H
#define WEFT_BACKENDS_HOST_GAPS256_H

#include "backends/host/fast/host_fast256.h"
#include "backends/host/fast/host_gaps.h"

/* How eight fields of w bits, at most 25, are brought into lanes. */
typedef struct weft_fields256 {
    __m256i bytes, shift, mask;
    uint32_t w, upper; /* upper: the byte in which the fifth begins */
} weft_fields256;

/* The first one begins at bit `ahead` of a byte. */
WEFT_ALWAYS_INLINE weft_fields256 weft_fields256_of(uint32_t w, uint32_t ahead)
{
    weft_fields256 made = {
        .mask = _mm256_set1_epi32((int)((UINT32_C(1) << w) - 1)), .w = w, .upper = (ahead + 4 * w) / 8};
    uint8_t bytes[32];
    uint32_t shift[8];
    for (uint32_t lane = 0; lane < 8; lane++) {
        uint32_t bit = lane % 4 * w + (lane < 4 ? ahead : (ahead + 4 * w) % 8);
        shift[lane] = bit % 8;
        for (uint32_t i = 0; i < 4; i++)
            bytes[4 * lane + i] = (uint8_t)(bit / 8 + i);
    }
    made.bytes = WEFT_LOAD_256(bytes);
    made.shift = WEFT_LOAD_256(shift);
    return made;
}

/* Reads upper + 16 bytes. */
WEFT_ALWAYS_INLINE __m256i weft_fields256_get(const weft_fields256 *as, const uint8_t *data)
{
    __m256i raw =
        _mm256_inserti128_si256(_mm256_castsi128_si256(WEFT_LOAD_128(data)), WEFT_LOAD_128(data + as->upper), 1);
    return _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(raw, as->bytes), as->shift), as->mask);
}

/* Stores eight elements, small signed numbers in 32 bits. */
WEFT_ALWAYS_INLINE void weft_lanes_narrow(__m256i lanes, uint8_t *out, unsigned width)
{
    __m128i low = _mm256_castsi256_si128(lanes), high = _mm256_extracti128_si256(lanes, 1);
    __m128i half = _mm_packs_epi32(low, high);
    __m128i byte = _mm_packs_epi16(half, half);
    __m256i wide[2] = {_mm256_cvtepi32_epi64(low), _mm256_cvtepi32_epi64(high)};
    if (width == 1)
        memcpy(out, &byte, 8);
    else if (width == 2)
        memcpy(out, &half, 16);
    else if (width == 4)
        memcpy(out, &lanes, 32);
    else
        memcpy(out, wide, 64);
}

/* Changes on their way from the numbers of their ones to positions. */
typedef struct weft_place256 {
    weft_fields256 fields;
    __m256i index, sum; /* of the next eight: their places in the list; the low parts before them */
    __m128i by;
} weft_place256;

/* The next eight, whose numbers stand in `position`; their fields are at `data`. */
WEFT_ALWAYS_INLINE void weft_place256_next(weft_place256 *as, const uint8_t *data, uint32_t *position, uint8_t *steps,
                                           bool directed, unsigned width)
{
    const __m256i one = _mm256_set1_epi32(1);
    __m256i field = weft_fields256_get(&as->fields, data);
    __m256i low = _mm256_add_epi32(weft_lanes_prefix(directed ? _mm256_srli_epi32(field, 1) : field), as->sum);
    __m256i high = _mm256_sll_epi32(_mm256_sub_epi32(WEFT_LOAD_256(position), as->index), as->by);
    __m256i place = _mm256_add_epi32(_mm256_add_epi32(high, as->index), low);
    __m256i down = _mm256_and_si256(field, one);
    memcpy(position, &place, 32);
    if (directed)
        weft_lanes_narrow(_mm256_sub_epi32(one, _mm256_add_epi32(down, down)), steps, width);
    as->sum = _mm256_permutevar8x32_epi32(low, _mm256_set1_epi32(7));
    as->index = _mm256_add_epi32(as->index, _mm256_set1_epi32(8));
}

/* Lists the numbers of a word's ones, base being that of bit 0; at most seven entries too many are written. */
WEFT_ALWAYS_INLINE uint32_t weft_ones_list(uint64_t word, uint32_t base, uint32_t *number)
{
    const uint32_t ones = (uint32_t)__builtin_popcountll(word);
    for (uint32_t i = 0; i < ones; i += 8) {
        for (uint32_t j = 0; j < 8; j++) {
            number[i + j] = base + weft_word_first(word);
            word &= word - 1;
        }
    }
    return ones;
}

WEFT_ALWAYS_INLINE bool weft_fast256_gaps(weft_gaps gaps, weft_bit_walker *unary, bool directed, unsigned width)
{
    const uint32_t w = gaps.k + directed;
    weft_place256 as = {.fields = weft_fields256_of(w, gaps.lows % 8),
                        .index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                        .sum = _mm256_setzero_si256(),
                        .by = _mm_cvtsi32_si128((int)gaps.k)};
    for (uint64_t at = gaps.lows / 8; gaps.count - gaps.listed >= 64 && at + 8 * w + 32 <= gaps.source->bytes;) {
        WEFT_GAPS_WORD(&gaps, weft_ones_list);
        for (; gaps.placed + 8 <= gaps.listed; gaps.placed += 8, at += w) {
            weft_place256_next(&as, gaps.source->data + at, gaps.position + gaps.placed,
                               gaps.steps + (uint64_t)gaps.placed * width, directed, width);
            weft_gaps_fetch(&gaps, gaps.placed, 8, width);
        }
        if (gaps.placed > WEFT_GAPS_AHEAD && !weft_gaps_take(&gaps, gaps.placed - WEFT_GAPS_AHEAD, width))
            return false;
    }
    gaps.sum = (uint32_t)_mm256_extract_epi32(as.sum, 0);
    return weft_gaps_end(&gaps, unary, directed, width);
}

#endif
