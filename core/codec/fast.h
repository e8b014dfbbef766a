/* fast.h - the law of level `fast`: its parameters and where its planes lie. Bytes are in docs/WIRE_FORMAT.md.
 *
 * A frame codes m changes of a unit of n elements, e of them (the exceptions) by more than one step. Bits are counted
 * from the least significant of byte 0; each plane begins on a byte, the bits that fill its last byte are zero.
 *
 *   fields      m fields of gap_bits + 1 bits: bit 0 the direction (1: down), then the low bits of the gap
 *   ranks       e fields of rank_bits bits: the low bits of the gap between exceptions
 *   unary       m + 2e unary numbers, each so many zeros and a one: the high parts of the gaps; then for each exception
 *               the high part of its gap and the length of its magnitude
 *   magnitudes  e fields as long as their lengths say
 *
 * The i-th one of the unary plane lies at (sum of the numbers up to it) + i, so a prefix sum of population counts gives
 * every number at once. */
#ifndef WEFT_CORE_CODEC_FAST_H
#define WEFT_CORE_CODEC_FAST_H

#include "codec/frame.h"

/* Parameters of one frame. */
typedef struct weft_fast_shape {
    uint32_t count;          /* n */
    uint32_t changed;        /* m, 1..n */
    uint32_t exceptions;     /* e, 0..m */
    uint32_t gap_bits;       /* Rice parameter of the gaps, 0..weft_fast_rice(n, m) */
    uint32_t rank_bits;      /* Rice parameter of the exceptions' gaps: weft_fast_rice(m, e), 0 without exceptions */
    uint32_t magnitude_bits; /* Exp-Golomb order of the magnitudes, 0..8 * width - 1; 0 without exceptions */
} weft_fast_shape;

/* The Rice parameter for `count` (1..universe) of `universe` places chosen at random: the smallest k with
 * 320 * count * 2^k >= 77 * (2 * universe - count), which is the golden-ratio law 2^k >= ln(phi) / -ln(1 - p) with
 * ln(phi) = 77/160 and -ln(1 - p) = 1 / (1/p - 1/2). */
uint32_t weft_fast_rice(uint32_t universe, uint32_t count);

/* Sum of numbers, each without its lowest `bits` bits (or of what they cost at that parameter). */
typedef uint64_t (*weft_rice_sum)(const void *numbers, uint32_t bits);

/* From `bits` down for as long as that makes weight * sum + count * bits strictly smaller, which finds the least of a
 * convex cost. `*high` is the sum at what is returned. */
uint32_t weft_rice_lower(weft_rice_sum sum, const void *numbers, uint64_t count, uint32_t weight, uint32_t bits,
                         uint64_t *high);

/* Sums that decide the parameters of a frame. */
typedef struct weft_fast_source {
    const void *numbers;          /* what the sums are told */
    weft_rice_sum gaps, ranks;    /* of positions, of exceptions */
    weft_rice_sum lengths;        /* sum of the lengths of the exceptions' magnitudes at an order */
    uint64_t length_total;        /* sum of the lengths, in binary, of the exceptions' magnitude - 2 */
    uint32_t count;               /* n */
    uint32_t changed, exceptions; /* m, e */
} weft_fast_source;

/* A frame about to be written. */
typedef struct weft_fast_plan {
    weft_fast_shape shape;
    uint64_t unary_bits;
    uint64_t magnitude_bits; /* of the plane */
} weft_fast_plan;

weft_fast_plan weft_fast_plan_of(const weft_fast_source *source);

/* The parameters word of a header, and back. Errors: WEFT_E_CORRUPT when a parameter breaks its bound above. */
uint32_t weft_fast_parameters(const weft_fast_shape *shape);
weft_status weft_fast_shape_read(const weft_frame_header *header, uint32_t count, uint8_t width,
                                 weft_fast_shape *shape);

/* Byte offsets of the planes whose sizes the counts determine. */
static inline uint64_t weft_fast_ranks_offset(const weft_fast_shape *shape)
{
    return ((uint64_t)shape->changed * (shape->gap_bits + 1) + 7) / 8;
}

static inline uint64_t weft_fast_unary_offset(const weft_fast_shape *shape)
{
    return weft_fast_ranks_offset(shape) + ((uint64_t)shape->exceptions * shape->rank_bits + 7) / 8;
}

/* The least payload that can hold the shape, and the bytes of the unary and magnitude planes of given bits. */
static inline uint64_t weft_fast_payload(const weft_fast_shape *shape, uint64_t unary_bits, uint64_t magnitude_bits)
{
    return weft_frame_pad(weft_fast_unary_offset(shape) + (unary_bits + 7) / 8 + (magnitude_bits + 7) / 8);
}

static inline uint64_t weft_fast_payload_least(const weft_fast_shape *shape)
{
    return weft_fast_payload(shape, (uint64_t)shape->changed + 2 * (uint64_t)shape->exceptions,
                             (uint64_t)shape->exceptions * shape->magnitude_bits);
}

#endif
