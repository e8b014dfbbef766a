/* fast.c - parameters of level `fast`. */
#include "codec/fast.h"

#include "base/status.h"

#define EXCEPTION_BITS 20u
#define GAP_BITS       5u
#define MAGNITUDE_BITS 6u

uint32_t weft_fast_rice(uint32_t universe, uint32_t count)
{
    uint64_t wanted = 77 * (2 * (uint64_t)universe - count);
    uint64_t reached = 320 * (uint64_t)count;
    uint32_t k = 0;
    for (; reached < wanted; reached *= 2)
        k++;
    return k;
}

uint32_t weft_rice_lower(weft_rice_sum sum, const void *numbers, uint64_t count, uint32_t weight, uint32_t bits,
                         uint64_t *high)
{
    *high = sum(numbers, bits);
    while (bits > 0) {
        uint64_t below = sum(numbers, bits - 1);
        if (weight * below >= weight * *high + count)
            break;
        *high = below;
        bits--;
    }
    return bits;
}

weft_fast_plan weft_fast_plan_of(const weft_fast_source *source)
{
    const uint32_t m = source->changed, e = source->exceptions;
    weft_fast_plan plan = {.shape = {.count = source->count, .changed = m, .exceptions = e}};
    weft_fast_shape *shape = &plan.shape;
    uint64_t highs, lengths;
    shape->gap_bits = weft_rice_lower(source->gaps, source->numbers, m, 1, weft_fast_rice(source->count, m), &highs);
    plan.unary_bits = m + highs;
    if (e == 0)
        return plan;
    shape->rank_bits = weft_fast_rice(m, e);
    shape->magnitude_bits =
        weft_rice_lower(source->lengths, source->numbers, e, 2, (uint32_t)(source->length_total / e), &lengths);
    plan.unary_bits += source->ranks(source->numbers, shape->rank_bits) + lengths + 2 * (uint64_t)e;
    plan.magnitude_bits = lengths + (uint64_t)e * shape->magnitude_bits;
    return plan;
}

uint32_t weft_fast_parameters(const weft_fast_shape *shape)
{
    return shape->exceptions | shape->gap_bits << EXCEPTION_BITS | shape->magnitude_bits << (EXCEPTION_BITS + GAP_BITS);
}

static uint32_t field(uint32_t word, uint32_t shift, uint32_t bits)
{
    return word >> shift & ((1u << bits) - 1);
}

weft_status weft_fast_shape_read(const weft_frame_header *header, uint32_t count, uint8_t width, weft_fast_shape *shape)
{
    uint32_t word = header->parameters;
    shape->count = count;
    shape->changed = header->changed;
    shape->exceptions = field(word, 0, EXCEPTION_BITS);
    shape->gap_bits = field(word, EXCEPTION_BITS, GAP_BITS);
    shape->magnitude_bits = field(word, EXCEPTION_BITS + GAP_BITS, MAGNITUDE_BITS);
    shape->rank_bits = 0;
    if (word >> (EXCEPTION_BITS + GAP_BITS + MAGNITUDE_BITS))
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: unknown bits in the parameters 0x%08x", header->unit, word);
    if (shape->exceptions > shape->changed)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: %u exceptions among %u changes", header->unit,
                         shape->exceptions, shape->changed);
    uint32_t gap_limit = weft_fast_rice(count, header->changed);
    if (shape->gap_bits > gap_limit)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: gap parameter %u, at most %u for %u of %u elements",
                         header->unit, shape->gap_bits, gap_limit, header->changed, count);
    uint32_t magnitude_limit = shape->exceptions ? 8u * width - 1 : 0;
    if (shape->magnitude_bits > magnitude_limit)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: magnitude parameter %u, at most %u", header->unit,
                         shape->magnitude_bits, magnitude_limit);
    if (shape->exceptions)
        shape->rank_bits = weft_fast_rice(shape->changed, shape->exceptions);
    return WEFT_OK;
}
