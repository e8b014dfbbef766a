/* host_lanes512.h - masks of 64 elements into lists of positions, in 512-bit vectors. The file that includes it has the
 * intrinsics. */
#ifndef WEFT_BACKENDS_HOST_LANES512_H
#define WEFT_BACKENDS_HOST_LANES512_H

#include "backends/host/host_element.h"

#define LANES512_8(n)  n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7
#define LANES512_32(n) LANES512_8(n), LANES512_8(n + 8), LANES512_8(n + 16), LANES512_8(n + 24)
static const uint8_t weft_lanes512_number[64] = {LANES512_32(0), LANES512_32(32)};

/* Numbers of the bits of a word, a byte each. */
WEFT_ALWAYS_INLINE __m512i weft_lanes512_numbers(void)
{
    return _mm512_loadu_si512(weft_lanes512_number);
}

/* Sixteen of the numbers in `set`, each added to base. */
#define WEFT_LANES512_PART(set, part, base, position)                                                                  \
    _mm512_storeu_si512((position) + 16 * (part),                                                                      \
                        _mm512_add_epi32(base, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(set, part))))

/* Writes base + number of each bit that is set; a list with room for 64 holds what is written after them. */
WEFT_ALWAYS_INLINE uint32_t weft_lanes512_list(uint64_t word, __m512i numbers, uint32_t base, uint32_t *position)
{
    const uint32_t count = (uint32_t)__builtin_popcountll(word);
    const __m512i set = _mm512_maskz_compress_epi8(word, numbers), from = _mm512_set1_epi32((int)base);
    WEFT_LANES512_PART(set, 0, from, position);
    if (__builtin_expect(count > 16, 0)) {
        WEFT_LANES512_PART(set, 1, from, position);
        WEFT_LANES512_PART(set, 2, from, position);
        WEFT_LANES512_PART(set, 3, from, position);
    }
    return count;
}

#endif
