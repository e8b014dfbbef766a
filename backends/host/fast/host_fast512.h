/* host_fast512.h - loops of level fast in 512-bit vectors: sixteen changes of 32 bits each. What is not here is done as
 * in host_fast256.h. */
#ifndef WEFT_BACKENDS_HOST_FAST512_H
#define WEFT_BACKENDS_HOST_FAST512_H

#include "backends/host/fast/host_fast_loops.h"
#include "backends/host/host_lanes512.h"
#include "backends/host/host_loops.h"

/* The lanes moved up by n, the last ones of `before` in front. */
#define WEFT_LANES512_FOLLOW(before, lanes, n) _mm512_alignr_epi32(lanes, before, 16 - (n))

/* Gaps of sixteen places; `last` holds the places before and takes these. */
WEFT_ALWAYS_INLINE __m512i weft_lanes512_gaps(const uint32_t *place, __m512i *last)
{
    const __m512i places = _mm512_loadu_si512(place);
    const __m512i next = _mm512_sub_epi32(WEFT_LANES512_FOLLOW(*last, places, 1), _mm512_set1_epi32(-1));
    *last = places;
    return _mm512_sub_epi32(places, next);
}

/* Sums up to and with each lane. */
WEFT_ALWAYS_INLINE __m512i weft_lanes512_prefix(__m512i x)
{
    const __m512i zero = _mm512_setzero_si512();
    x = _mm512_add_epi32(x, WEFT_LANES512_FOLLOW(zero, x, 1));
    x = _mm512_add_epi32(x, WEFT_LANES512_FOLLOW(zero, x, 2));
    x = _mm512_add_epi32(x, WEFT_LANES512_FOLLOW(zero, x, 4));
    return _mm512_add_epi32(x, WEFT_LANES512_FOLLOW(zero, x, 8));
}

WEFT_ALWAYS_INLINE uint32_t weft_lanes512_last(__m512i x)
{
    return (uint32_t)_mm_extract_epi32(_mm512_extracti32x4_epi32(x, 3), 3);
}

/* All gaps together are less than the last place: no sum leaves 32 bits. */
WEFT_ALWAYS_INLINE uint64_t weft_fast512_gap_sum(const uint32_t *place, uint32_t count, uint32_t shift)
{
    const __m128i by = _mm_cvtsi32_si128((int)shift);
    __m512i last = _mm512_set1_epi32(-1), sum = _mm512_setzero_si512();
    uint32_t i = 0;
    for (; i + 16 <= count; i += 16)
        sum = _mm512_add_epi32(sum, _mm512_srl_epi32(weft_lanes512_gaps(place + i, &last), by));
    return weft_lanes512_last(weft_lanes512_prefix(sum)) +
           weft_loop_gap_sum(place + i, count - i, i ? place[i - 1] + 1 : 0, shift);
}

/* A word with the bits of these numbers; those of 64 and more are left out. */
WEFT_ALWAYS_INLINE uint64_t weft_lanes512_bits(__m512i numbers)
{
    const __m512i one = _mm512_set1_epi64(1);
    __m512i low = _mm512_sllv_epi64(one, _mm512_cvtepu32_epi64(_mm512_castsi512_si256(numbers)));
    __m512i high = _mm512_sllv_epi64(one, _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(numbers, 1)));
    __m512i eight = _mm512_or_si512(low, high);
    __m256i four = _mm256_or_si256(_mm512_castsi512_si256(eight), _mm512_extracti64x4_epi64(eight, 1));
    __m128i two = _mm_or_si128(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return (uint64_t)(_mm_extract_epi64(two, 0) | _mm_extract_epi64(two, 1));
}

/* Sixteen unary numbers are mostly fewer than 64 bits together. */
WEFT_ALWAYS_INLINE void weft_fast512_gap_ones(const uint32_t *position, uint32_t count, uint32_t k, weft_bit_writer *to)
{
    const __m128i by = _mm_cvtsi32_si128((int)k);
    const __m512i less = _mm512_set1_epi32(-1);
    weft_ones_writer writer = {to->at, to->word, to->fill};
    __m512i last = less;
    uint32_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m512i high = _mm512_srl_epi32(weft_lanes512_gaps(position + i, &last), by);
        __m512i ends = weft_lanes512_prefix(_mm512_sub_epi32(high, less));
        uint64_t bits = weft_lanes512_last(ends);
        if (bits <= 64)
            weft_ones_add(&writer, weft_lanes512_bits(_mm512_add_epi32(ends, less)), bits);
        else
            weft_loop_gap_ones(position + i, 16, i ? position[i - 1] + 1 : 0, k, &writer);
    }
    weft_loop_gap_ones(position + i, count - i, i ? position[i - 1] + 1 : 0, k, &writer);
    weft_ones_end(&writer, to);
}

/* ---- steps */

WEFT_ALWAYS_INLINE __m512i weft_lanes512_minus(__m512i x, __m512i y, unsigned width)
{
    switch (width) {
    case 1:
        return _mm512_sub_epi8(x, y);
    case 2:
        return _mm512_sub_epi16(x, y);
    case 4:
        return _mm512_sub_epi32(x, y);
    default:
        return _mm512_sub_epi64(x, y);
    }
}

/* Returns a bit for each element whose top bit is set. */
WEFT_ALWAYS_INLINE uint64_t weft_lanes512_negative(__m512i x, unsigned width)
{
    switch (width) {
    case 1:
        return _mm512_movepi8_mask(x);
    case 2:
        return _mm512_movepi16_mask(x);
    case 4:
        return _mm512_movepi32_mask(x);
    default:
        return _mm512_movepi64_mask(x);
    }
}

/* The elements of the mask in turn: y; the others: x. */
WEFT_ALWAYS_INLINE __m512i weft_lanes512_choose(__m512i x, uint64_t mask, __m512i y, unsigned width)
{
    switch (width) {
    case 1:
        return _mm512_mask_blend_epi8(mask, x, y);
    case 2:
        return _mm512_mask_blend_epi16((uint32_t)mask, x, y);
    case 4:
        return _mm512_mask_blend_epi32((uint16_t)mask, x, y);
    default:
        return _mm512_mask_blend_epi64((uint8_t)mask, x, y);
    }
}

WEFT_ALWAYS_INLINE __m512i weft_lanes512_all(uint64_t bits, unsigned width)
{
    return _mm512_set1_epi64((long long)(bits * (UINT64_MAX / weft_element_mask(width))));
}

/* weft_element_order of each element. */
WEFT_ALWAYS_INLINE __m512i weft_lanes512_order(__m512i x, bool is_float, unsigned width)
{
    if (!is_float)
        return x;
    const __m512i magnitude = weft_lanes512_all(weft_element_top(width) - 1, width);
    return weft_lanes512_choose(x, weft_lanes512_negative(x, width), _mm512_xor_si512(x, magnitude), width);
}

/* Returns a bit for each element that is above `y`, as numbers without a sign. */
WEFT_ALWAYS_INLINE uint64_t weft_lanes512_above(__m512i x, __m512i y, unsigned width)
{
    switch (width) {
    case 1:
        return _mm512_cmpgt_epu8_mask(x, y);
    case 2:
        return _mm512_cmpgt_epu16_mask(x, y);
    case 4:
        return _mm512_cmpgt_epu32_mask(x, y);
    default:
        return _mm512_cmpgt_epu64_mask(x, y);
    }
}

/* The elements of the mask, close together. */
WEFT_ALWAYS_INLINE __m512i weft_lanes512_compress(uint64_t mask, __m512i x, unsigned width)
{
    switch (width) {
    case 1:
        return _mm512_maskz_compress_epi8(mask, x);
    case 2:
        return _mm512_maskz_compress_epi16((uint32_t)mask, x);
    case 4:
        return _mm512_maskz_compress_epi32((uint16_t)mask, x);
    default:
        return _mm512_maskz_compress_epi64((uint8_t)mask, x);
    }
}

/* Eight elements, each in 64 bits. */
WEFT_ALWAYS_INLINE __m512i weft_lanes512_eight(const uint8_t *data, unsigned width)
{
    switch (width) {
    case 1:
        return _mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)data));
    case 2:
        return _mm512_cvtepu16_epi64(_mm_loadu_si128((const void *)data));
    case 4:
        return _mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)data));
    default:
        return _mm512_loadu_si512(data);
    }
}

/* Signed steps of the elements in 64 bytes. */
WEFT_ALWAYS_INLINE __m512i weft_lanes512_steps(const uint8_t *before, const uint8_t *after, bool is_float,
                                               unsigned width)
{
    return weft_lanes512_minus(weft_lanes512_order(_mm512_loadu_si512(after), is_float, width),
                               weft_lanes512_order(_mm512_loadu_si512(before), is_float, width), width);
}

/* Returns a bit for each element in 64 bytes that moved by more than one step, and appends its magnitude less two. Up
 * to seven words too many are written, so the list has room for eight more. */
WEFT_ALWAYS_INLINE uint64_t weft_lanes512_far(const uint8_t *before, const uint8_t *after, bool is_float,
                                              uint64_t *excess, unsigned width)
{
    const __m512i one = weft_lanes512_all(1, width), zero = _mm512_setzero_si512();
    const __m512i steps = weft_lanes512_steps(before, after, is_float, width);
    const __m512i up = weft_lanes512_choose(steps, weft_lanes512_negative(steps, width),
                                            weft_lanes512_minus(zero, steps, width), width);
    const uint64_t far = weft_lanes512_above(up, one, width);
    const uint32_t count = (uint32_t)__builtin_popcountll(far);
    uint8_t listed[64];
    _mm512_storeu_si512(listed, weft_lanes512_compress(far, up, width));
    for (uint32_t i = 0; i < count; i += 8)
        _mm512_storeu_si512(excess + i, _mm512_sub_epi64(weft_lanes512_eight(listed + (uint64_t)i * width, width),
                                                         _mm512_set1_epi64(2)));
    return far;
}

/* Fields of no low bits are directions alone: 64 of them are one word. */
WEFT_ALWAYS_INLINE uint8_t *weft_fast512_directions(const uint32_t *position, const uint8_t *before,
                                                    const uint8_t *after, uint32_t count, bool is_float, uint8_t *out,
                                                    const uint8_t *end, unsigned width)
{
    uint32_t i = 0;
    for (; i + 64 <= count && end - out >= 8; i += 64, out += 8) {
        uint64_t down = 0;
        for (uint32_t part = 0; part < width; part++) {
            const uint64_t at = (uint64_t)i * width + 64 * part;
            const __m512i steps = weft_lanes512_steps(before + at, after + at, is_float, width);
            down |= weft_lanes512_negative(steps, width) << (part * (64 / width) % 64);
        }
        memcpy(out, &down, 8);
    }
    const uint64_t at = (uint64_t)i * width;
    return weft_loop_fields(position + i, before + at, after + at, count - i, 0, is_float, 0, out, end, width);
}

WEFT_ALWAYS_INLINE uint32_t weft_fast512_exceptions(const uint8_t *before, const uint8_t *after, uint32_t count,
                                                    bool is_float, uint32_t *rank, uint64_t *excess, unsigned width)
{
    const __m512i numbers = weft_lanes512_numbers();
    const uint32_t each = 64 / width;
    uint32_t found = 0, i = 0;
    for (; i + 64 <= count; i += 64) {
        uint64_t word = 0;
        uint32_t listed = found;
        for (uint32_t part = 0; part < width; part++) {
            const uint64_t at = (uint64_t)i * width + 64 * part;
            const uint64_t far = weft_lanes512_far(before + at, after + at, is_float, excess + listed, width);
            listed += (uint32_t)__builtin_popcountll(far);
            word |= far << (part * each % 64);
        }
        found += weft_lanes512_list(word, numbers, i, rank + found);
    }
    const uint64_t at = (uint64_t)i * width;
    const uint32_t end =
        found + weft_loop_exceptions(before + at, after + at, count - i, is_float, rank + found, excess + found, width);
    for (; found < end; found++)
        rank[found] += i;
    return found;
}

#endif
