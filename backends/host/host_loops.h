/* host_loops.h - the loops of a kernel set in plain C, for a width known when compiled. A set instantiates those that
 * it does not write in its own way, under its own compiler flags. */
#ifndef WEFT_BACKENDS_HOST_LOOPS_H
#define WEFT_BACKENDS_HOST_LOOPS_H

#include "backends/host/host_ahead.h"
#include "layout/digest.h"

/* Lists the elements of one 8-byte word that differ; `index` is that of its first. */
WEFT_ALWAYS_INLINE uint32_t weft_loop_diff_word(uint64_t now, uint64_t shadow, uint32_t index, uint32_t found,
                                                uint32_t *position, uint8_t *before, uint8_t *after, unsigned width)
{
    uint64_t mask = weft_element_mask(width);
    for (uint64_t rest = now ^ shadow; rest != 0;) {
        unsigned lane = (unsigned)__builtin_ctzll(rest) / (8 * width);
        unsigned shift = lane * 8 * width;
        position[found] = index + lane;
        weft_element_put(before, found, shadow >> shift, width);
        weft_element_put(after, found, now >> shift, width);
        found++;
        rest &= ~(mask << shift);
    }
    return found;
}

WEFT_ALWAYS_INLINE bool weft_loop_equal64(const uint8_t *a, const uint8_t *b)
{
    uint64_t x[8], y[8], any = 0;
    memcpy(x, a, 64);
    memcpy(y, b, 64);
    for (int i = 0; i < 8; i++)
        any |= x[i] ^ y[i];
    return any == 0;
}

WEFT_ALWAYS_INLINE uint32_t weft_loop_diff(const uint8_t *now, const uint8_t *shadow, uint32_t count, uint32_t first,
                                           uint32_t *position, uint8_t *before, uint8_t *after, unsigned width)
{
    const uint64_t bytes = (uint64_t)count * width;
    uint32_t found = 0;
    uint64_t at = 0;
    while (bytes - at >= 64) {
        if (!weft_loop_equal64(now + at, shadow + at)) {
            for (uint64_t end = at + 64, word = at; word < end; word += 8)
                found = weft_loop_diff_word(weft_element_get(now + word, 0, 8), weft_element_get(shadow + word, 0, 8),
                                            first + (uint32_t)(word / width), found, position, before, after, width);
        }
        at += 64;
    }
    for (; at < bytes; at += width)
        found = weft_loop_diff_word(weft_element_get(now + at, 0, width), weft_element_get(shadow + at, 0, width),
                                    first + (uint32_t)(at / width), found, position, before, after, width);
    return found;
}

/* Rounds the bits of an F32 to those of a BF16. */
WEFT_ALWAYS_INLINE uint16_t weft_loop_cast_bits(uint32_t bits)
{
    const uint32_t even = bits >> 16 & 1;
    return (bits & INT32_MAX) > 0x7f800000u ? 0x7fc0u : (uint16_t)((bits + 0x7fffu + even) >> 16);
}

/* Rounds the bits of an F32 to those of an F16. Of what is less than the least normal F16 the whole significand is
 * rounded, at a place that its exponent says. What is more than the largest one becomes infinite. */
WEFT_ALWAYS_INLINE uint16_t weft_loop_cast_half(uint32_t bits)
{
    const uint32_t size = bits & INT32_MAX, exponent = size >> 23;
    const bool normal = exponent >= 113;
    const uint32_t away = exponent > 101 ? 126 - exponent : 25, drop = normal ? 13 : away;
    const uint32_t all = normal ? size - (112u << 23) : (size & 0x7fffff) | 0x800000;
    const uint32_t rounded = (all + (1u << (drop - 1)) - 1 + (all >> drop & 1)) >> drop;
    if (size > 0x7f800000u)
        return 0x7e00u;
    return (uint16_t)((bits >> 16 & 0x8000u) | (rounded < 0x7c00u ? rounded : 0x7c00u));
}

WEFT_ALWAYS_INLINE void weft_loop_cast(const uint8_t *from, uint64_t count, uint8_t *to, weft_cast cast)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)weft_element_get(from, i, 4);
        weft_element_put(to, i, cast == WEFT_CAST_F16 ? weft_loop_cast_half(bits) : weft_loop_cast_bits(bits), 2);
    }
}

WEFT_ALWAYS_INLINE uint64_t weft_loop_digest(const uint8_t *data, uint64_t element, uint64_t count, unsigned width)
{
    uint64_t key = (element + 1) * WEFT_PHI;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++, key += WEFT_PHI)
        sum += weft_mix64(key ^ weft_element_get(data, i, width));
    return sum;
}

WEFT_ALWAYS_INLINE uint64_t weft_loop_delta(const uint32_t *position, uint64_t origin, const uint8_t *before,
                                            const uint8_t *after, uint32_t count, unsigned width)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t index = origin + position[i];
        sum += weft_digest_term(index, weft_element_get(after, i, width));
        sum -= weft_digest_term(index, weft_element_get(before, i, width));
    }
    return sum;
}

WEFT_ALWAYS_INLINE void weft_loop_ahead(const uint8_t *data, const uint32_t *position, uint32_t first, uint32_t i,
                                        uint32_t count, unsigned width, int write)
{
    if (i + WEFT_HOST_AHEAD >= count)
        return;
    weft_ahead_element(data + (uint64_t)(position[i + WEFT_HOST_AHEAD] - first) * width, write);
}

WEFT_ALWAYS_INLINE void weft_loop_gather(const uint8_t *data, const uint32_t *position, uint32_t first, uint32_t count,
                                         uint8_t *out, unsigned width)
{
    for (uint32_t i = 0; i < count; i++) {
        weft_loop_ahead(data, position, first, i, count, width, 0);
        weft_element_put(out, i, weft_element_get(data, position[i] - first, width), width);
    }
}

WEFT_ALWAYS_INLINE void weft_loop_scatter(uint8_t *data, const uint32_t *position, uint32_t first, uint32_t count,
                                          const uint8_t *values, unsigned width)
{
    for (uint32_t i = 0; i < count; i++) {
        weft_loop_ahead(data, position, first, i, count, width, 1);
        weft_element_put(data, position[i] - first, weft_element_get(values, i, width), width);
    }
}

WEFT_ALWAYS_INLINE bool weft_loop_swap(uint8_t *data, const uint32_t *position, uint32_t first, uint32_t count,
                                       uint8_t *before, const uint8_t *after, unsigned width)
{
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < count; i++) {
        weft_loop_ahead(data, position, first, i, count, width, 1);
        uint64_t there = weft_element_get(data, position[i] - first, width);
        wrong |= there ^ weft_element_get(before, i, width);
        weft_element_put(before, i, there, width);
        weft_element_put(data, position[i] - first, weft_element_get(after, i, width), width);
    }
    return wrong != 0;
}

WEFT_ALWAYS_INLINE void weft_loop_step(const uint8_t *before, uint8_t *after, uint32_t count, bool is_float,
                                       unsigned width)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t place = weft_element_order(weft_element_get(before, i, width), width, is_float);
        uint64_t moved = (place + weft_element_get(after, i, width)) & weft_element_mask(width);
        weft_element_put(after, i, weft_element_order(moved, width, is_float), width);
    }
}

WEFT_ALWAYS_INLINE uint32_t weft_loop_exceptions(const uint8_t *before, const uint8_t *after, uint32_t count,
                                                 bool is_float, uint32_t *rank, uint64_t *excess, unsigned width)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t steps =
            weft_element_steps(weft_element_get(before, i, width), weft_element_get(after, i, width), width, is_float);
        uint64_t magnitude = weft_steps_magnitude(steps, width);
        rank[found] = i;
        excess[found] = magnitude - 2;
        found += magnitude > 1;
    }
    return found;
}

/* Functions of one width for the slots of a set, named PREFIX_slot_WIDTH. */
#define WEFT_LOOPS_GATHER(P, W)                                                                                        \
    static void P##_gather_##W(const uint8_t *data, const uint32_t *position, uint32_t first, uint32_t count,          \
                               uint8_t *out)                                                                           \
    {                                                                                                                  \
        weft_loop_gather(data, position, first, count, out, W);                                                        \
    }

#define WEFT_LOOPS_PUT(P, W)                                                                                           \
    static void P##_scatter_##W(uint8_t *data, const uint32_t *position, uint32_t first, uint32_t count,               \
                                const uint8_t *values)                                                                 \
    {                                                                                                                  \
        weft_loop_scatter(data, position, first, count, values, W);                                                    \
    }                                                                                                                  \
    static bool P##_swap_##W(uint8_t *data, const uint32_t *position, uint32_t first, uint32_t count, uint8_t *before, \
                             const uint8_t *after)                                                                     \
    {                                                                                                                  \
        return weft_loop_swap(data, position, first, count, before, after, W);                                         \
    }

#define WEFT_LOOPS_STEPS(P, W)                                                                                         \
    static void P##_step_##W(const uint8_t *before, uint8_t *after, uint32_t count, bool is_float)                     \
    {                                                                                                                  \
        weft_loop_step(before, after, count, is_float, W);                                                             \
    }                                                                                                                  \
    static uint32_t P##_exceptions_##W(const uint8_t *before, const uint8_t *after, uint32_t count, bool is_float,     \
                                       uint32_t *rank, uint64_t *excess)                                               \
    {                                                                                                                  \
        return weft_loop_exceptions(before, after, count, is_float, rank, excess, W);                                  \
    }

#define WEFT_SLOTS(P, SLOT)                                                                                            \
    {                                                                                                                  \
        P##_##SLOT##_1, P##_##SLOT##_2, P##_##SLOT##_4, P##_##SLOT##_8                                                 \
    }

#endif
