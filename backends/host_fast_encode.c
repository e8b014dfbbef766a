/* host_fast_encode.c - level fast: parameters by exact rules, then the planes. */
#include "backends/host_bits.h"
#include "backends/host_element.h"
#include "backends/host_fast.h"
#include "codec/fast.h"

static unsigned bit_length(uint64_t x)
{
    return x ? 64 - (unsigned)__builtin_clzll(x) : 0;
}

/* The sums that decide the parameters, over the lists in the state. */
typedef struct fast_lists {
    const weft_backend_state *state;
    uint32_t changed, exceptions;
} fast_lists;

static uint64_t gaps_sum(const void *lists, uint32_t bits)
{
    const fast_lists *of = lists;
    return of->state->kernels->gap_sum(of->state->changes.position, of->changed, bits);
}

static uint64_t ranks_sum(const void *lists, uint32_t bits)
{
    const fast_lists *of = lists;
    return of->state->kernels->gap_sum(of->state->rank, of->exceptions, bits);
}

static uint64_t lengths_sum(const void *lists, uint32_t bits)
{
    const fast_lists *of = lists;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < of->exceptions; i++)
        sum += bit_length(of->state->excess[i] + (UINT64_C(1) << bits)) - 1 - bits;
    return sum;
}

void weft_host_fast_plan_make(weft_backend_state *state, const weft_view *now, weft_fast_plan *plan)
{
    const weft_changes *changes = &state->changes;
    fast_lists lists = {.state = state, .changed = changes->count};
    lists.exceptions = state->kernels->exceptions[weft_host_slot(now->width)](
        changes->before, changes->after, changes->count, now->is_float, state->rank, state->excess);
    weft_fast_source source = {.numbers = &lists,
                               .gaps = gaps_sum,
                               .ranks = ranks_sum,
                               .lengths = lengths_sum,
                               .count = now->count,
                               .changed = changes->count,
                               .exceptions = lists.exceptions};
    for (uint32_t i = 0; i < lists.exceptions; i++)
        source.length_total += bit_length(state->excess[i]);
    *plan = weft_fast_plan_of(&source);
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

void weft_host_fast_write(const weft_backend_state *state, const weft_view *now, const weft_fast_plan *plan,
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
