/* host_lanes256.h - what kernel sets with 256-bit vectors share: the digest's mixer on four lanes of 64 bits, which has
 * to make a 64-bit product of 32-bit ones, and elements widened to lanes. */
#ifndef WEFT_BACKENDS_HOST_LANES256_H
#define WEFT_BACKENDS_HOST_LANES256_H

#include "backends/host_element.h"
#include "digest.h"

#define WEFT_LOAD_128(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define WEFT_LOAD_256(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))

/* x * y mod 2^64 in each lane: the high half of the product of the low halves, plus both mixed products. */
WEFT_ALWAYS_INLINE __m256i weft_lanes_multiply(__m256i x, uint64_t y)
{
    const __m256i low = _mm256_set1_epi64x((long long)y), high = _mm256_set1_epi64x((long long)(y >> 32));
    __m256i mixed = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(x, 32), low), _mm256_mul_epu32(x, high));
    return _mm256_add_epi64(_mm256_mul_epu32(x, low), _mm256_slli_epi64(mixed, 32));
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

#endif
