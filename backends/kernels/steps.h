/* steps.h - the changes of a job in steps along the order of their dtype, one for each thread. */
#ifndef WEFT_BACKENDS_KERNELS_STEPS_H
#define WEFT_BACKENDS_KERNELS_STEPS_H

#include "backends/kernels/element.h"

typedef struct weft_k_steps {
    uint64_t magnitude;
    bool down;
} weft_k_steps;

template <unsigned width>
WEFT_DEVICE typename weft_bits_of<width>::type weft_k_place(typename weft_bits_of<width>::type bits, bool is_float)
{
    typedef typename weft_bits_of<width>::type word;
    const word top = (word)1 << (8 * width - 1), negative = bits >> (8 * width - 1) & (word)is_float;
    return bits ^ ((0 - negative) & (top - 1));
}

template <unsigned width> WEFT_DEVICE weft_k_steps weft_k_steps_of(const weft_k_changes *changes, uint32_t index)
{
    typedef typename weft_bits_of<width>::type word;
    const word top = (word)1 << (8 * width - 1), mask = top | (top - 1);
    const bool is_float = changes->is_float != 0;
    const word from = weft_k_place<width>(weft_element_load<width>(changes->before, index), is_float);
    const word to = weft_k_place<width>(weft_element_load<width>(changes->after, index), is_float);
    const word steps = (to - from) & mask;
    const bool down = (steps & top) != 0;
    return {down ? (0 - steps) & mask : steps, down};
}

/* For what is done a change at a time, whatever its width. */
WEFT_DEVICE weft_k_steps weft_k_steps_any(const weft_k_changes *changes, uint32_t index)
{
    switch (changes->width) {
    case 1:
        return weft_k_steps_of<1>(changes, index);
    case 2:
        return weft_k_steps_of<2>(changes, index);
    case 4:
        return weft_k_steps_of<4>(changes, index);
    default:
        return weft_k_steps_of<8>(changes, index);
    }
}

/* The gap before the member `index` of a list of rising numbers. */
WEFT_DEVICE uint32_t weft_k_gap(const uint32_t *members, uint32_t index)
{
    return members[index] - (index > 0 ? members[index - 1] + 1 : 0);
}

/* Length in binary, 0 for 0. */
WEFT_DEVICE uint32_t weft_k_length(uint64_t number)
{
    return number ? weft_highest(number) + 1 : 0;
}

/* Adds to lane b's *ones how many lanes' numbers have bit b set, b below `bits`, which is at most 32. Collective. */
WEFT_DEVICE void weft_k_ones_count(uint32_t number, uint32_t bits, uint32_t *ones)
{
    for (uint32_t b = 0; b < bits; b++) {
        const uint64_t set = weft_ballot(number >> b & 1);
        if (weft_lane() == b)
            *ones += weft_ones(set);
    }
}

/* Sets bits of a plane, those of `bits` from bit `at` on, which are zero. */
WEFT_DEVICE void weft_k_put(uint64_t plane, uint64_t at, uint32_t bits)
{
    const uint32_t shift = (uint32_t)at % 32, low = bits << shift, high = bits >> 1 >> (31 - shift);
    uint32_t *words = WEFT_AT(uint32_t, plane) + at / 32;
    if (low != 0)
        weft_or32(words, low);
    if (high != 0)
        weft_or32(words + 1, high);
}

#endif
