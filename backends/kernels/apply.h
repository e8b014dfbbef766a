/* apply.h - changes put in place, and taken back. Bound by latency: the elements that a thread moves lie apart, and all
 * of them are read before the first is written. */
#ifndef WEFT_BACKENDS_KERNELS_APPLY_H
#define WEFT_BACKENDS_KERNELS_APPLY_H

#include "backends/kernels/block.h"
#include "backends/kernels/view.h"

#define WEFT_K_MOVES (WEFT_K_SWAPS / WEFT_BLOCK) /* changes of a thread */

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

template <unsigned width> WEFT_DEVICE void weft_swap_part(const weft_k_swap *job, uint32_t first, uint32_t count)
{
    typename weft_bits_of<width>::type there[WEFT_K_MOVES];
    uint64_t target[WEFT_K_MOVES];
    bool other = false;
    weft_targets_find<width>(job, first, count, target);
    for (uint32_t j = 0; j < WEFT_K_MOVES; j++) /* nobody reads another thread's, which may be written by now */
        there[j] = j * WEFT_BLOCK + weft_thread() < count ? weft_element_load<width>(target[j], 0) : 0;
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

WEFT_DEVICE uint32_t weft_swaps_of(const weft_k_swap *job, uint32_t first)
{
    return job->count - first < WEFT_K_SWAPS ? job->count - first : WEFT_K_SWAPS;
}

WEFT_KERNEL(apply)(const weft_k_apply *rows)
{
    const weft_k_part *part = rows + weft_block();
    const weft_k_swap *job = WEFT_AT(const weft_k_swap, part->job);
    const uint32_t first = part->index * WEFT_K_SWAPS, count = weft_swaps_of(job, first);
    switch (job->view.width) {
    case 1:
        weft_swap_part<1>(job, first, count);
        break;
    case 2:
        weft_swap_part<2>(job, first, count);
        break;
    case 4:
        weft_swap_part<4>(job, first, count);
        break;
    default:
        weft_swap_part<8>(job, first, count);
    }
}

WEFT_KERNEL(undo)(const weft_k_undo *rows)
{
    const weft_k_part *part = rows + weft_block();
    const weft_k_swap *job = WEFT_AT(const weft_k_swap, part->job);
    const uint32_t first = part->index * WEFT_K_SWAPS, count = weft_swaps_of(job, first);
    switch (job->view.width) {
    case 1:
        weft_undo_part<1>(job, first, count);
        break;
    case 2:
        weft_undo_part<2>(job, first, count);
        break;
    case 4:
        weft_undo_part<4>(job, first, count);
        break;
    default:
        weft_undo_part<8>(job, first, count);
    }
}

#endif
