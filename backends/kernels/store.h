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
    weft_dense_part(rows + weft_block(), true);
}

WEFT_KERNEL(store)(const weft_k_store *rows)
{
    weft_dense_part(rows + weft_block(), false);
}

#endif
