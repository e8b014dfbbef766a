/* decode_dense.h - full frames and pairs: what differs from the base is listed. Full frames of steps say so themselves.
 *
 *   decode_differ, decode_pairs   mark the elements or pairs that differ, and count them for each part
 *   decode_elements, decode_kept  list them */
#ifndef WEFT_BACKENDS_KERNELS_DECODE_DENSE_H
#define WEFT_BACKENDS_KERNELS_DECODE_DENSE_H

#include "backends/kernels/decode.h"

WEFT_DEVICE const weft_k_dense *weft_dense_of(const weft_k_decode *job)
{
    return WEFT_AT(const weft_k_dense, job->level);
}

template <unsigned width> WEFT_DEVICE uint32_t weft_elements_differ(const weft_k_decode *job, uint32_t first)
{
    const uint32_t count = weft_share_of(job, first), each = 16 / width;
    const bool steps = weft_dense_of(job)->steps != 0;
    uint32_t mask = 0;
    if (count == 0)
        return 0;
    weft_walk base = weft_walk_from<width>(&job->view, first);
    weft_walk now = weft_walk_piece(job->payload + (uint64_t)first * width, count);
    for (uint32_t done = 0; done < count; done += each) {
        const weft_quad old = steps ? weft_quad{0, 0, 0, 0} : weft_walk_quad<width>(&base, count - done);
        const weft_quad fresh = weft_walk_quad<width>(&now, count - done);
        const weft_quad other = {old.x ^ fresh.x, old.y ^ fresh.y, old.z ^ fresh.z, old.w ^ fresh.w};
        for (uint32_t i = 0; i < each; i++)
            mask |= weft_quad_element<width>(other, i) != 0 ? 1u << (done + i) : 0;
    }
    return mask;
}

/* Leaves a thread's mask for the next launch, and the count of the part. Collective. */
WEFT_DEVICE void weft_mask_keep(const weft_k_decode *job, weft_block_sums *sums, uint32_t index, uint32_t mask)
{
    uint32_t all;
    WEFT_AT(uint32_t, weft_dense_of(job)->masks)[index * WEFT_BLOCK + weft_thread()] = mask;
    weft_block_prefix(sums, weft_ones(mask), &all);
    if (weft_thread() == 0)
        WEFT_AT(uint32_t, weft_dense_of(job)->counts)[index] = all;
}

/* The mask again, and how many are before its first. Collective. */
WEFT_DEVICE uint32_t weft_mask_again(const weft_k_decode *job, weft_block_sums *sums, uint32_t index, uint32_t *mask)
{
    const weft_k_dense *dense = weft_dense_of(job);
    uint32_t all;
    *mask = WEFT_AT(const uint32_t, dense->masks)[index * WEFT_BLOCK + weft_thread()];
    const uint32_t before = weft_words_before(sums, dense->counts, index, dense->parts, &all);
    return before + weft_block_prefix(sums, weft_ones(*mask), &all);
}

WEFT_KERNEL(decode_differ)(const weft_k_decode_differ *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    const uint32_t first = part->index * WEFT_K_ELEMENTS + weft_thread() * WEFT_K_SHARE;
    uint32_t mask;
    switch (job->view.width) {
    case 1:
        mask = weft_elements_differ<1>(job, first);
        break;
    case 2:
        mask = weft_elements_differ<2>(job, first);
        break;
    case 4:
        mask = weft_elements_differ<4>(job, first);
        break;
    default:
        mask = weft_elements_differ<8>(job, first);
    }
    weft_mask_keep(job, &sums, part->index, mask);
}

/* Lists change number `change`, of which the frame has a word. */
template <unsigned width>
WEFT_DEVICE void weft_change_put(const weft_k_decode *job, weft_delta *delta, uint32_t change, uint32_t position,
                                 typename weft_bits_of<width>::type word)
{
    const uint32_t run = delta->one ? delta->run : weft_run_at(&job->view, position);
    const typename weft_bits_of<width>::type before =
        weft_element_load<width>(weft_run_data<width>(weft_runs(&job->view) + run, position), 0);
    const typename weft_bits_of<width>::type after =
        weft_dense_of(job)->steps ? weft_element_step<width>(before, word, job->view.is_float != 0) : word;
    WEFT_AT(uint32_t, job->position)[change] = position;
    weft_element_store<width>(job->before, change, before);
    weft_element_store<width>(job->after, change, after);
    weft_delta_add(job, delta, run, position, before, after);
}

template <unsigned width>
WEFT_DEVICE void weft_elements_list(const weft_k_decode *job, weft_block_sums *sums, uint32_t index)
{
    const uint32_t tile = index * WEFT_K_ELEMENTS, first = tile + weft_thread() * WEFT_K_SHARE;
    const uint32_t some = job->view.count - tile, last = tile + (some < WEFT_K_ELEMENTS ? some : WEFT_K_ELEMENTS) - 1;
    uint32_t mask, change = weft_mask_again(job, sums, index, &mask);
    weft_delta delta = weft_delta_begin(job, tile, last);
    for (; mask != 0; mask &= mask - 1, change++) {
        const uint32_t position = first + weft_lowest(mask);
        weft_change_put<width>(job, &delta, change, position, weft_element_load<width>(job->payload, position));
    }
    weft_delta_end(job, &delta);
}

WEFT_KERNEL(decode_elements)(const weft_k_decode_elements *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    switch (job->view.width) {
    case 1:
        weft_elements_list<1>(job, &sums, part->index);
        break;
    case 2:
        weft_elements_list<2>(job, &sums, part->index);
        break;
    case 4:
        weft_elements_list<4>(job, &sums, part->index);
        break;
    default:
        weft_elements_list<8>(job, &sums, part->index);
    }
}

/* New bits of a pair, which are aligned to four bytes at most. */
template <unsigned width>
WEFT_DEVICE typename weft_bits_of<width>::type weft_pair_after(const weft_k_decode *job, uint32_t index)
{
    if (width == 8) {
        const uint64_t word = job->changed + 2 * (uint64_t)index;
        return (typename weft_bits_of<width>::type)(weft_payload_word(job, word) |
                                                    (uint64_t)weft_payload_word(job, word + 1) << 32);
    }
    return weft_element_load<width>(job->payload + 4 * (uint64_t)job->changed, index);
}

template <unsigned width> WEFT_DEVICE uint32_t weft_pairs_differ(const weft_k_decode *job, uint32_t first)
{
    uint32_t mask = 0;
    for (uint32_t j = 0; j < WEFT_K_EACH; j++) {
        const uint32_t i = first + j, position = weft_payload_word(job, i);
        if (i >= job->changed)
            continue;
        if (position >= job->view.count)
            weft_fault_note(job, WEFT_K_LAUNCH_SUMS, WEFT_K_FAULT_RANK);
        else if (i > 0 && position <= weft_payload_word(job, i - 1))
            weft_fault_note(job, WEFT_K_LAUNCH_SUMS, WEFT_K_FAULT_ORDER);
        else {
            const weft_k_run *run = weft_runs(&job->view) + weft_run_at(&job->view, position);
            const typename weft_bits_of<width>::type before =
                weft_element_load<width>(weft_run_data<width>(run, position), 0);
            mask |= before != weft_pair_after<width>(job, i) ? 1u << j : 0;
        }
    }
    return mask;
}

WEFT_KERNEL(decode_pairs)(const weft_k_decode_pairs *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    const uint32_t first = part->index * WEFT_K_CHANGES + weft_thread() * WEFT_K_EACH;
    uint32_t mask;
    switch (job->view.width) {
    case 1:
        mask = weft_pairs_differ<1>(job, first);
        break;
    case 2:
        mask = weft_pairs_differ<2>(job, first);
        break;
    case 4:
        mask = weft_pairs_differ<4>(job, first);
        break;
    default:
        mask = weft_pairs_differ<8>(job, first);
    }
    weft_mask_keep(job, &sums, part->index, mask);
}

template <unsigned width>
WEFT_DEVICE void weft_pairs_list(const weft_k_decode *job, weft_block_sums *sums, uint32_t index)
{
    const uint32_t tile = index * WEFT_K_CHANGES, first = tile + weft_thread() * WEFT_K_EACH;
    const uint32_t end = job->changed - tile < WEFT_K_CHANGES ? job->changed : tile + WEFT_K_CHANGES;
    uint32_t mask, change = weft_mask_again(job, sums, index, &mask);
    weft_delta delta = weft_delta_begin(job, weft_payload_word(job, tile), weft_payload_word(job, end - 1));
    for (; mask != 0; mask &= mask - 1, change++) {
        const uint32_t i = first + weft_lowest(mask);
        weft_change_put<width>(job, &delta, change, weft_payload_word(job, i), weft_pair_after<width>(job, i));
    }
    weft_delta_end(job, &delta);
}

WEFT_KERNEL(decode_kept)(const weft_k_decode_kept *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    if (weft_faulted(job, WEFT_K_LAUNCH_LISTS))
        return;
    switch (job->view.width) {
    case 1:
        weft_pairs_list<1>(job, &sums, part->index);
        break;
    case 2:
        weft_pairs_list<2>(job, &sums, part->index);
        break;
    case 4:
        weft_pairs_list<4>(job, &sums, part->index);
        break;
    default:
        weft_pairs_list<8>(job, &sums, part->index);
    }
}

#endif
