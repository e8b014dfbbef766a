/* host_avx512.c - the kernel set for CPUs with AVX-512 F, BW, VL, DQ, VBMI and VBMI2.
 *
 * Diff lists the positions of a block at the speed of the two streams, a vector compress for each 64 elements and no
 * branch on what they hold; then it copies the bits from the block, which is still in the first cache. Of level fast,
 * what 256 bits do as well is done as there. Only this file is compiled with those flags. */
#if defined(WEFT_HAVE_AVX512)

#include <immintrin.h>

#include "backends/host/fast/host_fast256.h"
#include "backends/host/fast/host_fast512.h"
#include "backends/host/fast/host_gaps512.h"
#include "backends/host/host_kernels.h"
#include "backends/host/host_loops.h"

#define LANES_32(v) _mm256_loadu_si256((const void *)(v))

/* Mask words of 64 elements that a block of diff holds. */
#define BLOCK_WORDS 64u

/* Returns a bit for each element in 64 bytes that differs. */
WEFT_ALWAYS_INLINE uint64_t differ64(const uint8_t *now, const uint8_t *shadow, unsigned width)
{
    __m512i x = _mm512_xor_si512(_mm512_loadu_si512(now), _mm512_loadu_si512(shadow));
    switch (width) {
    case 1:
        return _mm512_test_epi8_mask(x, x);
    case 2:
        return _mm512_test_epi16_mask(x, x);
    case 4:
        return _mm512_test_epi32_mask(x, x);
    default:
        return _mm512_test_epi64_mask(x, x);
    }
}

/* Returns a bit for each of 64 elements that differs. */
WEFT_ALWAYS_INLINE uint64_t differ_word(const uint8_t *now, const uint8_t *shadow, unsigned width)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < width; i++)
        word |= differ64(now + 64 * i, shadow + 64 * i, width) << (i * (64 / width) % 64);
    return word;
}

/* Bytes that diff asks for ahead of use in each stream, so that memory works on while lists are made. */
#define STREAM_AHEAD 4096u

WEFT_ALWAYS_INLINE uint32_t diff(const uint8_t *now, const uint8_t *shadow, uint32_t count, uint32_t first,
                                 uint32_t *position, uint8_t *before, uint8_t *after, unsigned width)
{
    const __m512i numbers = weft_lanes512_numbers();
    uint32_t found = 0, done = 0;
    while (count - done >= 64) {
        uint32_t block = (count - done) / 64 < BLOCK_WORDS ? (count - done) / 64 : BLOCK_WORDS, end = found;
        const uint8_t *a = now + (uint64_t)done * width, *b = shadow + (uint64_t)done * width;
        for (uint32_t i = 0; i < block; i++) {
            const uint8_t *x = a + (uint64_t)i * 64 * width, *y = b + (uint64_t)i * 64 * width;
            weft_ahead_stream(x, STREAM_AHEAD, width);
            weft_ahead_stream(y, STREAM_AHEAD, width);
            end += weft_lanes512_list(differ_word(x, y, width), numbers, first + done + 64 * i, position + end);
        }
        for (; found < end; found++) {
            uint64_t index = position[found] - first;
            weft_element_put(before, found, weft_element_get(shadow, index, width), width);
            weft_element_put(after, found, weft_element_get(now, index, width), width);
        }
        done += 64 * block;
    }
    uint64_t offset = (uint64_t)done * width, written = (uint64_t)found * width;
    return found + weft_loop_diff(now + offset, shadow + offset, count - done, first + done, position + found,
                                  before + written, after + written, width);
}

/* Rounds 16 F32; the BF16 are the upper halves. The instruction for this flushes subnormals, and is not used. */
WEFT_ALWAYS_INLINE __m512i cast16(__m512i x)
{
    const __m512i even = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(0x7fff)), even);
    const __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi32(INT32_MAX));
    const uint16_t nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
    return _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7fc00000));
}

static void avx512_cast(const uint8_t *from, uint64_t count, uint8_t *to)
{
    uint16_t upper[32];
    uint64_t i = 0;
    for (uint16_t k = 0; k < 32; k++)
        upper[k] = (uint16_t)(2 * k + 1);
    const __m512i halves = _mm512_loadu_si512(upper);
    for (; i + 32 <= count; i += 32) {
        const uint8_t *at = from + 4 * i;
        weft_ahead_stream(at, STREAM_AHEAD, 2);
        const __m512i low = cast16(_mm512_loadu_si512(at)), high = cast16(_mm512_loadu_si512(at + 64));
        _mm512_storeu_si512(to + 2 * i, _mm512_permutex2var_epi16(low, halves, high));
    }
    weft_loop_cast(from + 4 * i, count - i, to + 2 * i, WEFT_CAST_BF16);
}

/* Rounds 16 F32 to F16, by the instruction in its form that touches no flags. */
WEFT_ALWAYS_INLINE __m256i cast16_half(const uint8_t *from)
{
    const __m512i x = _mm512_loadu_si512(from), magnitude = _mm512_and_si512(x, _mm512_set1_epi32(INT32_MAX));
    const __m256i rounded =
        _mm512_cvt_roundps_ph(_mm512_castsi512_ps(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const uint16_t nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
    return _mm256_mask_mov_epi16(rounded, nan, _mm256_set1_epi16(0x7e00));
}

static void avx512_cast_half(const uint8_t *from, uint64_t count, uint8_t *to)
{
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        weft_ahead_stream(from + 4 * i, STREAM_AHEAD, 1);
        _mm256_storeu_si256((void *)(to + 2 * i), cast16_half(from + 4 * i));
    }
    weft_loop_cast(from + 4 * i, count - i, to + 2 * i, WEFT_CAST_F16);
}

WEFT_ALWAYS_INLINE __m512i mix64x8(__m512i x)
{
    x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 30));
    x = _mm512_mullo_epi64(x, _mm512_set1_epi64((long long)UINT64_C(0xbf58476d1ce4e5b9)));
    x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 27));
    x = _mm512_mullo_epi64(x, _mm512_set1_epi64((long long)UINT64_C(0x94d049bb133111eb)));
    return _mm512_xor_si512(x, _mm512_srli_epi64(x, 31));
}

static uint64_t sum8(__m512i lanes)
{
    uint64_t lane[8], sum = 0;
    _mm512_storeu_si512(lane, lanes);
    for (int i = 0; i < 8; i++)
        sum += lane[i];
    return sum;
}

/* Keys of the eight elements from `element` on. */
static __m512i keys8(uint64_t element)
{
    uint64_t keys[8];
    for (uint64_t i = 0; i < 8; i++)
        keys[i] = (element + i + 1) * WEFT_PHI;
    return _mm512_loadu_si512(keys);
}

WEFT_ALWAYS_INLINE uint64_t digest(const uint8_t *data, uint64_t element, uint64_t count, unsigned width)
{
    const __m512i stride = _mm512_set1_epi64((long long)(16 * WEFT_PHI));
    __m512i even_key = keys8(element), odd_key = keys8(element + 8);
    __m512i even = _mm512_setzero_si512(), odd = _mm512_setzero_si512();
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const uint8_t *at = data + i * width;
        even = _mm512_add_epi64(even, mix64x8(_mm512_xor_si512(even_key, weft_lanes512_eight(at, width))));
        odd = _mm512_add_epi64(
            odd, mix64x8(_mm512_xor_si512(odd_key, weft_lanes512_eight(at + 8 * (uint64_t)width, width))));
        even_key = _mm512_add_epi64(even_key, stride);
        odd_key = _mm512_add_epi64(odd_key, stride);
    }
    return sum8(_mm512_add_epi64(even, odd)) + weft_loop_digest(data + i * width, element + i, count - i, width);
}

WEFT_ALWAYS_INLINE uint64_t delta(const uint32_t *position, uint64_t origin, const uint8_t *before,
                                  const uint8_t *after, uint32_t count, unsigned width)
{
    const __m512i phi = _mm512_set1_epi64((long long)WEFT_PHI);
    const __m512i shift = _mm512_set1_epi64((long long)(origin + 1));
    __m512i sum = _mm512_setzero_si512();
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m512i index = _mm512_add_epi64(_mm512_cvtepu32_epi64(LANES_32(position + i)), shift);
        __m512i key = _mm512_mullo_epi64(index, phi);
        uint64_t at = (uint64_t)i * width;
        sum = _mm512_add_epi64(sum, mix64x8(_mm512_xor_si512(key, weft_lanes512_eight(after + at, width))));
        sum = _mm512_sub_epi64(sum, mix64x8(_mm512_xor_si512(key, weft_lanes512_eight(before + at, width))));
    }
    uint64_t at = (uint64_t)i * width;
    return sum8(sum) + weft_loop_delta(position + i, origin, before + at, after + at, count - i, width);
}

/* Vector gathers move 4 and 8 bytes; narrower elements go one by one with prefetch. */
WEFT_ALWAYS_INLINE void gather(const uint8_t *data, const uint32_t *position, uint32_t first, uint32_t count,
                               uint8_t *out, unsigned width)
{
    uint32_t i = 0;
    if (width == 4) {
        const __m512i base = _mm512_set1_epi32((int)first);
        for (; i + 16 <= count; i += 16) {
            __m512i index = _mm512_sub_epi32(_mm512_loadu_si512(position + i), base);
            _mm512_storeu_si512(out + (uint64_t)i * 4, _mm512_i32gather_epi32(index, (const void *)data, 4));
        }
    } else if (width == 8) {
        const __m256i base = _mm256_set1_epi32((int)first);
        for (; i + 8 <= count; i += 8) {
            __m256i index = _mm256_sub_epi32(LANES_32(position + i), base);
            _mm512_storeu_si512(out + (uint64_t)i * 8, _mm512_i32gather_epi64(index, (const void *)data, 8));
        }
    }
    weft_loop_gather(data, position + i, first, count - i, out + (uint64_t)i * width, width);
}

#define AVX512(W)                                                                                                      \
    static uint32_t avx512_diff_##W(const uint8_t *now, const uint8_t *shadow, uint32_t count, uint32_t first,         \
                                    uint32_t *position, uint8_t *before, uint8_t *after)                               \
    {                                                                                                                  \
        return diff(now, shadow, count, first, position, before, after, W);                                            \
    }                                                                                                                  \
    static uint64_t avx512_digest_##W(const uint8_t *data, uint64_t element, uint64_t count)                           \
    {                                                                                                                  \
        return digest(data, element, count, W);                                                                        \
    }                                                                                                                  \
    static uint64_t avx512_delta_##W(const uint32_t *position, uint64_t origin, const uint8_t *before,                 \
                                     const uint8_t *after, uint32_t count)                                             \
    {                                                                                                                  \
        return delta(position, origin, before, after, count, W);                                                       \
    }                                                                                                                  \
    static void avx512_gather_##W(const uint8_t *data, const uint32_t *position, uint32_t first, uint32_t count,       \
                                  uint8_t *out)                                                                        \
    {                                                                                                                  \
        gather(data, position, first, count, out, W);                                                                  \
    }                                                                                                                  \
    WEFT_LOOPS_PUT(avx512, W)                                                                                          \
    static uint32_t avx512_exceptions_##W(const uint8_t *before, const uint8_t *after, uint32_t count, bool is_float,  \
                                          uint32_t *rank, uint64_t *excess)                                            \
    {                                                                                                                  \
        return weft_fast512_exceptions(before, after, count, is_float, rank, excess, W);                               \
    }                                                                                                                  \
    WEFT_FAST256_STEP(avx512, W)                                                                                       \
    static uint8_t *avx512_fields_##W(const uint32_t *position, const uint8_t *before, const uint8_t *after,           \
                                      uint32_t count, bool is_float, uint32_t gap_bits, uint8_t *out,                  \
                                      const uint8_t *end)                                                              \
    {                                                                                                                  \
        if (gap_bits == 0)                                                                                             \
            return weft_fast512_directions(position, before, after, count, is_float, out, end, W);                     \
        return weft_fast256_fields(position, before, after, count, is_float, gap_bits, out, end, W);                   \
    }                                                                                                                  \
    WEFT_GAPS_SLOT(avx512, W, weft_fast512_gaps)

AVX512(1)
AVX512(2)
AVX512(4)
AVX512(8)
WEFT_FAST256_LOWS(avx512)
WEFT_PLACES_SLOT(avx512, weft_fast512_gaps)

static uint64_t avx512_gap_sum(const uint32_t *place, uint32_t count, uint32_t shift)
{
    return weft_fast512_gap_sum(place, count, shift);
}

static void avx512_gap_ones(const uint32_t *position, uint32_t count, uint32_t gap_bits, weft_bit_writer *to)
{
    weft_fast512_gap_ones(position, count, gap_bits, to);
}

const weft_host_kernels weft_host_avx512 = {
    .name = "avx512",
    .diff = WEFT_SLOTS(avx512, diff),
    .cast = {[WEFT_CAST_BF16] = avx512_cast, [WEFT_CAST_F16] = avx512_cast_half},
    .digest = WEFT_SLOTS(avx512, digest),
    .delta = WEFT_SLOTS(avx512, delta),
    .gather = WEFT_SLOTS(avx512, gather),
    .scatter = WEFT_SLOTS(avx512, scatter),
    .swap = WEFT_SLOTS(avx512, swap),
    .step = WEFT_SLOTS(avx512, step),
    .exceptions = WEFT_SLOTS(avx512, exceptions),
    .gap_sum = avx512_gap_sum,
    .fields = WEFT_SLOTS(avx512, fields),
    .gap_lows = avx512_gap_lows,
    .gap_ones = avx512_gap_ones,
    .gaps = WEFT_SLOTS(avx512, gaps),
    .gap_places = avx512_gap_places,
};

#else
typedef int weft_host_avx512_absent; /* an empty file is no C */
#endif
