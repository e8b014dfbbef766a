/* host_tight_avx512.c - level tight for CPUs with AVX-512 F, BW, VL, DQ, VBMI, VBMI2, VPOPCNTDQ and GFNI. Only this
 * file is compiled with those flags. */
#if defined(WEFT_HAVE_AVX512)

#include <immintrin.h>

#include "backends/host/host_element.h"
#include "backends/host/tight/host_tight_kernels.h"

/* Exponents of 64 elements, a byte each. */
WEFT_ALWAYS_INLINE __m512i exponents_1(const uint8_t *data, __m128i shift, uint32_t mask)
{
    return _mm512_and_si512(_mm512_srl_epi16(_mm512_loadu_si512(data), shift), _mm512_set1_epi8((char)mask));
}

WEFT_ALWAYS_INLINE __m256i exponents_2(const uint8_t *data, __m128i shift, uint32_t mask)
{
    __m512i words = _mm512_srl_epi16(_mm512_loadu_si512(data), shift);
    return _mm512_cvtepi16_epi8(_mm512_and_si512(words, _mm512_set1_epi16((short)mask)));
}

WEFT_ALWAYS_INLINE __m128i exponents_4(const uint8_t *data, __m128i shift, uint32_t mask)
{
    __m512i words = _mm512_srl_epi32(_mm512_loadu_si512(data), shift);
    return _mm512_cvtepi32_epi8(_mm512_and_si512(words, _mm512_set1_epi32((int)mask)));
}

WEFT_ALWAYS_INLINE __m512i exponents_take(const uint8_t *data, const weft_class_map *map, unsigned width)
{
    const __m128i shift = _mm_cvtsi32_si128((int)map->shift);
    uint8_t bytes[64];
    switch (width) {
    case 1:
        return exponents_1(data, shift, map->mask);
    case 2:
        return _mm512_inserti64x4(_mm512_castsi256_si512(exponents_2(data, shift, map->mask)),
                                  exponents_2(data + 64, shift, map->mask), 1);
    default:
        for (unsigned i = 0; i < 4; i++)
            _mm_storeu_si128((__m128i *)(void *)(bytes + 16 * i), exponents_4(data + 64 * i, shift, map->mask));
        return _mm512_loadu_si512(bytes);
    }
}

WEFT_ALWAYS_INLINE void above_take(const uint8_t *data, const __m512i *thresholds, const weft_class_map *map,
                                   uint64_t *above, uint32_t count, unsigned width)
{
    __m512i exponents = exponents_take(data, map, width);
    _Pragma("GCC unroll 16") for (uint32_t t = 0; t < count; t++) above[t] =
        _mm512_cmpgt_epu8_mask(exponents, thresholds[t]);
}

/* No exponent is above the last ones. */
static void thresholds_make(const weft_class_map *map, __m512i *thresholds)
{
    for (uint32_t t = 0; t < WEFT_CLASS_MAX; t++)
        thresholds[t] = _mm512_set1_epi8((char)(t + 1 < map->count ? map->classes->threshold[t] - 1 : 255));
}

#define WORD_THRESHOLDS(name, map)                                                                                     \
    __m512i name[WEFT_CLASS_MAX];                                                                                      \
    thresholds_make(map, name)
#define WORD_ABOVE(data, thresholds, map, above, n, width) above_take(data, thresholds, map, above, n, width)

#include "backends/host/tight/host_tight_packed.h"
#include "backends/host/tight/host_tight_sort512.h"
#include "backends/host/tight/host_tight_wide.h"

WEFT_TIGHT_WORDS(avx512, 1)
WEFT_TIGHT_WORDS(avx512, 2)
WEFT_TIGHT_WORDS(avx512, 4)
WEFT_TIGHT_PACKED(avx512, 8)
WEFT_TIGHT_WIDE(avx512, 1)
WEFT_TIGHT_WIDE(avx512, 2)
WEFT_TIGHT_WIDE(avx512, 4)
WEFT_TIGHT_FIND(avx512, 8, avx512_rank_8)
WEFT_TIGHT_SORT512(avx512)

const weft_host_tight_kernels weft_host_tight_avx512 = {
    .find = {avx512_find_1, avx512_find_2, avx512_find_4, avx512_find_8},
    .rank = {avx512_rank_words_1, avx512_rank_words_2, avx512_rank_words_4, avx512_rank_8},
    .place = {avx512_place_1, avx512_place_2, avx512_place_4, avx512_place_8},
    .sort = avx512_sort,
    .split = avx512_split,
};

#else
typedef int weft_host_tight_avx512_absent; /* an empty file is no C */
#endif
