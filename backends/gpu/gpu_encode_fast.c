/* gpu_encode_fast.c - level fast on the device: the decisions of the host. */
#include "backends/gpu/gpu_encode.h"

uint64_t weft_gpu_ones_sum(const uint32_t ones[32], uint32_t bits)
{
    uint64_t sum = 0;
    for (uint32_t b = bits; b < 32; b++)
        sum += (uint64_t)ones[b] << (b - bits);
    return sum;
}

static uint64_t gaps_sum(const void *counts, uint32_t bits)
{
    return weft_gpu_ones_sum(((const weft_k_fast_counts *)counts)->gap_ones, bits);
}

static uint64_t ranks_sum(const void *counts, uint32_t bits)
{
    return weft_gpu_ones_sum(((const weft_k_fast_counts *)counts)->rank_ones, bits);
}

/* Adding 2^q makes x one bit longer if x has only ones from bit q on, and q + 1 bits long if x is shorter than that. */
static uint64_t lengths_sum(const void *counts, uint32_t bits)
{
    const weft_k_fast_counts *of = counts;
    uint64_t sum = 0;
    for (uint32_t l = bits + 1; l < WEFT_K_LENGTHS; l++)
        sum += (uint64_t)of->length[l] * (l - 1 - bits);
    for (uint32_t l = 0; l <= bits; l++)
        sum += (uint64_t)of->under[l] - of->length[l];
    return sum;
}

weft_fast_plan weft_gpu_fast_plan(const weft_gpu_encoding *encoding)
{
    const weft_k_fast_counts *counts = encoding->fast_counts;
    weft_fast_source source = {.numbers = counts,
                               .gaps = gaps_sum,
                               .ranks = ranks_sum,
                               .lengths = lengths_sum,
                               .count = encoding->job->now.count,
                               .changed = encoding->changed,
                               .exceptions = counts->exceptions};
    for (uint32_t l = 0; l < WEFT_K_LENGTHS; l++)
        source.length_total += (uint64_t)counts->length[l] * l;
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
