/* gpu_encode_fast.c - level fast on the device: the decisions of the host. */
#include "backends/gpu/gpu_encode.h"

uint64_t weft_gpu_ones_sum(const uint32_t ones[32], uint32_t bits)
{
    uint64_t sum = 0;
    for (uint32_t b = 32; b-- > bits;)
        sum = 2 * sum + ones[b];
    return sum;
}

/* The counts of a job, and the bits that its magnitudes have at most. */
typedef struct fast_numbers {
    const weft_k_fast_counts *counts;
    uint32_t bits;
} fast_numbers;

static uint64_t gaps_sum(const void *numbers, uint32_t bits)
{
    return weft_gpu_ones_sum(((const fast_numbers *)numbers)->counts->gap_ones, bits);
}

static uint64_t ranks_sum(const void *numbers, uint32_t bits)
{
    return weft_gpu_ones_sum(((const fast_numbers *)numbers)->counts->rank_ones, bits);
}

/* Adding 2^q makes x one bit longer if x has only ones from bit q on, and q + 1 bits long if x is shorter than that. */
static uint64_t lengths_sum(const void *numbers, uint32_t bits)
{
    const fast_numbers *of = numbers;
    const uint32_t *length = of->counts->length, *under = of->counts->under;
    uint64_t sum = 0;
    for (uint32_t l = bits + 1; l <= of->bits; l++)
        sum += (uint64_t)length[l] * (l - 1 - bits);
    for (uint32_t l = 0; l <= bits && l <= of->bits; l++)
        sum += (uint64_t)under[l] - length[l];
    return sum;
}

weft_fast_plan weft_gpu_fast_plan(const weft_gpu_encoding *encoding)
{
    const weft_view *now = &encoding->job->now;
    const fast_numbers numbers = {encoding->fast_counts, 8u * now->width};
    weft_fast_source source = {.numbers = &numbers,
                               .gaps = gaps_sum,
                               .ranks = ranks_sum,
                               .lengths = lengths_sum,
                               .count = now->count,
                               .changed = encoding->changed,
                               .exceptions = numbers.counts->exceptions};
    for (uint32_t l = 0; l <= numbers.bits; l++)
        source.length_total += (uint64_t)numbers.counts->length[l] * l;
    return weft_fast_plan_of(&source);
}

weft_k_fast_write weft_gpu_fast_row(const weft_gpu_encoding *encoding, const weft_fast_plan *plan, uint64_t payload)
{
    const weft_fast_shape *shape = &plan->shape;
    const uint64_t unary = weft_fast_unary_offset(shape);
    return (weft_k_fast_write){.changes = encoding->changes,
                               .ranks = encoding->ranks,
                               .payload = payload,
                               .exceptions = shape->exceptions,
                               .gap_bits = shape->gap_bits,
                               .rank_bits = shape->rank_bits,
                               .magnitude_bits = shape->magnitude_bits,
                               .ranks_at = (uint32_t)weft_fast_ranks_offset(shape),
                               .unary_at = (uint32_t)unary,
                               .magnitudes_at = (uint32_t)(unary + (plan->unary_bits + 7) / 8)};
}
