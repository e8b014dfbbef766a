/* host_kernels.h - a kernel set: the loops over elements that a CPU may do in its own way. Every set gives the same
 * bytes; `portable` is the judge.
 *
 * Slots are indexed by weft_host_slot(width). Element arrays need no alignment. `position` lists are strictly
 * increasing; an element lies at data + (position - first) * width. Lists that a kernel makes have room for `count`
 * entries, and nothing is written beyond that. */
#ifndef WEFT_BACKENDS_HOST_KERNELS_H
#define WEFT_BACKENDS_HOST_KERNELS_H

#include "backends/host/host_bits.h"
#include "layout/layout.h"

#define WEFT_HOST_WIDTHS 4

typedef struct weft_host_kernels {
    const char *name;
    /* Lists the elements that differ: position from `first`, bits of shadow and of now. Returns how many. */
    uint32_t (*diff[WEFT_HOST_WIDTHS])(const uint8_t *now, const uint8_t *shadow, uint32_t count, uint32_t first,
                                       uint32_t *position, uint8_t *before, uint8_t *after);
    /* Rounds F32 to 2 bytes: to nearest, ties to even; each NaN becomes 7fc0 of BF16, or 7e00 of F16. */
    void (*cast[WEFT_CASTS])(const uint8_t *from, uint64_t count, uint8_t *to);
    /* Sum of the digest terms of `count` elements, the first of which has index `element` in its tensor. */
    uint64_t (*digest[WEFT_HOST_WIDTHS])(const uint8_t *data, uint64_t element, uint64_t count);
    /* Sum of term(after) - term(before); the index in the tensor is origin + position (mod 2^64). */
    uint64_t (*delta[WEFT_HOST_WIDTHS])(const uint32_t *position, uint64_t origin, const uint8_t *before,
                                        const uint8_t *after, uint32_t count);
    /* Reads the elements at `position` into `out`. */
    void (*gather[WEFT_HOST_WIDTHS])(const uint8_t *data, const uint32_t *position, uint32_t first, uint32_t count,
                                     uint8_t *out);
    /* Puts `values` at `position`. */
    void (*scatter[WEFT_HOST_WIDTHS])(uint8_t *data, const uint32_t *position, uint32_t first, uint32_t count,
                                      const uint8_t *values);
    /* Puts `after` in place and what was there into `before`; true if some element was not `before`. */
    bool (*swap[WEFT_HOST_WIDTHS])(uint8_t *data, const uint32_t *position, uint32_t first, uint32_t count,
                                   uint8_t *before, const uint8_t *after);
    /* Turns signed steps in `after` into bits: `before` moved by so many steps in the element order. */
    void (*step[WEFT_HOST_WIDTHS])(const uint8_t *before, uint8_t *after, uint32_t count, bool is_float);
    /* Lists the changes of more than one step: rank in the list and magnitude - 2. Returns how many. */
    uint32_t (*exceptions[WEFT_HOST_WIDTHS])(const uint8_t *before, const uint8_t *after, uint32_t count, bool is_float,
                                             uint32_t *rank, uint64_t *excess);
    /* Sum of the gaps between strictly increasing places, each shifted right by so many bits. */
    uint64_t (*gap_sum)(const uint32_t *place, uint32_t count, uint32_t shift);
    /* Writes the fields of level fast (the low bits of each gap above the direction) and returns where they end; stores
     * nothing from `end` on. gap_bits is at most 31. */
    uint8_t *(*fields[WEFT_HOST_WIDTHS])(const uint32_t *position, const uint8_t *before, const uint8_t *after,
                                         uint32_t count, bool is_float, uint32_t gap_bits, uint8_t *out,
                                         const uint8_t *end);
    /* Writes the low bits of each gap, 1 to 31 of them, for which there must be room. */
    void (*gap_lows)(const uint32_t *place, uint32_t count, uint32_t gap_bits, weft_bit_writer *to);
    /* Writes the high bits of each gap as unary numbers, for which there must be room. */
    void (*gap_ones)(const uint32_t *position, uint32_t count, uint32_t gap_bits, weft_bit_writer *to);
    /* The way back: fields from the source's first bit on and unary numbers into positions below `limit` and one step
     * up or down for each. `elements`, if not 0, is the address of position 0 of as many elements: those at the
     * positions are read into `before`, which is left alone otherwise. False where the numbers end early or a position
     * is too large: the lists are then of no use, the walker stands where it stood. */
    bool (*gaps[WEFT_HOST_WIDTHS])(const weft_bit_source *source, weft_bit_walker *unary, uint32_t gap_bits,
                                   uint32_t limit, uint32_t count, uintptr_t elements, uint32_t *position,
                                   uint8_t *before, uint8_t *steps);
    /* Reads places that gap_lows, from bit `lows` of the source on, and gap_ones wrote. False as above, or where a
     * place is not below `limit`. */
    bool (*gap_places)(const weft_bit_source *source, uint64_t lows, weft_bit_walker *unary, uint32_t gap_bits,
                       uint32_t limit, uint32_t count, uint32_t *place);
} weft_host_kernels;

/* Slot of a coded width of 1, 2, 4 or 8 bytes. */
static inline unsigned weft_host_slot(uint8_t width)
{
    return (unsigned)__builtin_ctz(width);
}

extern const weft_host_kernels weft_host_portable;
#ifdef WEFT_HAVE_AVX2
extern const weft_host_kernels weft_host_avx2;
#endif
#ifdef WEFT_HAVE_AVX512
extern const weft_host_kernels weft_host_avx512;
#endif

#endif
