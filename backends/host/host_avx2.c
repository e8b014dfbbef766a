/* host_avx2.c - the kernel set for CPUs with AVX2, BMI1 and BMI2.
 *
 * Diff lists the positions of a block at the speed of the two streams, then copies the bits from the block, which is
 * still in the first cache. Only this file is compiled with those flags. */
#if defined(WEFT_HAVE_AVX2)

#include <immintrin.h>

#include "backends/host/fast/host_gaps256.h"
#include "backends/host/host_kernels.h"
#include "backends/host/host_lanes256.h"
#include "backends/host/host_loops.h"

/* Words of 64 elements that a block of diff holds. */
#define BLOCK_WORDS 64u

/* Bytes that diff asks for ahead of use in each stream, so that memory works on while lists are made. */
#define STREAM_AHEAD 4096u

WEFT_ALWAYS_INLINE uint32_t diff(const uint8_t *now, const uint8_t *shadow, uint32_t count, uint32_t first,
                                 uint32_t *position, uint8_t *before, uint8_t *after, unsigned width)
{
    uint32_t found = 0, done = 0;
    while (count - done >= 64) {
        uint32_t block = (count - done) / 64 < BLOCK_WORDS ? (count - done) / 64 : BLOCK_WORDS;
        const uint8_t *a = now + (uint64_t)done * width, *b = shadow + (uint64_t)done * width;
        uint32_t end = found;
        for (uint32_t i = 0; i < block; i++) {
            const uint8_t *x = a + (uint64_t)i * 64 * width, *y = b + (uint64_t)i * 64 * width;
            weft_ahead_stream(x, STREAM_AHEAD, width);
            weft_ahead_stream(y, STREAM_AHEAD, width);
            end += weft_word_list(weft_word_differ(x, y, width), first + done + 64 * i, position + end);
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

/* Rounds eight F32 to BF16 in words. */
static __m256i cast8(__m256i x)
{
    const __m256i even = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(x, _mm256_set1_epi32(0x7fff)), even);
    const __m256i nan =
        _mm256_cmpgt_epi32(_mm256_and_si256(x, _mm256_set1_epi32(INT32_MAX)), _mm256_set1_epi32(0x7f800000));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc00000), nan), 16);
}

/* Rounds eight F32 to F16 in words, as weft_loop_cast_half does. The instruction for this touches the flags of the
 * floating-point unit, which are the caller's. */
static __m256i cast8_half(__m256i x)
{
    const __m256i one = _mm256_set1_epi32(1), size = _mm256_and_si256(x, _mm256_set1_epi32(INT32_MAX));
    const __m256i exponent = _mm256_srli_epi32(size, 23);
    const __m256i normal = _mm256_cmpgt_epi32(exponent, _mm256_set1_epi32(112));
    const __m256i away = _mm256_min_epi32(_mm256_sub_epi32(_mm256_set1_epi32(126), exponent), _mm256_set1_epi32(25));
    const __m256i drop = _mm256_blendv_epi8(away, _mm256_set1_epi32(13), normal);
    const __m256i whole =
        _mm256_or_si256(_mm256_and_si256(size, _mm256_set1_epi32(0x7fffff)), _mm256_set1_epi32(0x800000));
    const __m256i all = _mm256_blendv_epi8(whole, _mm256_sub_epi32(size, _mm256_set1_epi32(112 << 23)), normal);
    const __m256i below = _mm256_sub_epi32(_mm256_sllv_epi32(one, _mm256_sub_epi32(drop, one)), one);
    const __m256i even = _mm256_and_si256(_mm256_srlv_epi32(all, drop), one);
    const __m256i rounded = _mm256_srlv_epi32(_mm256_add_epi32(_mm256_add_epi32(all, below), even), drop);
    const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(0x8000));
    const __m256i number = _mm256_or_si256(_mm256_min_epi32(rounded, _mm256_set1_epi32(0x7c00)), sign);
    const __m256i nan = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(0x7f800000));
    return _mm256_blendv_epi8(number, _mm256_set1_epi32(0x7e00), nan);
}

WEFT_ALWAYS_INLINE void cast_all(const uint8_t *from, uint64_t count, uint8_t *to, weft_cast cast)
{
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const uint8_t *at = from + 4 * i;
        weft_ahead_stream(at, STREAM_AHEAD, 1);
        const __m256i low = cast == WEFT_CAST_F16 ? cast8_half(WEFT_LOAD_256(at)) : cast8(WEFT_LOAD_256(at));
        const __m256i high = cast == WEFT_CAST_F16 ? cast8_half(WEFT_LOAD_256(at + 32)) : cast8(WEFT_LOAD_256(at + 32));
        const __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
        _mm256_storeu_si256((void *)(to + 2 * i), both);
    }
    weft_loop_cast(from + 4 * i, count - i, to + 2 * i, cast);
}

static void avx2_cast(const uint8_t *from, uint64_t count, uint8_t *to)
{
    cast_all(from, count, to, WEFT_CAST_BF16);
}

static void avx2_cast_half(const uint8_t *from, uint64_t count, uint8_t *to)
{
    cast_all(from, count, to, WEFT_CAST_F16);
}

/* Keys of the four elements from `element` on. */
static __m256i keys4(uint64_t element)
{
    uint64_t keys[4];
    for (uint64_t i = 0; i < 4; i++)
        keys[i] = (element + i + 1) * WEFT_PHI;
    return WEFT_LOAD_256(keys);
}

WEFT_ALWAYS_INLINE uint64_t digest(const uint8_t *data, uint64_t element, uint64_t count, unsigned width)
{
    const __m256i stride = _mm256_set1_epi64x((long long)(8 * WEFT_PHI));
    __m256i even_key = keys4(element), odd_key = keys4(element + 4);
    __m256i even = _mm256_setzero_si256(), odd = _mm256_setzero_si256();
    uint64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const uint8_t *at = data + i * width;
        __m256i x = weft_lanes_widen(at, width), y = weft_lanes_widen(at + 4 * (uint64_t)width, width);
        even = _mm256_add_epi64(even, weft_lanes_mix64(_mm256_xor_si256(even_key, x)));
        odd = _mm256_add_epi64(odd, weft_lanes_mix64(_mm256_xor_si256(odd_key, y)));
        even_key = _mm256_add_epi64(even_key, stride);
        odd_key = _mm256_add_epi64(odd_key, stride);
    }
    return weft_lanes_sum(_mm256_add_epi64(even, odd)) +
           weft_loop_digest(data + i * width, element + i, count - i, width);
}

WEFT_ALWAYS_INLINE uint64_t delta(const uint32_t *position, uint64_t origin, const uint8_t *before,
                                  const uint8_t *after, uint32_t count, unsigned width)
{
    const __m256i shift = _mm256_set1_epi64x((long long)(origin + 1));
    __m256i sum = _mm256_setzero_si256();
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        __m256i index = _mm256_add_epi64(_mm256_cvtepu32_epi64(WEFT_LOAD_128(position + i)), shift);
        __m256i key = weft_lanes_multiply(index, WEFT_PHI);
        uint64_t at = (uint64_t)i * width;
        sum = _mm256_add_epi64(sum, weft_lanes_mix64(_mm256_xor_si256(key, weft_lanes_widen(after + at, width))));
        sum = _mm256_sub_epi64(sum, weft_lanes_mix64(_mm256_xor_si256(key, weft_lanes_widen(before + at, width))));
    }
    uint64_t at = (uint64_t)i * width;
    return weft_lanes_sum(sum) + weft_loop_delta(position + i, origin, before + at, after + at, count - i, width);
}

#define AVX2(W)                                                                                                        \
    static uint32_t avx2_diff_##W(const uint8_t *now, const uint8_t *shadow, uint32_t count, uint32_t first,           \
                                  uint32_t *position, uint8_t *before, uint8_t *after)                                 \
    {                                                                                                                  \
        return diff(now, shadow, count, first, position, before, after, W);                                            \
    }                                                                                                                  \
    static uint64_t avx2_digest_##W(const uint8_t *data, uint64_t element, uint64_t count)                             \
    {                                                                                                                  \
        return digest(data, element, count, W);                                                                        \
    }                                                                                                                  \
    static uint64_t avx2_delta_##W(const uint32_t *position, uint64_t origin, const uint8_t *before,                   \
                                   const uint8_t *after, uint32_t count)                                               \
    {                                                                                                                  \
        return delta(position, origin, before, after, count, W);                                                       \
    }                                                                                                                  \
    WEFT_LOOPS_GATHER(avx2, W)                                                                                         \
    WEFT_LOOPS_PUT(avx2, W)                                                                                            \
    WEFT_FAST256_EXCEPTIONS(avx2, W)                                                                                   \
    WEFT_FAST256_STEP(avx2, W)                                                                                         \
    WEFT_FAST256_FIELDS(avx2, W)                                                                                       \
    WEFT_GAPS_SLOT(avx2, W, weft_fast256_gaps)

AVX2(1)
AVX2(2)
AVX2(4)
AVX2(8)
WEFT_FAST256_SUMS(avx2)
WEFT_FAST256_LOWS(avx2)
WEFT_PLACES_SLOT(avx2, weft_fast256_gaps)

const weft_host_kernels weft_host_avx2 = {
    .name = "avx2",
    .diff = WEFT_SLOTS(avx2, diff),
    .cast = {[WEFT_CAST_BF16] = avx2_cast, [WEFT_CAST_F16] = avx2_cast_half},
    .digest = WEFT_SLOTS(avx2, digest),
    .delta = WEFT_SLOTS(avx2, delta),
    .gather = WEFT_SLOTS(avx2, gather),
    .scatter = WEFT_SLOTS(avx2, scatter),
    .swap = WEFT_SLOTS(avx2, swap),
    .step = WEFT_SLOTS(avx2, step),
    .exceptions = WEFT_SLOTS(avx2, exceptions),
    .gap_sum = avx2_gap_sum,
    .fields = WEFT_SLOTS(avx2, fields),
    .gap_lows = avx2_gap_lows,
    .gap_ones = avx2_gap_ones,
    .gaps = WEFT_SLOTS(avx2, gaps),
    .gap_places = avx2_gap_places,
};

#else
typedef int weft_host_avx2_absent; /* an empty file is no C */
#endif
