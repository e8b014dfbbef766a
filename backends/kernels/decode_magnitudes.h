/* decode_magnitudes.h - level tight, from changes to their bits.
 *
 *   decode_further      which exceptions on large bases are in the list of those above two steps
 *   decode_lengths      adds up the bits that each part's magnitudes take
 *   decode_magnitudes   steps into bits; checks where the planes end */
#ifndef WEFT_BACKENDS_KERNELS_DECODE_MAGNITUDES_H
#define WEFT_BACKENDS_KERNELS_DECODE_MAGNITUDES_H

#include "backends/kernels/decode_fast.h"
#include "backends/kernels/decode_tight.h"

/* Parts of the changes. */
WEFT_DEVICE uint32_t weft_change_parts(const weft_k_decode *job)
{
    return (job->changed + WEFT_K_CHANGES - 1) / WEFT_K_CHANGES;
}

/* Whether member number `rank` of its universe belongs to the set. */
WEFT_DEVICE bool weft_set_has(const weft_k_set *set, uint32_t rank)
{
    const uint32_t at = weft_set_below(set, rank);
    const bool listed = at < set->count && WEFT_AT(const uint32_t, set->ranks)[at] == rank;
    return listed != (set->inverted != 0);
}

/* A state says from here on whether a magnitude is coded: WEFT_K_STATE_TWO if not. */
WEFT_KERNEL(decode_further)(const weft_k_decode_further *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t first = part->index * WEFT_K_CHANGES + weft_thread() * WEFT_K_EACH;
    if (weft_faulted(job, WEFT_K_LAUNCH_FURTHER))
        return;
    uint8_t *states = WEFT_AT(uint8_t, tight->states);
    uint32_t large = 0, coded = 0, total, all;
    for (uint32_t i = first; i < first + WEFT_K_EACH && i < job->changed; i++)
        large += states[i] == WEFT_K_STATE_LARGE;
    uint32_t rank = weft_words_before(&sums, tight->large, part->index, weft_change_parts(job), &total);
    rank += weft_block_prefix(&sums, large, &all);
    for (uint32_t i = first; i < first + WEFT_K_EACH && i < job->changed; i++) {
        if (states[i] == WEFT_K_STATE_LARGE && !weft_set_has(&tight->further, rank++))
            states[i] = WEFT_K_STATE_TWO;
        else
            coded += states[i] != WEFT_K_STATE_STEP;
    }
    weft_block_prefix(&sums, coded, &all);
    if (weft_thread() != 0)
        return;
    WEFT_AT(uint32_t, tight->coded)[part->index] = all;
    if (!weft_set_fits(&tight->further, total))
        weft_fault_note(job, WEFT_K_LAUNCH_FURTHER, WEFT_K_FAULT_BASE);
}

/* A magnitude's code. */
typedef struct weft_code {
    uint32_t unary, length; /* bits of the magnitudes' plane */
    uint32_t rice;
    bool wrong;
} weft_code;

template <unsigned width>
WEFT_DEVICE weft_code weft_code_read(const weft_k_decode *job, uint32_t change, uint32_t state, uint32_t number)
{
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t *ends = WEFT_AT(const uint32_t, job->ends) + number;
    const uint32_t unary = ends[1] - ends[0] - 1;
    uint32_t rice = 0;
    if (state == WEFT_K_STATE_SMALL) {
        rice = tight->magnitude_base - weft_exponent<width>(tight, weft_element_load<width>(job->before, change));
        rice = rice < tight->rice_most ? rice : tight->rice_most;
    }
    const uint32_t above = unary < WEFT_K_ESCAPE ? 0 : unary - WEFT_K_ESCAPE + WEFT_K_ESCAPE_LOW;
    const bool wrong = above > 63 - rice;
    return {unary, wrong ? 0 : rice + above, rice, wrong};
}

WEFT_DEVICE bool weft_state_coded(uint32_t state)
{
    return state == WEFT_K_STATE_SMALL || state == WEFT_K_STATE_LARGE;
}

/* The codes of a thread's changes, and the bits they take. `number` is that of the first. */
template <unsigned width>
WEFT_DEVICE uint32_t weft_codes_read(const weft_k_decode *job, uint32_t first, uint32_t number, weft_code *code)
{
    uint32_t lengths = 0;
    WEFT_UNROLL
    for (uint32_t j = 0; j < WEFT_K_EACH; j++) {
        code[j] = {0, 0, 0, false};
        if (first + j >= job->changed)
            continue;
        const uint32_t state = WEFT_AT(const uint8_t, weft_tight_of(job)->states)[first + j];
        if (!weft_state_coded(state))
            continue;
        code[j] = weft_code_read<width>(job, first + j, state, number++);
        lengths += code[j].length;
    }
    return lengths;
}

/* Coded magnitudes before a thread's first change; *total of all. Collective. */
WEFT_DEVICE uint32_t weft_codes_before(const weft_k_decode *job, weft_block_sums *sums, uint32_t index, uint32_t first,
                                       uint32_t *total)
{
    const weft_k_tight *tight = weft_tight_of(job);
    uint32_t mine = 0, all;
    for (uint32_t i = first; i < first + WEFT_K_EACH && i < job->changed; i++)
        mine += weft_state_coded(WEFT_AT(const uint8_t, tight->states)[i]);
    const uint32_t before = weft_words_before(sums, tight->coded, index, weft_change_parts(job), total);
    return before + weft_block_prefix(sums, mine, &all);
}

template <unsigned width>
WEFT_DEVICE void weft_lengths_sum(const weft_k_decode *job, weft_block_sums *sums, uint32_t index)
{
    const uint32_t first = index * WEFT_K_CHANGES + weft_thread() * WEFT_K_EACH;
    weft_code code[WEFT_K_EACH];
    uint32_t total, all, ones;
    const uint32_t number = weft_codes_before(job, sums, index, first, &total);
    weft_words_before(sums, job->ones, 0, job->unary_parts, &ones);
    if (ones < job->list_ones + total) {
        if (weft_thread() == 0)
            weft_fault_note(job, WEFT_K_LAUNCH_LENGTHS, WEFT_K_FAULT_SHORT);
        return;
    }
    const uint32_t lengths = weft_codes_read<width>(job, first, number, code);
    WEFT_UNROLL
    for (uint32_t j = 0; j < WEFT_K_EACH; j++) {
        if (code[j].wrong)
            weft_fault_note(job, WEFT_K_LAUNCH_LENGTHS, WEFT_K_FAULT_MAGNITUDE);
    }
    weft_block_prefix(sums, lengths, &all);
    if (weft_thread() == 0)
        WEFT_AT(uint32_t, job->lengths)[index] = all;
}

WEFT_KERNEL(decode_lengths)(const weft_k_decode_lengths *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    if (weft_faulted(job, WEFT_K_LAUNCH_LENGTHS))
        return;
    switch (job->view.width) {
    case 1:
        weft_lengths_sum<1>(job, &sums, part->index);
        break;
    case 2:
        weft_lengths_sum<2>(job, &sums, part->index);
        break;
    case 4:
        weft_lengths_sum<4>(job, &sums, part->index);
        break;
    default:
        weft_lengths_sum<8>(job, &sums, part->index);
    }
}

/* The steps of one change, whose magnitude's bits are from `at` on if it is coded. */
template <unsigned width>
WEFT_DEVICE uint64_t weft_magnitude_steps(const weft_k_decode *job, uint32_t state, const weft_code *code, uint64_t at,
                                          bool down)
{
    if (state == WEFT_K_STATE_STEP)
        return down ? ~0ull : 1;
    if (state == WEFT_K_STATE_TWO)
        return down ? ~0ull - 1 : 2;
    const uint64_t low = weft_payload_long(job, at, code->length);
    uint64_t excess = (uint64_t)code->unary << code->rice | low;
    if (code->unary >= WEFT_K_ESCAPE) {
        excess = (low | 1ull << code->length) - (1ull << (code->rice + WEFT_K_ESCAPE_LOW));
        const uint64_t least = (uint64_t)WEFT_K_ESCAPE << code->rice;
        excess = excess < ~0ull - least ? excess + least : ~0ull;
    }
    const uint64_t steps = weft_steps_of<width>(excess, state == WEFT_K_STATE_LARGE ? 3 : 2, down);
    if (steps == 0)
        weft_fault_note(job, WEFT_K_LAUNCH_MAGNITUDES, WEFT_K_FAULT_MAGNITUDE);
    return steps;
}

template <unsigned width>
WEFT_DEVICE void weft_magnitudes_put(const weft_k_decode *job, weft_block_sums *sums, uint32_t index)
{
    const weft_k_tight *tight = weft_tight_of(job);
    const uint32_t *positions = WEFT_AT(const uint32_t, job->position);
    const uint32_t tile = index * WEFT_K_CHANGES, first = tile + weft_thread() * WEFT_K_EACH;
    const uint32_t end = job->changed - tile < WEFT_K_CHANGES ? job->changed : tile + WEFT_K_CHANGES;
    weft_code code[WEFT_K_EACH];
    uint32_t total, all;
    const uint32_t number = weft_codes_before(job, sums, index, first, &total);
    const uint32_t lengths = weft_codes_read<width>(job, first, number, code);
    const uint32_t unary_bits = WEFT_AT(const uint32_t, job->ends)[total];
    const uint64_t begin = weft_magnitudes_at(job, unary_bits);
    uint64_t at = begin + weft_words_before(sums, job->lengths, index, weft_change_parts(job), &all);
    if (index == 0 && weft_thread() == 0) {
        if (!weft_payload_clear(job, (uint64_t)job->unary + unary_bits))
            weft_fault_note(job, WEFT_K_LAUNCH_MAGNITUDES, WEFT_K_FAULT_PADDING);
        weft_payload_ends(job, WEFT_K_LAUNCH_MAGNITUDES, tight->directions + job->changed, tight->lows_end,
                          begin + all);
    }
    at += weft_block_prefix(sums, lengths, &all);
    weft_delta delta = weft_delta_begin(job, positions[tile], positions[end - 1]);
    WEFT_UNROLL
    for (uint32_t j = 0; j < WEFT_K_EACH; j++) {
        const uint32_t change = first + j;
        if (change >= job->changed)
            continue;
        const uint32_t state = WEFT_AT(const uint8_t, tight->states)[change], position = positions[change];
        const bool down = weft_payload_bits(job, tight->directions + change, 1);
        const uint64_t steps = weft_magnitude_steps<width>(job, state, &code[j], at, down);
        const typename weft_bits_of<width>::type before = weft_element_load<width>(job->before, change);
        const typename weft_bits_of<width>::type after = weft_element_step<width>(before, steps, job->view.is_float);
        weft_element_store<width>(job->after, change, after);
        weft_delta_add(job, &delta, delta.one ? delta.run : weft_run_at(&job->view, position), position, before, after);
        at += code[j].length;
    }
    weft_delta_end(job, &delta);
}

WEFT_KERNEL(decode_magnitudes)(const weft_k_decode_magnitudes *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    if (weft_faulted(job, WEFT_K_LAUNCH_MAGNITUDES))
        return;
    switch (job->view.width) {
    case 1:
        weft_magnitudes_put<1>(job, &sums, part->index);
        break;
    case 2:
        weft_magnitudes_put<2>(job, &sums, part->index);
        break;
    case 4:
        weft_magnitudes_put<4>(job, &sums, part->index);
        break;
    default:
        weft_magnitudes_put<8>(job, &sums, part->index);
    }
}

#endif
