/* host_fast_encode.c - level fast: parameters by exact rules, then the planes. */
#include "backends/host_bits.h"
#include "backends/host_element.h"
#include "backends/host_fast.h"
#include "codec/fast.h"

static unsigned bit_length(uint64_t x)
{
    return x ? 64 - (unsigned)__builtin_clzll(x) : 0;
}

/* The Rice parameter of the gaps: from the rule on counts downwards for as long as the coded bits shrink, which finds
 * the least of a convex cost. Returns the sum of the high parts. */
static uint64_t gap_bits_choose(const weft_host_kernels *kernels, const weft_changes *changes, weft_fast_shape *shape)
{
    uint32_t m = changes->count;
    uint32_t k = weft_fast_rice(shape->count, m);
    uint64_t sum = kernels->gap_sum(changes->position, m, k);
    while (k > 0) {
        uint64_t below = kernels->gap_sum(changes->position, m, k - 1);
        if (below >= sum + m)
            break;
        sum = below;
        k--;
    }
    shape->gap_bits = k;
    return sum;
}

/* Bits of the lengths that magnitudes have at order k. */
static uint64_t length_sum(const uint64_t *excess, uint32_t count, uint32_t k)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += bit_length(excess[i] + (UINT64_C(1) << k)) - 1 - k;
    return sum;
}

/* The Exp-Golomb order of the magnitudes: from the mean bit length downwards for as long as the coded bits shrink.
 * Returns the sum of the lengths. */
static uint64_t magnitude_bits_choose(const uint64_t *excess, weft_fast_shape *shape)
{
    uint32_t e = shape->exceptions;
    uint64_t total = 0;
    for (uint32_t i = 0; i < e; i++)
        total += bit_length(excess[i]);
    uint32_t k = (uint32_t)(total / e);
    uint64_t sum = length_sum(excess, e, k);
    while (k > 0) {
        uint64_t below = length_sum(excess, e, k - 1);
        if (2 * below >= 2 * sum + e)
            break;
        sum = below;
        k--;
    }
    shape->magnitude_bits = k;
    return sum;
}

void weft_host_fast_plan_make(weft_backend_state *state, const weft_view *now, weft_host_fast_plan *plan)
{
    const weft_changes *changes = &state->changes;
    weft_fast_shape *shape = &plan->shape;
    *plan = (weft_host_fast_plan){.shape = {.count = now->count, .changed = changes->count}};
    shape->exceptions = state->kernels->exceptions[weft_host_slot(now->width)](
        changes->before, changes->after, changes->count, now->is_float, state->rank, state->excess);
    plan->unary_bits = changes->count + gap_bits_choose(state->kernels, changes, shape);
    if (shape->exceptions == 0)
        return;
    shape->rank_bits = weft_fast_rice(changes->count, shape->exceptions);
    uint64_t lengths = magnitude_bits_choose(state->excess, shape);
    plan->unary_bits += state->kernels->gap_sum(state->rank, shape->exceptions, shape->rank_bits) + lengths;
    plan->unary_bits += 2 * (uint64_t)shape->exceptions;
    plan->magnitude_bits = lengths + (uint64_t)shape->exceptions * shape->magnitude_bits;
}

static uint8_t *ranks_write(const uint32_t *rank, const weft_fast_shape *shape, uint8_t *out, const uint8_t *end)
{
    weft_bit_writer writer = {out, end, 0, 0};
    uint64_t low = (UINT64_C(1) << shape->rank_bits) - 1;
    uint32_t next = 0;
    for (uint32_t i = 0; i < shape->exceptions; i++) {
        weft_bits_put(&writer, (rank[i] - next) & low, shape->rank_bits);
        next = rank[i] + 1;
    }
    return weft_bits_end(&writer);
}

static uint8_t *unary_write(const weft_backend_state *state, const weft_fast_shape *shape, uint8_t *out,
                            const uint8_t *end)
{
    weft_bit_writer writer = {out, end, 0, 0};
    state->kernels->gap_ones(state->changes.position, shape->changed, shape->gap_bits, &writer);
    uint32_t next = 0;
    for (uint32_t i = 0; i < shape->exceptions; i++) {
        weft_bits_put_unary(&writer, (state->rank[i] - next) >> shape->rank_bits);
        next = state->rank[i] + 1;
        uint64_t y = state->excess[i] + (UINT64_C(1) << shape->magnitude_bits);
        weft_bits_put_unary(&writer, bit_length(y) - 1 - shape->magnitude_bits);
    }
    return weft_bits_end(&writer);
}

static uint8_t *magnitudes_write(const uint64_t *excess, const weft_fast_shape *shape, uint8_t *out, const uint8_t *end)
{
    weft_bit_writer writer = {out, end, 0, 0};
    for (uint32_t i = 0; i < shape->exceptions; i++) {
        uint64_t y = excess[i] + (UINT64_C(1) << shape->magnitude_bits);
        unsigned length = bit_length(y | 1) - 1;
        weft_bits_put_long(&writer, y ^ UINT64_C(1) << length, length);
    }
    return weft_bits_end(&writer);
}

void weft_host_fast_write(const weft_backend_state *state, const weft_view *now, const weft_host_fast_plan *plan,
                          uint8_t *payload, uint64_t bytes)
{
    const uint8_t *end = payload + bytes;
    const weft_changes *changes = &state->changes;
    uint8_t *at = state->kernels->fields[weft_host_slot(now->width)](changes->position, changes->before, changes->after,
                                                                     changes->count, now->is_float,
                                                                     plan->shape.gap_bits, payload, end);
    at = ranks_write(state->rank, &plan->shape, at, end);
    at = unary_write(state, &plan->shape, at, end);
    at = magnitudes_write(state->excess, &plan->shape, at, end);
    memset(at, 0, (size_t)(end - at));
}
