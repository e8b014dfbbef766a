/* host_fast256.h - the loops of level fast in 256-bit vectors: eight changes of 32 bits each.
 *
 * Fields: eight fields of w bits are w whole bytes, so that every eighth begins on a byte; a shift per lane joins pairs
 * of neighbours twice, and two words of 4 * w bits remain. What the
 * vectors do not take (wide fields, the last few) the plain loops do. */
#ifndef WEFT_BACKENDS_HOST_FAST256_H
#define WEFT_BACKENDS_HOST_FAST256_H

#include "backends/host/fast/host_fast_loops.h"
#include "backends/host/host_lanes256.h"
#include "backends/host/host_loops.h"

/* The lanes moved up by one, the last of `before` in front. */
WEFT_ALWAYS_INLINE __m256i weft_lanes_follow(__m256i before, __m256i lanes)
{
    const __m256i up = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
    return _mm256_blend_epi32(_mm256_permutevar8x32_epi32(lanes, up), _mm256_permutevar8x32_epi32(before, up), 1);
}

/* Gaps of eight places; `last` holds the places before and takes these. */
WEFT_ALWAYS_INLINE __m256i weft_lanes_gaps(const uint32_t *place, __m256i *last)
{
    const __m256i places = WEFT_LOAD_256(place);
    const __m256i next = _mm256_sub_epi32(weft_lanes_follow(*last, places), _mm256_set1_epi32(-1));
    *last = places;
    return _mm256_sub_epi32(places, next);
}

/* Sums up to and with each lane. */
WEFT_ALWAYS_INLINE __m256i weft_lanes_prefix(__m256i x)
{
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
    __m256i lower = _mm256_permute2x128_si256(x, x, 0x08); /* the lower half above zeros */
    return _mm256_add_epi32(x, _mm256_shuffle_epi32(lower, 0xff));
}

WEFT_ALWAYS_INLINE uint64_t weft_fast256_gap_sum(const uint32_t *place, uint32_t count, uint32_t shift)
{
    const __m128i by = _mm_cvtsi32_si128((int)shift);
    const __m256i even = _mm256_set1_epi64x(UINT32_MAX);
    __m256i last = _mm256_set1_epi32(-1), sum = _mm256_setzero_si256();
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i high = _mm256_srl_epi32(weft_lanes_gaps(place + i, &last), by);
        sum = _mm256_add_epi64(sum, _mm256_add_epi64(_mm256_and_si256(high, even), _mm256_srli_epi64(high, 32)));
    }
    return weft_lanes_sum(sum) + weft_loop_gap_sum(place + i, count - i, i ? place[i - 1] + 1 : 0, shift);
}

/* A word with the bits of these numbers, all below 64. */
WEFT_ALWAYS_INLINE uint64_t weft_lanes_bits(__m256i numbers)
{
    const __m256i one = _mm256_set1_epi64x(1);
    __m256i low = _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(numbers)));
    __m256i high = _mm256_sllv_epi64(one, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(numbers, 1)));
    __m256i four = _mm256_or_si256(low, high);
    __m128i two = _mm_or_si128(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return (uint64_t)(_mm_extract_epi64(two, 0) | _mm_extract_epi64(two, 1));
}

/* Eight unary numbers are mostly far fewer than 64 bits together. */
WEFT_ALWAYS_INLINE void weft_fast256_gap_ones(const uint32_t *position, uint32_t count, uint32_t k, weft_bit_writer *to)
{
    const __m128i by = _mm_cvtsi32_si128((int)k);
    const __m256i less = _mm256_set1_epi32(-1);
    weft_ones_writer writer = {to->at, to->word, to->fill};
    __m256i last = less;
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i high = _mm256_srl_epi32(weft_lanes_gaps(position + i, &last), by);
        __m256i ends = weft_lanes_prefix(_mm256_sub_epi32(high, less));
        uint64_t bits = (uint32_t)_mm256_extract_epi32(ends, 7);
        if (bits <= 64)
            weft_ones_add(&writer, weft_lanes_bits(_mm256_add_epi32(ends, less)), bits);
        else
            weft_loop_gap_ones(position + i, 8, i ? position[i - 1] + 1 : 0, k, &writer);
    }
    weft_loop_gap_ones(position + i, count - i, i ? position[i - 1] + 1 : 0, k, &writer);
    weft_ones_end(&writer, to);
}

/* Eight elements in the low bytes, or from `half` 1 the four others of width 8. */
WEFT_ALWAYS_INLINE __m256i weft_lanes_eight(const uint8_t *data, unsigned half, unsigned width)
{
    switch (width) {
    case 1:
        return _mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)(const void *)data));
    case 2:
        return _mm256_castsi128_si256(WEFT_LOAD_128(data));
    default:
        return WEFT_LOAD_256(data + 32 * (uint64_t)half);
    }
}

/* 1 in each lane of 32 bits whose change goes down: the sign of its steps. */
WEFT_ALWAYS_INLINE __m256i weft_lanes_down(const uint8_t *before, const uint8_t *after, bool is_float, unsigned width)
{
    __m256i steps =
        weft_lanes_steps(weft_lanes_eight(before, 0, width), weft_lanes_eight(after, 0, width), is_float, width);
    if (width == 1)
        steps = _mm256_cvtepi8_epi32(_mm256_castsi256_si128(steps));
    if (width == 2)
        steps = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(steps));
    if (width == 8) { /* the upper halves */
        __m256i more =
            weft_lanes_steps(weft_lanes_eight(before, 1, width), weft_lanes_eight(after, 1, width), is_float, width);
        __m256 upper = _mm256_shuffle_ps(_mm256_castsi256_ps(steps), _mm256_castsi256_ps(more), 0xdd);
        steps = _mm256_permute4x64_epi64(_mm256_castps_si256(upper), 0xd8);
    }
    return _mm256_srli_epi32(steps, 31);
}

/* Two numbers of four fields each, made of eight fields of w bits, 1 to 16; `pair` holds shifts: 0 and 2 * w, twice. */
typedef struct weft_fours256 {
    uint64_t low, high;
} weft_fours256;

WEFT_ALWAYS_INLINE weft_fours256 weft_fast256_join(__m256i fields, unsigned w, __m256i pair)
{
    const __m256i even = _mm256_set1_epi64x(UINT32_MAX);
    __m256i odd = _mm256_sll_epi64(_mm256_srli_epi64(fields, 32), _mm_cvtsi32_si128((int)w));
    __m256i twos = _mm256_sllv_epi64(_mm256_or_si256(_mm256_and_si256(fields, even), odd), pair);
    __m256i fours = _mm256_or_si256(twos, _mm256_unpackhi_epi64(twos, twos));
    return (weft_fours256){(uint64_t)_mm256_extract_epi64(fours, 0), (uint64_t)_mm256_extract_epi64(fours, 2)};
}

/* Writes eight fields of w bits into w bytes (and up to 12 more). */
WEFT_ALWAYS_INLINE void weft_fast256_pack(__m256i fields, unsigned w, __m256i pair, uint8_t *out)
{
    weft_fours256 fours = weft_fast256_join(fields, w, pair);
    memcpy(out, &fours.low, 8);
    if (w % 2 == 1) /* four bits of the low word lie in the byte where the high one begins */
        fours.high = fours.high << 4 | fours.low >> (4 * (w - 1));
    memcpy(out + w / 2, &fours.high, 8);
}

WEFT_ALWAYS_INLINE void weft_fast256_gap_lows(const uint32_t *place, uint32_t count, uint32_t k, weft_bit_writer *to)
{
    const __m256i low = _mm256_set1_epi32((int)((UINT32_C(1) << k) - 1)), pair = _mm256_setr_epi64x(0, 2 * k, 0, 2 * k);
    weft_ones_writer writer = {to->at, to->word, to->fill};
    __m256i last = _mm256_set1_epi32(-1);
    uint32_t i = 0;
    for (; k <= 16 && i + 8 <= count; i += 8) {
        weft_fours256 fours = weft_fast256_join(_mm256_and_si256(weft_lanes_gaps(place + i, &last), low), k, pair);
        weft_ones_add(&writer, fours.low, 4 * k);
        weft_ones_add(&writer, fours.high, 4 * k);
    }
    weft_loop_gap_lows(place + i, count - i, i ? place[i - 1] + 1 : 0, k, &writer);
    weft_ones_end(&writer, to);
}

WEFT_ALWAYS_INLINE uint8_t *weft_fast256_fields(const uint32_t *position, const uint8_t *before, const uint8_t *after,
                                                uint32_t count, bool is_float, uint32_t k, uint8_t *out,
                                                const uint8_t *end, unsigned width)
{
    const __m256i low = _mm256_set1_epi32((int)((UINT32_C(1) << k) - 1));
    const __m256i pair = _mm256_setr_epi64x(0, 2 * (k + 1), 0, 2 * (k + 1));
    __m256i last = _mm256_set1_epi32(-1);
    uint32_t i = 0;
    for (; k < 16 && i + 8 <= count && end - out >= 32; i += 8) {
        __m256i gaps = _mm256_and_si256(weft_lanes_gaps(position + i, &last), low);
        __m256i down = weft_lanes_down(before + (uint64_t)i * width, after + (uint64_t)i * width, is_float, width);
        weft_fast256_pack(_mm256_or_si256(_mm256_add_epi32(gaps, gaps), down), k + 1, pair, out);
        out += k + 1;
    }
    const uint64_t at = (uint64_t)i * width;
    return weft_loop_fields(position + i, before + at, after + at, count - i, i ? position[i - 1] + 1 : 0, is_float, k,
                            out, end, width);
}

WEFT_ALWAYS_INLINE void weft_fast256_step(const uint8_t *before, uint8_t *after, uint32_t count, bool is_float,
                                          unsigned width)
{
    const uint64_t bytes = (uint64_t)count * width;
    const __m256i zero = _mm256_setzero_si256();
    uint64_t at = 0;
    for (; at + 32 <= bytes; at += 32) {
        __m256i back = weft_lanes_minus(zero, WEFT_LOAD_256(after + at), width);
        __m256i place = weft_lanes_order(WEFT_LOAD_256(before + at), is_float, width);
        __m256i moved = weft_lanes_order(weft_lanes_minus(place, back, width), is_float, width);
        memcpy(after + at, &moved, 32);
    }
    weft_loop_step(before + at, after + at, (uint32_t)((bytes - at) / width), is_float, width);
}

/* All ones where the steps are -1, 0 or 1. */
WEFT_ALWAYS_INLINE __m256i weft_lanes_near(__m256i steps, unsigned width)
{
    const __m256i one = _mm256_set1_epi64x((long long)(UINT64_MAX / weft_element_mask(width)));
    const __m256i up = weft_lanes_equal(steps, one, width), none = _mm256_setzero_si256();
    const __m256i down = weft_lanes_equal(steps, weft_lanes_minus(none, one, width), width);
    return _mm256_or_si256(_mm256_or_si256(up, down), weft_lanes_equal(steps, none, width));
}

WEFT_ALWAYS_INLINE uint64_t weft_fast256_far_word(const uint8_t *before, const uint8_t *after, bool is_float,
                                                  unsigned width)
{
    __m256i near[16];
    for (unsigned i = 0; i < 2 * width; i++) {
        __m256i steps = weft_lanes_steps(WEFT_LOAD_256(before + 32 * (uint64_t)i),
                                         WEFT_LOAD_256(after + 32 * (uint64_t)i), is_float, width);
        near[i] = weft_lanes_near(steps, width);
    }
    return ~weft_lanes_word(near, width);
}

WEFT_ALWAYS_INLINE uint32_t weft_fast256_exceptions(const uint8_t *before, const uint8_t *after, uint32_t count,
                                                    bool is_float, uint32_t *rank, uint64_t *excess, unsigned width)
{
    uint32_t found = 0, i = 0;
    for (; i + 64 <= count; i += 64) {
        const uint64_t at = (uint64_t)i * width;
        found += weft_word_list(weft_fast256_far_word(before + at, after + at, is_float, width), i, rank + found);
    }
    for (uint32_t e = 0; e < found; e++) {
        uint64_t steps = weft_element_steps(weft_element_get(before, rank[e], width),
                                            weft_element_get(after, rank[e], width), width, is_float);
        excess[e] = weft_steps_magnitude(steps, width) - 2;
    }
    const uint64_t at = (uint64_t)i * width;
    uint32_t end =
        found + weft_loop_exceptions(before + at, after + at, count - i, is_float, rank + found, excess + found, width);
    for (; found < end; found++)
        rank[found] += i;
    return found;
}

/* Functions for the slots of a set. */
#define WEFT_FAST256_SUMS(P)                                                                                           \
    static uint64_t P##_gap_sum(const uint32_t *place, uint32_t count, uint32_t shift)                                 \
    {                                                                                                                  \
        return weft_fast256_gap_sum(place, count, shift);                                                              \
    }                                                                                                                  \
    static void P##_gap_ones(const uint32_t *position, uint32_t count, uint32_t gap_bits, weft_bit_writer *to)         \
    {                                                                                                                  \
        weft_fast256_gap_ones(position, count, gap_bits, to);                                                          \
    }

#define WEFT_FAST256_LOWS(P)                                                                                           \
    static void P##_gap_lows(const uint32_t *place, uint32_t count, uint32_t gap_bits, weft_bit_writer *to)            \
    {                                                                                                                  \
        weft_fast256_gap_lows(place, count, gap_bits, to);                                                             \
    }

#define WEFT_FAST256_EXCEPTIONS(P, W)                                                                                  \
    static uint32_t P##_exceptions_##W(const uint8_t *before, const uint8_t *after, uint32_t count, bool is_float,     \
                                       uint32_t *rank, uint64_t *excess)                                               \
    {                                                                                                                  \
        return weft_fast256_exceptions(before, after, count, is_float, rank, excess, W);                               \
    }

#define WEFT_FAST256_STEP(P, W)                                                                                        \
    static void P##_step_##W(const uint8_t *before, uint8_t *after, uint32_t count, bool is_float)                     \
    {                                                                                                                  \
        weft_fast256_step(before, after, count, is_float, W);                                                          \
    }

#define WEFT_FAST256_FIELDS(P, W)                                                                                      \
    static uint8_t *P##_fields_##W(const uint32_t *position, const uint8_t *before, const uint8_t *after,              \
                                   uint32_t count, bool is_float, uint32_t gap_bits, uint8_t *out, const uint8_t *end) \
    {                                                                                                                  \
        return weft_fast256_fields(position, before, after, count, is_float, gap_bits, out, end, W);                   \
    }

#endif
