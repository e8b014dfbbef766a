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
#define WEFT_HOST_AHEAD 96u

WEFT_ALWAYS_INLINE uint64_t weft_element_get(const uint8_t *data, uint64_t index, unsigned width)
{
    const uint8_t *element = data + index * width;
    uint16_t half;
    uint32_t word;
    uint64_t whole;
    switch (width) { /* loads that widen, rather than merge into a cleared register */
    case 1:
        return *element;
    case 2:
        memcpy(&half, element, 2);
        return half;
    case 4:
        memcpy(&word, element, 4);
        return word;
    default:
        memcpy(&whole, element, 8);
        return whole;
    }
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

/* Bits -> place in the element order and back (it is its own inverse): floats are sign and magnitude. Signs are random,
 * so there is no branch on them. */
WEFT_ALWAYS_INLINE uint64_t weft_element_order(uint64_t bits, unsigned width, bool is_float)
{
    uint64_t negative = bits >> (8 * width - 1) & is_float;
    return bits ^ ((0 - negative) & (weft_element_top(width) - 1));
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
    uint64_t down = 0 - (uint64_t)weft_steps_down(steps, width);
    return ((steps ^ down) - down) & weft_element_mask(width);
}

#endif
