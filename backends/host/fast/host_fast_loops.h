/* host_fast_loops.h - the loops of level fast over a change list, in plain C, for a width known when compiled. Only
 * planes in proportion to the changes are here; those of the exceptions are the same for every kernel set. */
#ifndef WEFT_BACKENDS_HOST_FAST_LOOPS_H
#define WEFT_BACKENDS_HOST_FAST_LOOPS_H

#include "backends/host/host_bits.h"
#include "backends/host/host_element.h"
#include "backends/host/host_loops.h"

/* `next`: the least that place[0] could be. */
WEFT_ALWAYS_INLINE uint64_t weft_loop_gap_sum(const uint32_t *place, uint32_t count, uint32_t next, uint32_t shift)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (place[i] - next) >> shift;
        next = place[i] + 1;
    }
    return sum;
}

WEFT_ALWAYS_INLINE uint8_t *weft_loop_fields(const uint32_t *position, const uint8_t *before, const uint8_t *after,
                                             uint32_t count, uint32_t next, bool is_float, uint32_t k, uint8_t *out,
                                             const uint8_t *end, unsigned width)
{
    weft_bit_writer writer = {out, end, 0, 0};
    const uint64_t low = (UINT64_C(1) << k) - 1;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t steps =
            weft_element_steps(weft_element_get(before, i, width), weft_element_get(after, i, width), width, is_float);
        uint64_t gap = position[i] - next;
        next = position[i] + 1;
        weft_bits_put(&writer, (gap & low) << 1 | weft_steps_down(steps, width), k + 1);
    }
    return weft_bits_end(&writer);
}

/* Ones gather in a word that is stored when it is full: the one branch is seldom taken. */
typedef struct weft_ones_writer {
    uint8_t *at;
    uint64_t word, fill; /* fill: bits of the word, below 64 between calls */
} weft_ones_writer;

/* Appends `count` bits, 1 to 64. */
WEFT_ALWAYS_INLINE void weft_ones_add(weft_ones_writer *writer, uint64_t bits, uint64_t count)
{
    writer->word |= bits << writer->fill;
    writer->fill += count;
    if (writer->fill < 64)
        return;
    memcpy(writer->at, &writer->word, 8);
    writer->at += 8;
    writer->fill -= 64;
    writer->word = bits >> (count - 1 - writer->fill) >> 1; /* the top `fill` bits of them */
}

/* So many zeros and a one. */
WEFT_ALWAYS_INLINE void weft_ones_put(weft_ones_writer *writer, uint32_t zeros)
{
    for (; zeros >= 64; zeros -= 64)
        weft_ones_add(writer, 0, 64);
    weft_ones_add(writer, UINT64_C(1) << zeros, zeros + 1);
}

/* Whole bytes are stored, the bits left are those of `to`. */
WEFT_ALWAYS_INLINE void weft_ones_end(weft_ones_writer *writer, weft_bit_writer *to)
{
    for (; writer->fill >= 8; writer->fill -= 8) {
        *writer->at++ = (uint8_t)writer->word;
        writer->word >>= 8;
    }
    if (writer->fill > 0)
        *writer->at = (uint8_t)writer->word;
    to->at = writer->at;
    to->word = writer->word;
    to->fill = (unsigned)writer->fill;
}

WEFT_ALWAYS_INLINE void weft_loop_gap_ones(const uint32_t *position, uint32_t count, uint32_t next, uint32_t k,
                                           weft_ones_writer *writer)
{
    weft_ones_writer local = *writer;
    for (uint32_t i = 0; i < count; i++) {
        weft_ones_put(&local, (position[i] - next) >> k);
        next = position[i] + 1;
    }
    *writer = local;
}

WEFT_ALWAYS_INLINE void weft_loop_gap_lows(const uint32_t *place, uint32_t count, uint32_t next, uint32_t k,
                                           weft_ones_writer *writer)
{
    const uint32_t low = (UINT32_C(1) << k) - 1;
    weft_ones_writer local = *writer;
    for (uint32_t i = 0; i < count; i++) {
        weft_ones_add(&local, (place[i] - next) & low, k);
        next = place[i] + 1;
    }
    *writer = local;
}

WEFT_ALWAYS_INLINE bool weft_loop_gaps(const weft_bit_source *source, weft_bit_walker *unary, uint32_t k,
                                       uint32_t limit, uint32_t count, uint32_t *position, uint8_t *steps,
                                       unsigned width)
{
    weft_bit_walker walker = *unary;
    uint64_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t field = weft_bits_get(source, (uint64_t)i * (k + 1), k + 1);
        uint64_t high = weft_bits_unary(&walker);
        next += high << k | field >> 1;
        if (high == UINT64_MAX || next >= limit)
            return false;
        position[i] = (uint32_t)next++;
        weft_element_put(steps, i, 1 - 2 * (field & 1), width);
    }
    *unary = walker;
    return true;
}

/* The same, then the elements there. */
WEFT_ALWAYS_INLINE bool weft_loop_gaps_take(const weft_bit_source *source, weft_bit_walker *unary, uint32_t k,
                                            uint32_t limit, uint32_t count, uintptr_t elements, uint32_t *position,
                                            uint8_t *before, uint8_t *steps, unsigned width)
{
    if (!weft_loop_gaps(source, unary, k, limit, count, position, steps, width))
        return false;
    if (elements)
        weft_loop_gather((const uint8_t *)elements, position, 0, count, before, width);
    return true;
}

/* Returns one past the last place or the first that is not below the limit, UINT64_MAX if the unary plane ends early;
 * only if all is well the walker moves. `inside`: eight bytes can be read wherever low bits begin. */
WEFT_ALWAYS_INLINE uint64_t weft_loop_places(const weft_bit_source *source, uint64_t lows, weft_bit_walker *unary,
                                             uint32_t k, uint32_t limit, uint32_t count, uint32_t *place, bool inside)
{
    const uint64_t mask = (UINT64_C(1) << k) - 1;
    weft_bit_walker walker = *unary;
    uint64_t next = 0, at = lows;
    for (uint32_t i = 0; i < count; i++, at += k) {
        uint64_t high = weft_bits_unary(&walker), word;
        if (high == UINT64_MAX)
            return UINT64_MAX;
        if (inside)
            memcpy(&word, source->data + at / 8, 8);
        else
            word = weft_bits_word(source, at / 8);
        next += high << k | (word >> at % 8 & mask);
        place[i] = (uint32_t)next++;
        if (next > limit)
            return next;
    }
    *unary = walker;
    return next;
}

WEFT_ALWAYS_INLINE uint64_t weft_loop_gap_places(const weft_bit_source *source, uint64_t lows, weft_bit_walker *unary,
                                                 uint32_t k, uint32_t limit, uint32_t count, uint32_t *place)
{
    return (lows + (uint64_t)count * k) / 8 + 8 <= source->bytes
               ? weft_loop_places(source, lows, unary, k, limit, count, place, true)
               : weft_loop_places(source, lows, unary, k, limit, count, place, false);
}

/* Functions for the slots of a set. */
#define WEFT_LOOPS_FAST(P)                                                                                             \
    static uint64_t P##_gap_sum(const uint32_t *place, uint32_t count, uint32_t shift)                                 \
    {                                                                                                                  \
        return weft_loop_gap_sum(place, count, 0, shift);                                                              \
    }                                                                                                                  \
    static void P##_gap_lows(const uint32_t *place, uint32_t count, uint32_t gap_bits, weft_bit_writer *to)            \
    {                                                                                                                  \
        weft_ones_writer writer = {to->at, to->word, to->fill};                                                        \
        weft_loop_gap_lows(place, count, 0, gap_bits, &writer);                                                        \
        weft_ones_end(&writer, to);                                                                                    \
    }                                                                                                                  \
    static void P##_gap_ones(const uint32_t *position, uint32_t count, uint32_t gap_bits, weft_bit_writer *to)         \
    {                                                                                                                  \
        weft_ones_writer writer = {to->at, to->word, to->fill};                                                        \
        weft_loop_gap_ones(position, count, 0, gap_bits, &writer);                                                     \
        weft_ones_end(&writer, to);                                                                                    \
    }                                                                                                                  \
    static bool P##_gap_places(const weft_bit_source *source, uint64_t lows, weft_bit_walker *unary,                   \
                               uint32_t gap_bits, uint32_t limit, uint32_t count, uint32_t *place)                     \
    {                                                                                                                  \
        return weft_loop_gap_places(source, lows, unary, gap_bits, limit, count, place) <= limit;                      \
    }

#define WEFT_LOOPS_FIELDS(P, W)                                                                                        \
    static uint8_t *P##_fields_##W(const uint32_t *position, const uint8_t *before, const uint8_t *after,              \
                                   uint32_t count, bool is_float, uint32_t gap_bits, uint8_t *out, const uint8_t *end) \
    {                                                                                                                  \
        return weft_loop_fields(position, before, after, count, 0, is_float, gap_bits, out, end, W);                   \
    }                                                                                                                  \
    static bool P##_gaps_##W(const weft_bit_source *source, weft_bit_walker *unary, uint32_t gap_bits, uint32_t limit, \
                             uint32_t count, uintptr_t elements, uint32_t *position, uint8_t *before, uint8_t *steps)  \
    {                                                                                                                  \
        return weft_loop_gaps_take(source, unary, gap_bits, limit, count, elements, position, before, steps, W);       \
    }

#endif
