/* avx512_simde.h - the AVX-512 intrinsics of the host's backend, by SIMDe and in plain C where older releases lack
 * them, so that the set can be judged on a CPU without AVX-512. The build includes this header before a file of the
 * product, whose own <immintrin.h> then adds nothing. */
#ifndef WEFT_TESTS_AVX512_SIMDE_H
#define WEFT_TESTS_AVX512_SIMDE_H

#include <stdint.h>
#include <string.h>

/* No vector leaves the one file that includes this, so how other compilers would pass it does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/gfni.h>

/* gcc's and clang's marks that <immintrin.h> was included. */
#define _IMMINTRIN_H_INCLUDED
#define __IMMINTRIN_H

#ifndef _mm512_maskz_compress_epi8
static inline simde__m512i weft_simde_compress8(uint64_t mask, simde__m512i lanes)
{
    uint8_t in[64], out[64] = {0};
    memcpy(in, &lanes, 64);
    for (unsigned i = 0, n = 0; i < 64; i++) {
        if (mask >> i & 1)
            out[n++] = in[i];
    }
    memcpy(&lanes, out, 64);
    return lanes;
}
#define _mm512_maskz_compress_epi8 weft_simde_compress8
#endif

#ifndef _mm512_maskz_compress_epi16
static inline simde__m512i weft_simde_compress16(uint32_t mask, simde__m512i lanes)
{
    uint16_t in[32], out[32] = {0};
    memcpy(in, &lanes, 64);
    for (unsigned i = 0, n = 0; i < 32; i++) {
        if (mask >> i & 1)
            out[n++] = in[i];
    }
    memcpy(&lanes, out, 64);
    return lanes;
}
#define _mm512_maskz_compress_epi16 weft_simde_compress16
#endif

#ifndef _mm512_alignr_epi32
static inline simde__m512i weft_simde_align32(simde__m512i high, simde__m512i low, unsigned by)
{
    uint32_t both[32];
    memcpy(both, &low, 64);
    memcpy(both + 16, &high, 64);
    memcpy(&low, both + by, 64);
    return low;
}
#define _mm512_alignr_epi32 weft_simde_align32
#endif

/* Returns a bit for each lane of a that is above the lane of b, as numbers without a sign. */
#define WEFT_SIMDE_ABOVE(NAME, TYPE)                                                                                   \
    static inline uint32_t NAME(simde__m512i a, simde__m512i b)                                                        \
    {                                                                                                                  \
        TYPE x[64 / sizeof(TYPE)], y[64 / sizeof(TYPE)];                                                               \
        uint32_t mask = 0;                                                                                             \
        memcpy(x, &a, 64);                                                                                             \
        memcpy(y, &b, 64);                                                                                             \
        for (unsigned i = 0; i < 64 / sizeof(TYPE); i++)                                                               \
            mask |= (uint32_t)(x[i] > y[i]) << i;                                                                      \
        return mask;                                                                                                   \
    }
WEFT_SIMDE_ABOVE(weft_simde_above16, uint16_t)
WEFT_SIMDE_ABOVE(weft_simde_above32, uint32_t)
WEFT_SIMDE_ABOVE(weft_simde_above64, uint64_t)
#undef _mm512_cmpgt_epu16_mask
#undef _mm512_cmpgt_epu32_mask
#undef _mm512_cmpgt_epu64_mask
#define _mm512_cmpgt_epu16_mask weft_simde_above16
#define _mm512_cmpgt_epu32_mask weft_simde_above32
#define _mm512_cmpgt_epu64_mask weft_simde_above64

#ifndef _mm512_cvt_roundps_ph
/* The magnitude of an F16 that is less than the least normal one is what an addition rounds to the last bits of 0.5. */
static inline uint16_t weft_simde_small_half(uint32_t size)
{
    float value;
    memcpy(&value, &size, 4);
    value += 0.5f;
    memcpy(&size, &value, 4);
    return (uint16_t)(size - 0x3f000000u);
}

/* Rounds to nearest, ties to even, which is all that is asked for. Any NaN becomes infinite. */
static inline simde__m256i weft_simde_half(simde__m512 lanes)
{
    uint32_t in[16];
    uint16_t out[16];
    simde__m256i halves;
    memcpy(in, &lanes, 64);
    for (unsigned i = 0; i < 16; i++) {
        const uint32_t size = in[i] & 0x7fffffffu;
        const uint32_t normal = (size - (112u << 23) + 0xfffu + (size >> 13 & 1)) >> 13;
        const uint32_t number = size < 113u << 23 ? weft_simde_small_half(size) : normal;
        out[i] = (uint16_t)((in[i] >> 16 & 0x8000u) | (size < 0x477ff000u ? number : 0x7c00u));
    }
    memcpy(&halves, out, 32);
    return halves;
}
#define _mm512_cvt_roundps_ph(lanes, rounding) weft_simde_half(lanes)
#endif

#ifndef _mm512_mask_storeu_epi32
static inline void weft_simde_store32(void *out, uint16_t mask, simde__m512i lanes)
{
    uint32_t in[16];
    memcpy(in, &lanes, 64);
    for (unsigned i = 0; i < 16; i++) {
        if (mask >> i & 1)
            memcpy((uint8_t *)out + 4 * i, &in[i], 4);
    }
}
#define _mm512_mask_storeu_epi32 weft_simde_store32
#endif

#undef _pdep_u64
static inline uint64_t weft_simde_deposit(uint64_t bits, uint64_t mask)
{
    uint64_t out = 0;
    for (; mask; mask &= mask - 1, bits >>= 1)
        out |= bits & 1 ? mask & (0 - mask) : 0;
    return out;
}
#define _pdep_u64 weft_simde_deposit

/* simde computes some 64-bit lanes as signed ones, whose overflow is undefined. */
#define WEFT_SIMDE_LANES64(NAME, OPERATOR)                                                                             \
    static inline simde__m512i NAME(simde__m512i a, simde__m512i b)                                                    \
    {                                                                                                                  \
        uint64_t x[8], y[8];                                                                                           \
        memcpy(x, &a, 64);                                                                                             \
        memcpy(y, &b, 64);                                                                                             \
        for (unsigned i = 0; i < 8; i++)                                                                               \
            x[i] = x[i] OPERATOR y[i];                                                                                 \
        memcpy(&a, x, 64);                                                                                             \
        return a;                                                                                                      \
    }
WEFT_SIMDE_LANES64(weft_simde_multiply64, *)
WEFT_SIMDE_LANES64(weft_simde_add64, +)
WEFT_SIMDE_LANES64(weft_simde_subtract64, -)
#undef _mm512_mullo_epi64
#undef _mm512_add_epi64
#undef _mm512_sub_epi64
#define _mm512_mullo_epi64 weft_simde_multiply64
#define _mm512_add_epi64   weft_simde_add64
#define _mm512_sub_epi64   weft_simde_subtract64

/* simde shifts a signed one into the top bit. */
static inline uint32_t weft_simde_test16(simde__m512i a, simde__m512i b)
{
    uint16_t x[32], y[32];
    uint32_t mask = 0;
    memcpy(x, &a, 64);
    memcpy(y, &b, 64);
    for (unsigned i = 0; i < 32; i++)
        mask |= (uint32_t)((x[i] & y[i]) != 0) << i;
    return mask;
}
#undef _mm512_test_epi16_mask
#define _mm512_test_epi16_mask weft_simde_test16

/* `count` unsigned lanes of `from` bytes at `in`, each widened to 64 / count bytes. */
static inline simde__m512i weft_simde_widen(const void *in, unsigned count, unsigned from)
{
    uint8_t out[64] = {0};
    simde__m512i lanes;
    for (unsigned i = 0; i < count; i++)
        memcpy(out + i * (64 / count), (const uint8_t *)in + i * from, from);
    memcpy(&lanes, out, 64);
    return lanes;
}

#ifndef _mm512_cvtepu8_epi32
static inline simde__m512i weft_simde_widen_8_32(simde__m128i lanes)
{
    return weft_simde_widen(&lanes, 16, 1);
}
#define _mm512_cvtepu8_epi32 weft_simde_widen_8_32
#endif

#ifndef _mm512_cvtepu8_epi64
static inline simde__m512i weft_simde_widen_8_64(simde__m128i lanes)
{
    return weft_simde_widen(&lanes, 8, 1);
}
#define _mm512_cvtepu8_epi64 weft_simde_widen_8_64
#endif

#ifndef _mm512_cvtepu16_epi64
static inline simde__m512i weft_simde_widen_16_64(simde__m128i lanes)
{
    return weft_simde_widen(&lanes, 8, 2);
}
#define _mm512_cvtepu16_epi64 weft_simde_widen_16_64
#endif

#ifndef _mm512_cvtepu32_epi64
static inline simde__m512i weft_simde_widen_32_64(simde__m256i lanes)
{
    return weft_simde_widen(&lanes, 8, 4);
}
#define _mm512_cvtepu32_epi64 weft_simde_widen_32_64
#endif

#ifndef _mm512_cvtepi32_epi64
static inline simde__m512i weft_simde_widen_32_64s(simde__m256i lanes)
{
    int32_t in[8];
    int64_t out[8];
    simde__m512i wide;
    memcpy(in, &lanes, 32);
    for (unsigned i = 0; i < 8; i++)
        out[i] = in[i];
    memcpy(&wide, out, 64);
    return wide;
}
#define _mm512_cvtepi32_epi64 weft_simde_widen_32_64s
#endif

#ifndef _mm512_cvtepi32_epi8
static inline simde__m128i weft_simde_narrow_32_8(simde__m512i lanes)
{
    uint32_t in[16];
    uint8_t out[16];
    simde__m128i bytes;
    memcpy(in, &lanes, 64);
    for (unsigned i = 0; i < 16; i++)
        out[i] = (uint8_t)in[i];
    memcpy(&bytes, out, 16);
    return bytes;
}
#define _mm512_cvtepi32_epi8 weft_simde_narrow_32_8
#endif

#ifndef _mm512_i32gather_epi32
static inline simde__m512i weft_simde_gather32(simde__m512i index, const void *base, int scale)
{
    int32_t at[16], out[16];
    memcpy(at, &index, 64);
    for (int i = 0; i < 16; i++)
        memcpy(&out[i], (const uint8_t *)base + (int64_t)at[i] * scale, 4);
    memcpy(&index, out, 64);
    return index;
}
#define _mm512_i32gather_epi32 weft_simde_gather32
#endif

#ifndef _mm512_i32gather_epi64
static inline simde__m512i weft_simde_gather64(simde__m256i index, const void *base, int scale)
{
    int32_t at[8];
    int64_t out[8];
    simde__m512i lanes;
    memcpy(at, &index, 32);
    for (int i = 0; i < 8; i++)
        memcpy(&out[i], (const uint8_t *)base + (int64_t)at[i] * scale, 8);
    memcpy(&lanes, out, 64);
    return lanes;
}
#define _mm512_i32gather_epi64 weft_simde_gather64
#endif

#ifndef _mm512_cmpeq_epi16_mask
static inline uint32_t weft_simde_equal16(simde__m512i a, simde__m512i b)
{
    uint16_t x[32], y[32];
    uint32_t mask = 0;
    memcpy(x, &a, 64);
    memcpy(y, &b, 64);
    for (unsigned i = 0; i < 32; i++)
        mask |= (uint32_t)(x[i] == y[i]) << i;
    return mask;
}
#define _mm512_cmpeq_epi16_mask weft_simde_equal16
#endif

#ifndef _mm512_alignr_epi64
static inline simde__m512i weft_simde_align64(simde__m512i high, simde__m512i low, unsigned lanes)
{
    uint64_t both[16];
    memcpy(both, &low, 64);
    memcpy(both + 8, &high, 64);
    memcpy(&low, both + lanes, 64);
    return low;
}
#define _mm512_alignr_epi64 weft_simde_align64
#endif

#ifndef _mm512_shuffle_i64x2
static inline simde__m512i weft_simde_shuffle128(simde__m512i low, simde__m512i high, unsigned which)
{
    uint64_t from[16], out[8];
    memcpy(from, &low, 64);
    memcpy(from + 8, &high, 64);
    for (unsigned i = 0; i < 8; i++)
        out[i] = from[i / 4 * 8 + (which >> i / 2 * 2 & 3) * 2 + i % 2];
    memcpy(&low, out, 64);
    return low;
}
#define _mm512_shuffle_i64x2 weft_simde_shuffle128
#endif

#ifndef _mm512_shrdi_epi64
static inline simde__m512i weft_simde_shift_in(simde__m512i low, simde__m512i high, unsigned bits)
{
    uint64_t x[8], y[8];
    memcpy(x, &low, 64);
    memcpy(y, &high, 64);
    for (unsigned i = 0; i < 8; i++)
        x[i] = x[i] >> bits | y[i] << (64 - bits);
    memcpy(&low, x, 64);
    return low;
}
#define _mm512_shrdi_epi64 weft_simde_shift_in
#endif

/* Bits below that number: all of them from 64 on. */
#undef _bzhi_u64
static inline uint64_t weft_simde_below(uint64_t bits, unsigned number)
{
    return number % 256 < 64 ? bits & ((UINT64_C(1) << number % 256) - 1) : bits;
}
#define _bzhi_u64 weft_simde_below

#endif
