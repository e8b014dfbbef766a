/* host_fast_encode.c - level fast: parameters by exact rules, then the planes. */
#include "backends/host/fast/host_fast.h"
#include "backends/host/fast/host_fast_loops.h"
#include "backends/host/host_bits.h"
#include "backends/host/host_element.h"
#include "codec/fast.h"

/* Bits after the first one that is set, in a number that is not zero. */
static unsigned bits_behind(uint64_t x)
{
    return 63 - (unsigned)__builtin_clzll(x);
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
        sum += bits_behind(of->state->excess[i] + (UINT64_C(1) << bits)) - bits;
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
        source.length_total += bits_behind(2 * state->excess[i] + 1); /* its bits: it is below 2^63 */
    *plan = weft_fast_plan_of(&source);
}

static uint8_t *ranks_write(const weft_backend_state *state, const weft_fast_shape *shape, uint8_t *out,
                            const uint8_t *end)
{
    weft_bit_writer writer = {out, end, 0, 0};
    if (shape->exceptions > 0 && shape->rank_bits > 0)
        state->kernels->gap_lows(state->rank, shape->exceptions, shape->rank_bits, &writer);
    return weft_bits_end(&writer);
}

/* Two unary numbers, which mostly are short. */
WEFT_ALWAYS_INLINE void two_put(weft_ones_writer *ones, uint32_t first, uint32_t second)
{
    if (__builtin_expect(first + second < 63, 1)) {
        weft_ones_add(ones, (UINT64_C(2) << second | 1) << first, first + second + 2);
        return;
    }
    weft_ones_put(ones, first);
    weft_ones_put(ones, second);
}

static uint8_t *unary_write(const weft_backend_state *state, const weft_fast_shape *shape, uint8_t *out,
                            const uint8_t *end)
{
    weft_bit_writer writer = {out, end, 0, 0};
    state->kernels->gap_ones(state->changes.position, shape->changed, shape->gap_bits, &writer);
    weft_ones_writer ones = {writer.at, writer.word, writer.fill};
    uint32_t next = 0;
    for (uint32_t i = 0; i < shape->exceptions; i++) {
        uint64_t y = state->excess[i] + (UINT64_C(1) << shape->magnitude_bits);
        two_put(&ones, (state->rank[i] - next) >> shape->rank_bits, bits_behind(y) - shape->magnitude_bits);
        next = state->rank[i] + 1;
    }
    weft_ones_end(&ones, &writer);
    return weft_bits_end(&writer);
}

static uint8_t *magnitudes_write(const uint64_t *excess, const weft_fast_shape *shape, uint8_t *out, const uint8_t *end)
{
    weft_bit_writer writer = {out, end, 0, 0};
    weft_ones_writer bits = {out, 0, 0};
    for (uint32_t i = 0; i < shape->exceptions; i++) {
        uint64_t y = excess[i] + (UINT64_C(1) << shape->magnitude_bits);
        unsigned length = bits_behind(y);
        weft_ones_add(&bits, y ^ UINT64_C(1) << length, length);
    }
    weft_ones_end(&bits, &writer);
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
    at = ranks_write(state, &plan->shape, at, end);
    at = unary_write(state, &plan->shape, at, end);
    at = magnitudes_write(state->excess, &plan->shape, at, end);
    memset(at, 0, (size_t)(end - at));
}
