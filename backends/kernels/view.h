/* view.h - elements of a view, which lie in runs: one by its position, or one after the other. */
#ifndef WEFT_BACKENDS_KERNELS_VIEW_H
#define WEFT_BACKENDS_KERNELS_VIEW_H

#include "backends/kernels/element.h"

WEFT_DEVICE const weft_k_run *weft_runs(const weft_k_view *view)
{
    return WEFT_AT(const weft_k_run, view->runs);
}

/* The run that has a position of the view. */
WEFT_DEVICE uint32_t weft_run_at(const weft_k_view *view, uint32_t position)
{
    const weft_k_run *runs = weft_runs(view);
    uint32_t low = 0, high = view->run_count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (runs[middle].position <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Where the element at a position that the run has lies. */
template <unsigned width> WEFT_DEVICE uint64_t weft_run_data(const weft_k_run *run, uint32_t position)
{
    return run->data + (uint64_t)(position - run->position) * width;
}

/* Elements of a view one after the other. */
typedef struct weft_walk {
    uint64_t run;  /* the one that is walked through; by its address: the pointer's kind of memory would get lost */
    uint64_t data; /* of the next */
    uint32_t left; /* of the run */
} weft_walk;

template <unsigned width> WEFT_DEVICE weft_walk weft_walk_from(const weft_k_view *view, uint32_t position)
{
    const uint64_t address = view->runs + weft_run_at(view, position) * sizeof(weft_k_run);
    const weft_k_run *run = WEFT_AT(const weft_k_run, address);
    return {address, weft_run_data<width>(run, position), run->position + run->count - position};
}

/* Where the next element lies. */
template <unsigned width> WEFT_DEVICE uint64_t weft_walk_next(weft_walk *walk)
{
    if (walk->left == 0) {
        walk->run += sizeof(weft_k_run);
        const weft_k_run *run = WEFT_AT(const weft_k_run, walk->run);
        walk->data = run->data;
        walk->left = run->count;
    }
    const uint64_t data = walk->data;
    walk->data += width;
    walk->left--;
    return data;
}

/* The next 16 bytes of elements, or `count` elements if those are fewer: the rest is zero. */
template <unsigned width> WEFT_DEVICE weft_quad weft_walk_quad(weft_walk *walk, uint32_t count)
{
    const uint32_t each = 16 / width;
    if (count >= each && walk->left >= each && walk->data % 16 == 0) {
        const weft_quad quad = *WEFT_AT(const weft_quad, walk->data);
        walk->data += 16;
        walk->left -= each;
        return quad;
    }
    uint64_t half[2] = {0, 0};
    WEFT_UNROLL
    for (uint32_t i = 0; i < each; i++) {
        if (i >= count)
            continue;
        half[i * width / 8] |= (uint64_t)weft_element_load<width>(weft_walk_next<width>(walk), 0) << i * width % 8 * 8;
    }
    return {(uint32_t)half[0], (uint32_t)(half[0] >> 32), (uint32_t)half[1], (uint32_t)(half[1] >> 32)};
}

/* Puts them there. */
template <unsigned width> WEFT_DEVICE void weft_walk_put(weft_walk *walk, const weft_quad &quad, uint32_t count)
{
    const uint32_t each = 16 / width;
    if (count >= each && walk->left >= each && walk->data % 16 == 0) {
        *WEFT_AT(weft_quad, walk->data) = quad;
        walk->data += 16;
        walk->left -= each;
        return;
    }
    for (uint32_t i = 0; i < each; i++) {
        if (i < count)
            weft_element_store<width>(weft_walk_next<width>(walk), 0, weft_quad_element<width>(quad, i));
    }
}

/* The same over elements that lie in one piece, without runs. */
WEFT_DEVICE weft_walk weft_walk_piece(uint64_t data, uint32_t count)
{
    return {0, data, count};
}

#endif
