/* store.h - dense bytes out of a view and into it: a thread moves 16 bytes of them at a time. */
#ifndef WEFT_BACKENDS_KERNELS_STORE_H
#define WEFT_BACKENDS_KERNELS_STORE_H

#include "backends/kernels/view.h"

/* The quads of a part of a view, `loads` out of it. */
template <unsigned width> WEFT_DEVICE void weft_dense_move(const weft_k_copy *job, uint32_t index, bool loads)
{
    const uint32_t each = 16 / width, first = index * WEFT_K_ELEMENTS;
    const uint32_t some = job->view.count - first, end = first + (some < WEFT_K_ELEMENTS ? some : WEFT_K_ELEMENTS);
    for (uint32_t at = first + weft_thread() * each; at < end; at += WEFT_BLOCK * each) {
        const uint32_t count = end - at < each ? end - at : each;
        weft_walk view = weft_walk_from<width>(&job->view, at);
        weft_walk dense = weft_walk_piece(job->bytes + (uint64_t)at * width, count);
        weft_walk *from = loads ? &view : &dense, *to = loads ? &dense : &view;
        weft_walk_put<width>(to, weft_walk_quad<width>(from, count), count);
    }
}

/* Loads the next eight elements of a view of which some runs are F32, or `count` if those are fewer. */
WEFT_DEVICE weft_quad weft_cast_eight(const weft_k_copy *job, uint32_t position, uint32_t count)
{
    const uint8_t *casts = WEFT_AT(const uint8_t, job->casts);
    uint32_t number = weft_run_at(&job->view, position);
    uint64_t half[2] = {0, 0};
    WEFT_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        if (i >= count)
            continue;
        number += position + i - weft_runs(&job->view)[number].position == weft_runs(&job->view)[number].count;
        const weft_k_run *run = weft_runs(&job->view) + number;
        half[i / 4] |= (uint64_t)weft_cast_load(run->data, position + i - run->position, casts[number]) << i % 4 * 16;
    }
    return {(uint32_t)half[0], (uint32_t)(half[0] >> 32), (uint32_t)half[1], (uint32_t)(half[1] >> 32)};
}

/* Puts the first elements of a quad, one by one. */
template <unsigned width> WEFT_DEVICE void weft_quad_put(uint64_t to, const weft_quad &quad, uint32_t count)
{
    WEFT_UNROLL
    for (uint32_t i = 0; i < 16 / width; i++) {
        if (i < count)
            weft_element_store<width>(to, i, weft_quad_element<width>(quad, i));
    }
}

WEFT_DEVICE void weft_cast_move(const weft_k_copy *job, uint32_t index)
{
    const uint32_t first = index * WEFT_K_ELEMENTS;
    const uint32_t some = job->view.count - first, end = first + (some < WEFT_K_ELEMENTS ? some : WEFT_K_ELEMENTS);
    for (uint32_t at = first + weft_thread() * 8; at < end; at += WEFT_BLOCK * 8) {
        const uint32_t count = end - at < 8 ? end - at : 8;
        const uint64_t to = job->bytes + (uint64_t)at * 2;
        const weft_quad quad = weft_cast_eight(job, at, count);
        if (count == 8 && to % 16 == 0)
            *WEFT_AT(weft_quad, to) = quad;
        else
            weft_quad_put<2>(to, quad, count);
    }
}

WEFT_DEVICE void weft_dense_part(const weft_k_part *part, bool loads)
{
    const weft_k_copy *job = WEFT_AT(const weft_k_copy, part->job);
    switch (job->view.width) {
    case 1:
        weft_dense_move<1>(job, part->index, loads);
        break;
    case 2:
        weft_dense_move<2>(job, part->index, loads);
        break;
    case 4:
        weft_dense_move<4>(job, part->index, loads);
        break;
    default:
        weft_dense_move<8>(job, part->index, loads);
    }
}

WEFT_KERNEL(load)(const weft_k_load *rows)
{
    const weft_k_part *part = rows + weft_block();
    const weft_k_copy *job = WEFT_AT(const weft_k_copy, part->job);
    if (job->view.width == WEFT_K_CAST)
        weft_cast_move(job, part->index);
    else
        weft_dense_part(part, true);
}

WEFT_KERNEL(store)(const weft_k_store *rows)
{
    weft_dense_part(rows + weft_block(), false);
}

#endif
