/* host_fast_decode.c - level fast: planes into positions and steps, believing nothing. */
#include "backends/host/fast/host_fast.h"
#include "backends/host/host_bits.h"
#include "backends/host/host_element.h"
#include "backends/host/host_payload.h"
#include "base/status.h"
#include "codec/fast.h"

/* A frame being read. */
typedef struct fast_reader {
    uint32_t unit;
    weft_fast_shape shape;
    weft_bit_source source;
    weft_bit_walker unary;
    uint64_t ranks;      /* bit at which the ranks begin */
    uint64_t magnitudes; /* bit at which the magnitudes begin */
} fast_reader;

/* Says what a kernel refused. */
static weft_status gaps_refuse(const fast_reader *reader)
{
    const uint32_t k = reader->shape.gap_bits;
    weft_bit_walker walker = reader->unary;
    uint64_t position = 0;
    for (uint32_t i = 0; i < reader->shape.changed; i++, position++) {
        uint64_t high = weft_bits_unary(&walker);
        if (high == UINT64_MAX)
            break;
        position += high << k | weft_bits_get(&reader->source, (uint64_t)i * (k + 1), k + 1) >> 1;
        if (position >= reader->shape.count)
            return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: position %llu of %u elements", reader->unit,
                             (unsigned long long)position, reader->shape.count);
    }
    return weft_host_unary_short(reader->unit, &reader->source);
}

/* Address that position 0 of the base has or would have, 0 if its runs do not follow one another in memory, or lie in
 * boxes. */
static uintptr_t base_address(const weft_view *base)
{
    uintptr_t address = 0;
    for (uint32_t r = 0; r < base->run_count && !base->boxes; r++) {
        const weft_run *run = &base->runs[r];
        uintptr_t zero = (uintptr_t)run->data - (uintptr_t)weft_run_position(base, run) * base->width;
        if (r > 0 && zero != address)
            return 0;
        address = zero;
    }
    return address;
}

/* Positions, the bits there, and one step up or down for each. */
static weft_status gaps_read(const weft_host_kernels *kernels, const weft_view *base, fast_reader *reader,
                             weft_changes *changes)
{
    const weft_fast_shape *shape = &reader->shape;
    if (!kernels->gaps[weft_host_slot(base->width)](&reader->source, &reader->unary, shape->gap_bits, shape->count,
                                                    shape->changed, base_address(base), changes->position,
                                                    changes->before, changes->after))
        return gaps_refuse(reader);
    if (!base_address(base))
        weft_host_gather(kernels, base, changes);
    return WEFT_OK;
}

/* The magnitude whose unary length is given; 0 if it is out of range for the width. */
WEFT_ALWAYS_INLINE uint64_t magnitude_read(fast_reader *reader, uint64_t unary, unsigned width)
{
    const uint32_t order = reader->shape.magnitude_bits;
    uint64_t length = unary + order;
    if (length > 63)
        return 0;
    uint64_t low = weft_bits_get_long(&reader->source, reader->magnitudes, (unsigned)length);
    uint64_t excess = (low | UINT64_C(1) << length) - (UINT64_C(1) << order);
    reader->magnitudes += length;
    return excess <= weft_element_top(width) - 2 ? excess + 2 : 0;
}

/* Replaces the steps of the exceptions, whose unary numbers are all there. */
WEFT_ALWAYS_INLINE weft_status exceptions_read(fast_reader *reader, weft_changes *changes, unsigned width)
{
    const uint32_t k = reader->shape.rank_bits;
    uint64_t next = 0, at = reader->unary.last;
    for (uint32_t i = 0; i < reader->shape.exceptions; i++, reader->ranks += k) {
        const weft_bits_pair unary = weft_bits_two(&reader->source, &at);
        uint64_t rank = next + (unary.first << k | weft_bits_get(&reader->source, reader->ranks, k));
        if (rank >= reader->shape.changed)
            return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: exception %llu of %u changes", reader->unit,
                             (unsigned long long)rank, reader->shape.changed);
        uint64_t magnitude = magnitude_read(reader, unary.second, width);
        const uint64_t down = weft_steps_down(weft_element_get(changes->after, rank, width), width);
        if (magnitude == 0 || magnitude > weft_element_top(width) - 1 + down)
            return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: magnitude of change %llu is out of range", reader->unit,
                             (unsigned long long)rank);
        weft_element_put(changes->after, rank, (magnitude ^ (0 - down)) + down, width); /* directions are random */
        next = rank + 1;
    }
    return WEFT_OK;
}

WEFT_ALWAYS_INLINE weft_status tail_read(fast_reader *reader, weft_changes *changes, unsigned width)
{
    weft_status status = weft_host_magnitudes_find(reader->unit, &reader->source, &reader->unary,
                                                   2 * (uint64_t)reader->shape.exceptions, &reader->magnitudes);
    if (status == WEFT_OK)
        status = exceptions_read(reader, changes, width);
    if (status == WEFT_OK)
        status = weft_host_payload_end(reader->unit, &reader->source,
                                       (uint64_t)reader->shape.changed * (reader->shape.gap_bits + 1), reader->ranks,
                                       reader->magnitudes);
    return status;
}

weft_status weft_host_fast_read(const weft_host_kernels *kernels, const weft_frame *frame, const weft_view *base,
                                weft_changes *changes)
{
    fast_reader reader = {.unit = frame->header.unit, .source = {frame->payload, frame->header.payload_bytes}};
    weft_status status = weft_fast_shape_read(&frame->header, base->count, base->width, &reader.shape);
    if (status != WEFT_OK)
        return status;
    reader.unary = weft_bits_walk(reader.source, weft_fast_unary_offset(&reader.shape));
    reader.ranks = 8 * weft_fast_ranks_offset(&reader.shape);
    changes->count = reader.shape.changed;
    status = gaps_read(kernels, base, &reader, changes);
    if (status != WEFT_OK)
        return status;
    switch (base->width) {
    case 1:
        return tail_read(&reader, changes, 1);
    case 2:
        return tail_read(&reader, changes, 2);
    case 4:
        return tail_read(&reader, changes, 4);
    default:
        return tail_read(&reader, changes, 8);
    }
}
