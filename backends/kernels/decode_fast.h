/* decode_fast.h - level fast after its list of gaps: ranks and magnitudes of the exceptions, then bits.
 *
 *   decode_sizes        adds up gaps and magnitude lengths of each part of the exceptions
 *   decode_exceptions   replaces the steps of the exceptions
 *   decode_steps        reads the base, turns steps into bits, checks where the planes end */
#ifndef WEFT_BACKENDS_KERNELS_DECODE_FAST_H
#define WEFT_BACKENDS_KERNELS_DECODE_FAST_H

#include "backends/kernels/decode.h"

/* One exception, as its unary numbers and its low bits have it. */
typedef struct weft_exception {
    uint32_t gap;    /* to the rank before, at most the number of changes */
    uint32_t length; /* bits of its magnitude's plane */
    bool wrong;
} weft_exception;

WEFT_DEVICE weft_exception weft_exception_read(const weft_k_decode *job, const weft_k_fast *fast, uint32_t index)
{
    const uint32_t *ends = WEFT_AT(const uint32_t, job->ends) + 2 * index;
    const uint64_t high = ends[1] - ends[0] - 1;
    const uint32_t length = ends[2] - ends[1] - 1 + fast->magnitude_bits;
    const uint64_t low = weft_payload_bits(job, fast->ranks + (uint64_t)index * fast->rank_bits, fast->rank_bits);
    const uint64_t gap = high << fast->rank_bits | low;
    const bool wrong = gap >= job->changed || length > 63;
    return {wrong ? 0 : (uint32_t)gap, wrong ? 0 : length, wrong};
}

WEFT_KERNEL(decode_sizes)(const weft_k_decode_sizes *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    const weft_k_fast *fast = WEFT_AT(const weft_k_fast, job->level);
    const uint32_t first = part->index * WEFT_K_CHANGES;
    uint32_t gaps = 0, lengths = 0, all;
    if (weft_faulted(job, WEFT_K_LAUNCH_SIZES))
        return;
    for (uint32_t i = first + weft_thread(); i < first + WEFT_K_CHANGES && i < fast->exceptions; i += WEFT_BLOCK) {
        const weft_exception one = weft_exception_read(job, fast, i);
        gaps += one.gap + 1;
        lengths += one.length;
        if (one.wrong)
            weft_fault_note(job, WEFT_K_LAUNCH_SIZES, WEFT_K_FAULT_MAGNITUDE);
    }
    weft_block_prefix(&sums, gaps, &all);
    if (weft_thread() == 0 && all > job->changed)
        weft_fault_note(job, WEFT_K_LAUNCH_SIZES, WEFT_K_FAULT_EXCEPTION);
    if (weft_thread() == 0)
        WEFT_AT(uint32_t, fast->gaps)[part->index] = all;
    weft_block_prefix(&sums, lengths, &all);
    if (weft_thread() == 0)
        WEFT_AT(uint32_t, job->lengths)[part->index] = all;
}

/* Where the magnitudes begin: on a byte after the unary plane, whose last number ends so many bits after it began. */
WEFT_DEVICE uint64_t weft_magnitudes_at(const weft_k_decode *job, uint32_t unary_bits)
{
    return ((uint64_t)job->unary + unary_bits + 7) / 8 * 8;
}

template <unsigned width>
WEFT_DEVICE void weft_exception_put(const weft_k_decode *job, const weft_k_fast *fast, uint32_t rank, uint64_t at,
                                    uint32_t length)
{
    const uint64_t excess = (weft_payload_long(job, at, length) | 1ull << length) - (1ull << fast->magnitude_bits);
    const bool down = weft_payload_bits(job, (uint64_t)rank * fast->field_bits, 1);
    const uint64_t steps = weft_steps_of<width>(excess, 2, down);
    if (steps == 0)
        weft_fault_note(job, WEFT_K_LAUNCH_EXCEPTIONS, WEFT_K_FAULT_MAGNITUDE);
    weft_element_store<width>(job->after, rank, (typename weft_bits_of<width>::type)steps);
}

template <unsigned width>
WEFT_DEVICE void weft_exceptions_put(const weft_k_decode *job, const weft_k_fast *fast, weft_block_sums *sums,
                                     uint32_t index)
{
    const uint32_t parts = (fast->exceptions + WEFT_K_CHANGES - 1) / WEFT_K_CHANGES;
    const uint32_t first = index * WEFT_K_CHANGES + weft_thread() * WEFT_K_EACH;
    weft_exception one[WEFT_K_EACH];
    uint32_t gaps = 0, lengths = 0, all;
    WEFT_UNROLL
    for (uint32_t j = 0; j < WEFT_K_EACH; j++) {
        one[j] = {0, 0, false};
        if (first + j < fast->exceptions) {
            one[j] = weft_exception_read(job, fast, first + j);
            gaps += one[j].gap + 1;
            lengths += one[j].length;
        }
    }
    uint32_t next = weft_words_before(sums, fast->gaps, index, parts, &all) + weft_block_prefix(sums, gaps, &all);
    uint64_t at = weft_magnitudes_at(job, WEFT_AT(const uint32_t, job->ends)[2 * fast->exceptions]);
    at += weft_words_before(sums, job->lengths, index, parts, &all);
    at += weft_block_prefix(sums, lengths, &all);
    WEFT_UNROLL
    for (uint32_t j = 0; j < WEFT_K_EACH; j++) {
        const uint32_t rank = next + one[j].gap;
        if (first + j >= fast->exceptions)
            continue;
        if (rank >= job->changed)
            weft_fault_note(job, WEFT_K_LAUNCH_EXCEPTIONS, WEFT_K_FAULT_EXCEPTION);
        else
            weft_exception_put<width>(job, fast, rank, at, one[j].length);
        next = rank + 1;
        at += one[j].length;
    }
}

WEFT_KERNEL(decode_exceptions)(const weft_k_decode_exceptions *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    const weft_k_fast *fast = WEFT_AT(const weft_k_fast, job->level);
    if (weft_faulted(job, WEFT_K_LAUNCH_EXCEPTIONS))
        return;
    switch (job->view.width) {
    case 1:
        weft_exceptions_put<1>(job, fast, &sums, part->index);
        break;
    case 2:
        weft_exceptions_put<2>(job, fast, &sums, part->index);
        break;
    case 4:
        weft_exceptions_put<4>(job, fast, &sums, part->index);
        break;
    default:
        weft_exceptions_put<8>(job, fast, &sums, part->index);
    }
}

/* Changes of a block lie apart by its threads: reads of lists are coalesced, and several of the base are under way. */
template <unsigned width> WEFT_DEVICE void weft_steps_put(const weft_k_decode *job, uint32_t index)
{
    const uint32_t *positions = WEFT_AT(const uint32_t, job->position);
    const uint32_t first = index * WEFT_K_CHANGES, some = job->changed - first;
    const uint32_t count = some < WEFT_K_CHANGES ? some : WEFT_K_CHANGES;
    typename weft_bits_of<width>::type before[WEFT_K_EACH];
    uint32_t position[WEFT_K_EACH], run[WEFT_K_EACH];
    weft_delta delta = weft_delta_begin(job, positions[first], positions[first + count - 1]);
    WEFT_UNROLL
    for (uint32_t j = 0; j < WEFT_K_EACH; j++) {
        const uint32_t at = j * WEFT_BLOCK + weft_thread();
        position[j] = positions[first + (at < count ? at : count - 1)];
    }
    WEFT_UNROLL
    for (uint32_t j = 0; j < WEFT_K_EACH; j++) {
        run[j] = delta.one ? delta.run : weft_run_at(&job->view, position[j]);
        before[j] = weft_element_load<width>(weft_run_data<width>(weft_runs(&job->view) + run[j], position[j]), 0);
    }
    WEFT_UNROLL
    for (uint32_t j = 0; j < WEFT_K_EACH; j++) {
        const uint32_t at = j * WEFT_BLOCK + weft_thread();
        if (at >= count)
            continue;
        const uint64_t steps = weft_element_load<width>(job->after, first + at);
        const typename weft_bits_of<width>::type after = weft_element_step<width>(before[j], steps, job->view.is_float);
        weft_element_store<width>(job->before, first + at, before[j]);
        weft_element_store<width>(job->after, first + at, after);
        weft_delta_add(job, &delta, run[j], position[j], before[j], after);
    }
    weft_delta_end(job, &delta);
}

/* The planes of a fast frame end as they must. Collective. */
WEFT_DEVICE void weft_fast_ends(const weft_k_decode *job, weft_block_sums *sums)
{
    const weft_k_fast *fast = WEFT_AT(const weft_k_fast, job->level);
    const uint32_t unary_bits = WEFT_AT(const uint32_t, job->ends)[2 * fast->exceptions];
    const uint32_t parts = (fast->exceptions + WEFT_K_CHANGES - 1) / WEFT_K_CHANGES;
    uint32_t lengths;
    weft_words_before(sums, job->lengths, 0, parts, &lengths);
    if (weft_thread() != 0)
        return;
    if (!weft_payload_clear(job, (uint64_t)job->unary + unary_bits))
        weft_fault_note(job, WEFT_K_LAUNCH_STEPS, WEFT_K_FAULT_PADDING);
    weft_payload_ends(job, WEFT_K_LAUNCH_STEPS, (uint64_t)job->changed * fast->field_bits,
                      fast->ranks + (uint64_t)fast->exceptions * fast->rank_bits,
                      weft_magnitudes_at(job, unary_bits) + lengths);
}

WEFT_KERNEL(decode_steps)(const weft_k_decode_steps *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    if (weft_faulted(job, WEFT_K_LAUNCH_STEPS))
        return;
    if (part->index == 0)
        weft_fast_ends(job, &sums);
    switch (job->view.width) {
    case 1:
        weft_steps_put<1>(job, part->index);
        break;
    case 2:
        weft_steps_put<2>(job, part->index);
        break;
    case 4:
        weft_steps_put<4>(job, part->index);
        break;
    default:
        weft_steps_put<8>(job, part->index);
    }
}

#endif
