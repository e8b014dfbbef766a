/* apply.h - changes proved, put in place, and taken back. Bound by latency: the elements that a thread moves lie apart,
 * and all of them are read before the first is written. */
#ifndef WEFT_BACKENDS_KERNELS_APPLY_H
#define WEFT_BACKENDS_KERNELS_APPLY_H

#include "backends/kernels/block.h"
#include "backends/kernels/boxes.h"
#include "backends/kernels/view.h"

#define WEFT_K_MOVES (WEFT_K_SWAPS / WEFT_BLOCK) /* changes of a thread */

/* What is done with a job's changes. */
#define WEFT_ACT_PROVE 0u
#define WEFT_ACT_APPLY 1u
#define WEFT_ACT_UNDO  2u

/* Addresses of the elements that a thread's changes are about, `count` of the block's from change `first` on. */
template <unsigned width>
WEFT_DEVICE void weft_targets_find(const weft_k_swap *job, uint32_t first, uint32_t count, uint64_t *target)
{
    const uint32_t *positions = WEFT_AT(const uint32_t, job->position) + first;
    uint32_t position[WEFT_K_MOVES];
    for (uint32_t j = 0; j < WEFT_K_MOVES; j++) {
        const uint32_t at = j * WEFT_BLOCK + weft_thread();
        position[j] = positions[at < count ? at : count - 1];
    }
    for (uint32_t j = 0; j < WEFT_K_MOVES; j++)
        target[j] = weft_run_data<width>(weft_runs(&job->view) + weft_run_at(&job->view, position[j]), position[j]);
}

/* Reads what is there for each of a thread's changes. */
template <unsigned width>
WEFT_DEVICE void weft_targets_load(const uint64_t *target, uint32_t count, typename weft_bits_of<width>::type *there)
{
    for (uint32_t j = 0; j < WEFT_K_MOVES; j++) /* nobody reads another thread's, which may be written by now */
        there[j] = j * WEFT_BLOCK + weft_thread() < count ? weft_element_load<width>(target[j], 0) : 0;
}

WEFT_DEVICE void weft_guard_set(const weft_k_swap *job)
{
    weft_or32(WEFT_AT(uint32_t, job->mismatch), 1);
    weft_or32(WEFT_AT(uint32_t, job->guard), 1);
}

/* Compares the weights with `before`, and writes none. */
template <unsigned width> WEFT_DEVICE void weft_prove_part(const weft_k_swap *job, uint32_t first, uint32_t count)
{
    typename weft_bits_of<width>::type there[WEFT_K_MOVES];
    uint64_t target[WEFT_K_MOVES];
    bool other = false;
    weft_targets_find<width>(job, first, count, target);
    weft_targets_load<width>(target, count, there);
    for (uint32_t j = 0; j < WEFT_K_MOVES; j++) {
        const uint32_t at = j * WEFT_BLOCK + weft_thread();
        other = other || (at < count && weft_element_load<width>(job->before, first + at) != there[j]);
    }
    if (other)
        weft_guard_set(job);
}

template <unsigned width> WEFT_DEVICE void weft_swap_part(const weft_k_swap *job, uint32_t first, uint32_t count)
{
    typename weft_bits_of<width>::type there[WEFT_K_MOVES];
    uint64_t target[WEFT_K_MOVES];
    bool other = false;
    weft_targets_find<width>(job, first, count, target);
    weft_targets_load<width>(target, count, there);
    for (uint32_t j = 0; j < WEFT_K_MOVES; j++) {
        const uint32_t at = j * WEFT_BLOCK + weft_thread();
        if (at >= count)
            continue;
        weft_element_store<width>(target[j], 0, weft_element_load<width>(job->after, first + at));
        if (weft_element_load<width>(job->before, first + at) == there[j])
            continue;
        weft_element_store<width>(job->before, first + at, there[j]);
        other = true;
    }
    if (other)
        weft_or32(WEFT_AT(uint32_t, job->mismatch), 1);
}

template <unsigned width> WEFT_DEVICE void weft_undo_part(const weft_k_swap *job, uint32_t first, uint32_t count)
{
    uint64_t target[WEFT_K_MOVES];
    weft_targets_find<width>(job, first, count, target);
    for (uint32_t j = 0; j < WEFT_K_MOVES; j++) {
        const uint32_t at = j * WEFT_BLOCK + weft_thread();
        if (at < count)
            weft_element_store<width>(target[j], 0, weft_element_load<width>(job->before, first + at));
    }
}

/* Where the element at a position lies, be it in a box. */
template <unsigned width> WEFT_DEVICE uint64_t weft_swap_target(const weft_k_swap *job, uint32_t position)
{
    const weft_k_run *run = weft_runs(&job->view) + weft_run_at(&job->view, position);
    if (run->data)
        return weft_run_data<width>(run, position);
    return weft_box_find(WEFT_AT(const weft_k_boxed, run->element), position - run->position).data;
}

/* A part of a job some of whose elements lie in boxes: one change after the other, because of what a box's address
 * takes. */
template <unsigned width, unsigned act>
WEFT_DEVICE void weft_swap_boxed(const weft_k_swap *job, uint32_t first, uint32_t count)
{
    const uint32_t *positions = WEFT_AT(const uint32_t, job->position) + first;
    bool other = false;
    for (uint32_t at = weft_thread(); at < count; at += WEFT_BLOCK) {
        const uint64_t target = weft_swap_target<width>(job, positions[at]);
        const typename weft_bits_of<width>::type before = weft_element_load<width>(job->before, first + at);
        if (act == WEFT_ACT_UNDO) {
            weft_element_store<width>(target, 0, before);
            continue;
        }
        const typename weft_bits_of<width>::type there = weft_element_load<width>(target, 0);
        other = other || there != before;
        if (act == WEFT_ACT_PROVE)
            continue;
        weft_element_store<width>(target, 0, weft_element_load<width>(job->after, first + at));
        if (there != before)
            weft_element_store<width>(job->before, first + at, there);
    }
    if (other && act == WEFT_ACT_PROVE)
        weft_guard_set(job);
    else if (other)
        weft_or32(WEFT_AT(uint32_t, job->mismatch), 1);
}

template <unsigned width, unsigned act>
WEFT_DEVICE void weft_swap_act(const weft_k_swap *job, uint32_t first, uint32_t count)
{
    if (job->boxed)
        weft_swap_boxed<width, act>(job, first, count);
    else if (act == WEFT_ACT_PROVE)
        weft_prove_part<width>(job, first, count);
    else if (act == WEFT_ACT_APPLY)
        weft_swap_part<width>(job, first, count);
    else
        weft_undo_part<width>(job, first, count);
}

WEFT_DEVICE uint32_t weft_swaps_of(const weft_k_swap *job, uint32_t first)
{
    return job->count - first < WEFT_K_SWAPS ? job->count - first : WEFT_K_SWAPS;
}

template <unsigned act> WEFT_DEVICE void weft_swap_block(const weft_k_part *part)
{
    const weft_k_swap *job = WEFT_AT(const weft_k_swap, part->job);
    const uint32_t first = part->index * WEFT_K_SWAPS, count = weft_swaps_of(job, first);
    if (act == WEFT_ACT_APPLY && job->guard && *WEFT_AT(const uint32_t, job->guard))
        return; /* launches that prove came before on this stream, so nobody sets the guard by now */
    switch (job->view.width) {
    case 1:
        weft_swap_act<1, act>(job, first, count);
        break;
    case 2:
        weft_swap_act<2, act>(job, first, count);
        break;
    case 4:
        weft_swap_act<4, act>(job, first, count);
        break;
    default:
        weft_swap_act<8, act>(job, first, count);
    }
}

WEFT_KERNEL(prove)(const weft_k_prove *rows)
{
    weft_swap_block<WEFT_ACT_PROVE>(rows + weft_block());
}

WEFT_KERNEL(apply)(const weft_k_apply *rows)
{
    weft_swap_block<WEFT_ACT_APPLY>(rows + weft_block());
}

WEFT_KERNEL(undo)(const weft_k_undo *rows)
{
    weft_swap_block<WEFT_ACT_UNDO>(rows + weft_block());
}

#endif
