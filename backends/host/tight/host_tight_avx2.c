/* host_tight_avx2.c - level tight for CPUs with AVX2, BMI1 and BMI2. Only this file is compiled with those flags. */
#if defined(WEFT_HAVE_AVX2)

#include <immintrin.h>

#include "backends/host/host_lanes256.h"
#include "backends/host/tight/host_tight_kernels.h"

/* AVX2 compares bytes as signed ones: their top bits are flipped. */
WEFT_ALWAYS_INLINE __m256i flip(__m256i bytes)
{
    return _mm256_xor_si256(bytes, _mm256_set1_epi8((char)0x80));
}

/* Exponents of 32 elements, a byte each. */
WEFT_ALWAYS_INLINE __m256i exponents_1(const uint8_t *data, __m128i shift, uint32_t mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(WEFT_LOAD_256(data), shift), _mm256_set1_epi8((char)mask));
}

/* Packing works in each half of a vector; the permutation puts the quarters in order. */
WEFT_ALWAYS_INLINE __m256i exponents_2(const uint8_t *data, __m128i shift, uint32_t mask)
{
    const __m256i bits = _mm256_set1_epi16((short)mask);
    __m256i a = _mm256_and_si256(_mm256_srl_epi16(WEFT_LOAD_256(data), shift), bits);
    __m256i b = _mm256_and_si256(_mm256_srl_epi16(WEFT_LOAD_256(data + 32), shift), bits);
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
}

WEFT_ALWAYS_INLINE __m256i exponents_4(const uint8_t *data, __m128i shift, uint32_t mask)
{
    const __m256i bits = _mm256_set1_epi32((int)mask);
    __m256i lanes[4];
    for (unsigned i = 0; i < 4; i++)
        lanes[i] = _mm256_and_si256(_mm256_srl_epi32(WEFT_LOAD_256(data + 32 * i), shift), bits);
    __m256i a = _mm256_packus_epi32(lanes[0], lanes[1]), b = _mm256_packus_epi32(lanes[2], lanes[3]);
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

WEFT_ALWAYS_INLINE __m256i exponents_take(const uint8_t *data, __m128i shift, uint32_t mask, unsigned width)
{
    switch (width) {
    case 1:
        return exponents_1(data, shift, mask);
    case 2:
        return exponents_2(data, shift, mask);
    default:
        return exponents_4(data, shift, mask);
    }
}

WEFT_ALWAYS_INLINE void above_take(const uint8_t *data, const __m256i *thresholds, const weft_class_map *map,
                                   uint64_t *above, uint32_t count, unsigned width)
{
    const __m128i shift = _mm_cvtsi32_si128((int)map->shift);
    const __m256i first = flip(exponents_take(data, shift, map->mask, width));
    const __m256i second = flip(exponents_take(data + 32 * (uint64_t)width, shift, map->mask, width));
    _Pragma("GCC unroll 16") for (uint32_t t = 0; t < count; t++)
    {
        uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(first, thresholds[t]));
        uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(second, thresholds[t]));
        above[t] = low | (uint64_t)high << 32;
    }
}

/* No exponent is above the last ones. */
static void thresholds_make(const weft_class_map *map, __m256i *thresholds)
{
    for (uint32_t t = 0; t < WEFT_CLASS_MAX; t++)
        thresholds[t] = flip(_mm256_set1_epi8((char)(t + 1 < map->count ? map->classes->threshold[t] - 1 : 255)));
}

#define WORD_THRESHOLDS(name, map)                                                                                     \
    __m256i name[WEFT_CLASS_MAX];                                                                                      \
    thresholds_make(map, name)
#define WORD_ABOVE(data, thresholds, map, above, n, width) above_take(data, thresholds, map, above, n, width)

#define BLOCK_EXPONENTS(data, map, width) exponents_take(data, (map)->shift, (map)->mask, width)

#include "backends/host/tight/host_tight_find.h"
#include "backends/host/tight/host_tight_packed.h"
#include "backends/host/tight/host_tight_sort.h"

WEFT_TIGHT_WORDS(avx2, 1)
WEFT_TIGHT_WORDS(avx2, 2)
WEFT_TIGHT_WORDS(avx2, 4)
WEFT_TIGHT_PACKED(avx2, 8)
WEFT_TIGHT_BLOCKS(avx2, 1)
WEFT_TIGHT_BLOCKS(avx2, 2)
WEFT_TIGHT_BLOCKS(avx2, 4)
WEFT_TIGHT_FIND_BLOCKS(avx2, 1)
WEFT_TIGHT_FIND_BLOCKS(avx2, 2)
WEFT_TIGHT_FIND_BLOCKS(avx2, 4)
WEFT_TIGHT_FIND(avx2, 8, avx2_rank_8)
WEFT_TIGHT_SORT(avx2)

const weft_host_tight_kernels weft_host_tight_avx2 = {
    .find = {avx2_find_1, avx2_find_2, avx2_find_4, avx2_find_8},
    .rank = {avx2_rank_1, avx2_rank_2, avx2_rank_4, avx2_rank_8},
    .place = {avx2_place_1, avx2_place_2, avx2_place_4, avx2_place_8},
    .sort = avx2_sort,
    .split = avx2_split,
};

#else
typedef int weft_host_tight_avx2_absent; /* an empty file is no C */
#endif
