/* host_lanes256.h - what kernel sets with 256-bit vectors share: the digest's mixer on four lanes of 64 bits, which has
 * to make a 64-bit product of 32-bit ones; elements in their order; masks of 64 elements and the lists they make. */
#ifndef WEFT_BACKENDS_HOST_LANES256_H
#define WEFT_BACKENDS_HOST_LANES256_H

#include "backends/host/host_element.h"
#include "layout/digest.h"

#define WEFT_LOAD_128(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define WEFT_LOAD_256(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))

/* x * y mod 2^64 in each lane: the product of the low halves, plus both mixed products in the high half. Of the mixed
 * ones 32 bits count, so one instruction makes both: the digest takes 1.32 cycles an element of 2 bytes in place
 * of 1.44 (AMD EPYC with AVX-512, by this set). */
WEFT_ALWAYS_INLINE __m256i weft_lanes_multiply(__m256i x, uint64_t y)
{
    const __m256i low = _mm256_set1_epi64x((long long)y), crossed = _mm256_set1_epi64x((long long)(y << 32 | y >> 32));
    __m256i mixed = _mm256_mullo_epi32(x, crossed);
    mixed = _mm256_add_epi32(mixed, _mm256_slli_epi64(mixed, 32));
    return _mm256_add_epi64(_mm256_mul_epu32(x, low), _mm256_blend_epi32(mixed, _mm256_setzero_si256(), 0x55));
}

WEFT_ALWAYS_INLINE __m256i weft_lanes_mix64(__m256i x)
{
    x = weft_lanes_multiply(_mm256_xor_si256(x, _mm256_srli_epi64(x, 30)), UINT64_C(0xbf58476d1ce4e5b9));
    x = weft_lanes_multiply(_mm256_xor_si256(x, _mm256_srli_epi64(x, 27)), UINT64_C(0x94d049bb133111eb));
    return _mm256_xor_si256(x, _mm256_srli_epi64(x, 31));
}

/* Four elements, each in 64 bits. */
WEFT_ALWAYS_INLINE __m256i weft_lanes_widen(const uint8_t *data, unsigned width)
{
    uint32_t four;
    switch (width) {
    case 1:
        memcpy(&four, data, 4);
        return _mm256_cvtepu8_epi64(_mm_cvtsi32_si128((int)four));
    case 2:
        return _mm256_cvtepu16_epi64(_mm_loadl_epi64((const __m128i *)(const void *)data));
    case 4:
        return _mm256_cvtepu32_epi64(WEFT_LOAD_128(data));
    default:
        return WEFT_LOAD_256(data);
    }
}

WEFT_ALWAYS_INLINE uint64_t weft_lanes_sum(__m256i lanes)
{
    uint64_t lane[4];
    memcpy(lane, &lanes, sizeof(lane));
    return lane[0] + lane[1] + lane[2] + lane[3];
}

WEFT_ALWAYS_INLINE __m256i weft_lanes_minus(__m256i x, __m256i y, unsigned width)
{
    switch (width) {
    case 1:
        return _mm256_sub_epi8(x, y);
    case 2:
        return _mm256_sub_epi16(x, y);
    case 4:
        return _mm256_sub_epi32(x, y);
    default:
        return _mm256_sub_epi64(x, y);
    }
}

/* All ones in the elements that are equal. */
WEFT_ALWAYS_INLINE __m256i weft_lanes_equal(__m256i x, __m256i y, unsigned width)
{
    switch (width) {
    case 1:
        return _mm256_cmpeq_epi8(x, y);
    case 2:
        return _mm256_cmpeq_epi16(x, y);
    case 4:
        return _mm256_cmpeq_epi32(x, y);
    default:
        return _mm256_cmpeq_epi64(x, y);
    }
}

/* weft_element_order of each element. */
WEFT_ALWAYS_INLINE __m256i weft_lanes_order(__m256i x, bool is_float, unsigned width)
{
    const __m256i zero = _mm256_setzero_si256();
    if (!is_float)
        return x;
    switch (width) {
    case 1:
        return _mm256_xor_si256(x, _mm256_and_si256(_mm256_cmpgt_epi8(zero, x), _mm256_set1_epi8(INT8_MAX)));
    case 2:
        return _mm256_xor_si256(x, _mm256_srli_epi16(_mm256_srai_epi16(x, 15), 1));
    case 4:
        return _mm256_xor_si256(x, _mm256_srli_epi32(_mm256_srai_epi32(x, 31), 1));
    default:
        return _mm256_xor_si256(x, _mm256_srli_epi64(_mm256_cmpgt_epi64(zero, x), 1));
    }
}

WEFT_ALWAYS_INLINE __m256i weft_lanes_steps(__m256i before, __m256i after, bool is_float, unsigned width)
{
    return weft_lanes_minus(weft_lanes_order(after, is_float, width), weft_lanes_order(before, is_float, width), width);
}

/* One bit for each of 64 elements, from 2 * width vectors that hold all ones or zeros in each. */
WEFT_ALWAYS_INLINE uint64_t weft_lanes_word(const __m256i *lanes, unsigned width)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 2 * width; i += width == 2 ? 2 : 1) {
        uint64_t bits;
        if (width == 1)
            bits = (uint32_t)_mm256_movemask_epi8(lanes[i]);
        else if (width == 2) /* the pack works within 128 bits */
            bits = (uint32_t)_mm256_movemask_epi8(
                _mm256_permute4x64_epi64(_mm256_packs_epi16(lanes[i], lanes[i + 1]), 0xd8));
        else if (width == 4)
            bits = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(lanes[i]));
        else
            bits = (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(lanes[i]));
        word |= bits << (i * (32 / width));
    }
    return word;
}

/* Returns a bit for each of 64 elements that differs. */
WEFT_ALWAYS_INLINE uint64_t weft_word_differ(const uint8_t *now, const uint8_t *shadow, unsigned width)
{
    __m256i equal[16];
    for (unsigned i = 0; i < 2 * width; i++)
        equal[i] =
            weft_lanes_equal(WEFT_LOAD_256(now + 32 * (uint64_t)i), WEFT_LOAD_256(shadow + 32 * (uint64_t)i), width);
    return ~weft_lanes_word(equal, width);
}

/* Number of the first bit that is set, 64 if none is. The instruction says just that; asked for in C, compilers branch
 * on words that are zero, which half of them are. */
WEFT_ALWAYS_INLINE uint32_t weft_word_first(uint64_t word)
{
#if defined(__BMI__)
    return (uint32_t)_tzcnt_u64(word);
#else
    return word ? (uint32_t)__builtin_ctzll(word) : 64;
#endif
}

/* Writes base + number of each bit that is set: two at a time, since most words have no more and a branch on so many
 * would not be foreseen. Up to two entries too many are written, which a list with room for 64 holds. */
WEFT_ALWAYS_INLINE uint32_t weft_word_list(uint64_t word, uint32_t base, uint32_t *list)
{
    const uint32_t count = (uint32_t)__builtin_popcountll(word);
    uint32_t i = 0;
    do {
        list[i] = base + weft_word_first(word);
        word &= word - 1;
        list[i + 1] = base + weft_word_first(word);
        word &= word - 1;
        i += 2;
    } while (i < count);
    return count;
}

#endif
