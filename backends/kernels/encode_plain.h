/* encode_plain.h - levels pairs and full: elements as they are, or the steps to them. */
#ifndef WEFT_BACKENDS_KERNELS_ENCODE_PLAIN_H
#define WEFT_BACKENDS_KERNELS_ENCODE_PLAIN_H

#include "backends/kernels/diff.h"
#include "backends/kernels/steps.h"

/* New elements lie after the positions, on a multiple of 4 bytes. */
template <unsigned width>
WEFT_DEVICE void weft_pairs_element(const weft_k_changes *changes, uint64_t values, uint32_t index)
{
    const typename weft_bits_of<width>::type bits = weft_element_load<width>(changes->after, index);
    if (width == 8) {
        uint32_t *to = WEFT_AT(uint32_t, values) + 2 * (uint64_t)index;
        to[0] = (uint32_t)bits;
        to[1] = (uint32_t)((uint64_t)bits >> 32);
    } else {
        weft_element_store<width>(values, index, bits);
    }
}

WEFT_KERNEL(pairs_write)(const weft_k_pairs_write *rows)
{
    const weft_k_pairs_write *row = rows + weft_block() / WEFT_K_SLICES;
    const weft_k_changes *changes = WEFT_AT(const weft_k_changes, row->changes);
    const uint32_t rank = weft_block() % WEFT_K_SLICES * WEFT_BLOCK + weft_thread();
    const uint64_t values = row->payload + 4 * (uint64_t)changes->count;
    for (uint32_t i = rank; i < changes->count; i += WEFT_K_SLICES * WEFT_BLOCK) {
        WEFT_AT(uint32_t, row->payload)[i] = WEFT_AT(const uint32_t, changes->position)[i];
        switch (changes->width) {
        case 1:
            weft_pairs_element<1>(changes, values, i);
            break;
        case 2:
            weft_pairs_element<2>(changes, values, i);
            break;
        case 4:
            weft_pairs_element<4>(changes, values, i);
            break;
        default:
            weft_pairs_element<8>(changes, values, i);
        }
    }
}

/* Elements from one place to another, by one of `ranks` threads. */
template <unsigned width>
WEFT_DEVICE void weft_full_copy(uint64_t to, uint64_t from, uint32_t count, uint32_t rank, uint32_t ranks)
{
    const bool quads = to % 16 == from % 16;
    const uint32_t head = quads ? weft_head_of<width>(from, count) : count, each = 16 / width;
    const uint32_t whole = (count - head) / each;
    for (uint32_t i = rank; i < head; i += ranks)
        weft_element_store<width>(to, i, weft_element_load<width>(from, i));
    for (uint32_t q = rank; q < whole; q += ranks) {
        const uint64_t offset = (uint64_t)head * width + (uint64_t)q * 16;
        *WEFT_AT(weft_quad, to + offset) = weft_load_stream(WEFT_AT(const weft_quad, from + offset));
    }
    for (uint32_t i = head + whole * each + rank; i < count; i += ranks)
        weft_element_store<width>(to, i, weft_element_load<width>(from, i));
}

template <unsigned width>
WEFT_DEVICE typename weft_bits_of<width>::type weft_k_step(typename weft_bits_of<width>::type from,
                                                           typename weft_bits_of<width>::type to, bool is_float)
{
    typedef typename weft_bits_of<width>::type word;
    const word top = (word)1 << (8 * width - 1);
    return (weft_k_place<width>(to, is_float) - weft_k_place<width>(from, is_float)) & (top | (top - 1));
}

template <unsigned width>
WEFT_DEVICE weft_quad weft_quad_steps(const weft_quad &from, const weft_quad &to, bool is_float)
{
    uint64_t half[2] = {0, 0};
    WEFT_UNROLL
    for (unsigned i = 0; i < 16 / width; i++)
        half[i * width / 8] |=
            (uint64_t)weft_k_step<width>(weft_quad_element<width>(from, i), weft_quad_element<width>(to, i), is_float)
            << i * width % 8 * 8;
    return {(uint32_t)half[0], (uint32_t)(half[0] >> 32), (uint32_t)half[1], (uint32_t)(half[1] >> 32)};
}

/* Those of the elements from `first` to below `end`, one of `stride` of them. */
template <unsigned width>
WEFT_DEVICE void weft_steps_some(uint64_t to, const weft_diff_part *part, bool is_float, uint32_t first, uint32_t end,
                                 uint32_t stride)
{
    for (uint32_t i = first; i < end; i += stride)
        weft_element_store<width>(to, i,
                                  weft_k_step<width>(weft_element_load<width>(part->shadow, i),
                                                     weft_element_load<width>(part->now, i), is_float));
}

/* The steps of elements, to one place, by one of `ranks` threads. */
template <unsigned width>
WEFT_DEVICE void weft_full_steps(uint64_t to, const weft_diff_part *part, bool is_float, uint32_t rank, uint32_t ranks)
{
    const bool quads = to % 16 == part->now % 16, aligned = (part->shadow - part->now) % 16 == 0;
    const uint32_t head = quads ? weft_head_of<width>(part->now, part->count) : part->count, each = 16 / width;
    const uint32_t whole = (part->count - head) / each;
    for (uint32_t q = rank; q < whole; q += ranks) {
        const uint64_t offset = (uint64_t)head * width + (uint64_t)q * 16;
        *WEFT_AT(weft_quad, to + offset) =
            weft_quad_steps<width>(weft_load_any<width>(part->shadow + offset, aligned),
                                   weft_load_stream(WEFT_AT(const weft_quad, part->now + offset)), is_float);
    }
    weft_steps_some<width>(to, part, is_float, rank, head, ranks);
    weft_steps_some<width>(to, part, is_float, head + whole * each + rank, part->count, ranks);
}

/* Elements whose memory is F32, or the steps to them. */
WEFT_DEVICE void weft_full_cast(uint64_t to, const weft_diff_part *part, const weft_k_full_write *row, uint32_t rank,
                                uint32_t ranks, uint32_t cast)
{
    for (uint32_t i = rank; i < part->count; i += ranks) {
        const uint32_t now = weft_cast_load(part->now, i, cast);
        weft_element_store<2>(
            to, i, row->steps ? weft_k_step<2>(weft_element_load<2>(part->shadow, i), now, row->is_float != 0) : now);
    }
}

template <unsigned width, bool casts = false>
WEFT_DEVICE void weft_full_slice(const weft_k_full_write *row, const weft_k_diff *tile)
{
    const weft_k_slice slice = weft_slice_of(tile);
    const weft_k_piece *pieces = WEFT_AT(const weft_k_piece, tile->pieces);
    const weft_share share = weft_share_of(tile, &slice);
    for (uint32_t p = share.piece; p < tile->piece_count; p += share.stride) {
        const weft_overlap part = weft_overlap_of(pieces + p, &slice);
        if (part.count == 0)
            break;
        const uint64_t to = row->payload + (uint64_t)(slice.first + part.at) * width;
        const uint64_t skip = (uint64_t)part.skip * width;
        const uint32_t cast = casts ? pieces[p].cast : 0;
        const weft_diff_part both = {pieces[p].now + (cast ? 2 * skip : skip), pieces[p].shadow + skip, part.at,
                                     part.count};
        if (cast)
            weft_full_cast(to, &both, row, share.rank, share.ranks, cast);
        else if (row->steps)
            weft_full_steps<width>(to, &both, row->is_float != 0, share.rank, share.ranks);
        else
            weft_full_copy<width>(to, both.now, both.count, share.rank, share.ranks);
    }
}

WEFT_KERNEL(full_write)(const weft_k_full_write *rows)
{
    const weft_k_full_write *row = rows + weft_block() / WEFT_K_SLICES;
    const weft_k_diff *tile = WEFT_AT(const weft_k_diff, row->tile);
    if (weft_slice_of(tile).count == 0)
        return;
    switch (tile->width) {
    case 1:
        weft_full_slice<1>(row, tile);
        break;
    case 2:
        weft_full_slice<2>(row, tile);
        break;
    case 4:
        weft_full_slice<4>(row, tile);
        break;
    default:
        if (tile->width & WEFT_K_CAST)
            weft_full_slice<2, true>(row, tile);
        else
            weft_full_slice<8>(row, tile);
    }
}

#endif
