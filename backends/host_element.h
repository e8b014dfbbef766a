/* host_element.h - one element in memory and in the element order, for a width known when compiled. */
#ifndef WEFT_BACKENDS_HOST_ELEMENT_H
#define WEFT_BACKENDS_HOST_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "frames hold elements as a little-endian machine keeps them; this backend does not swap bytes"
#endif

#define WEFT_ALWAYS_INLINE static inline __attribute__((always_inline))

/* Entries that a loop over scattered elements asks for ahead of use. */
#define WEFT_HOST_AHEAD 64u

WEFT_ALWAYS_INLINE uint64_t weft_element_get(const uint8_t *data, uint64_t index, unsigned width)
{
    uint64_t bits = 0;
    memcpy(&bits, data + index * width, width);
    return bits;
}

WEFT_ALWAYS_INLINE void weft_element_put(uint8_t *data, uint64_t index, uint64_t bits, unsigned width)
{
    memcpy(data + index * width, &bits, width);
}

WEFT_ALWAYS_INLINE uint64_t weft_element_mask(unsigned width)
{
    return UINT64_MAX >> (64 - 8 * width);
}

WEFT_ALWAYS_INLINE uint64_t weft_element_top(unsigned width)
{
    return UINT64_C(1) << (8 * width - 1);
}

/* Bits -> place in the element order and back (it is its own inverse): floats are sign and magnitude. */
WEFT_ALWAYS_INLINE uint64_t weft_element_order(uint64_t bits, unsigned width, bool is_float)
{
    uint64_t top = weft_element_top(width);
    return is_float && (bits & top) ? bits ^ (top - 1) : bits;
}

/* Steps from one element to another, mod 2^(8 * width). */
WEFT_ALWAYS_INLINE uint64_t weft_element_steps(uint64_t before, uint64_t after, unsigned width, bool is_float)
{
    uint64_t d = weft_element_order(after, width, is_float) - weft_element_order(before, width, is_float);
    return d & weft_element_mask(width);
}

WEFT_ALWAYS_INLINE bool weft_steps_down(uint64_t steps, unsigned width)
{
    return (steps & weft_element_top(width)) != 0;
}

WEFT_ALWAYS_INLINE uint64_t weft_steps_magnitude(uint64_t steps, unsigned width)
{
    return weft_steps_down(steps, width) ? (0 - steps) & weft_element_mask(width) : steps;
}

#endif
