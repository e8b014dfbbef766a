/* diff.h - the pass over all elements: a bit for each that differs, and how many do. Nothing else is done here, since
 * the instructions of this pass, not its bytes, would be what takes time. */
#ifndef WEFT_BACKENDS_KERNELS_DIFF_H
#define WEFT_BACKENDS_KERNELS_DIFF_H

#include "backends/kernels/block.h"
#include "backends/kernels/element.h"
#include "backends/kernels/pieces.h"

typedef struct weft_diff_shared {
    uint32_t word[WEFT_K_SLICE / 32];
    weft_block_sums sums;
} weft_diff_shared;

#define WEFT_DIFF_EACH   (WEFT_K_SLICE / 32 / WEFT_BLOCK) /* words of a thread */
#define WEFT_DIFF_FLIGHT 4                                /* loads of each stream that a thread has under way */

/* Bits for the elements of a quad that are not zero. */
template <unsigned width> WEFT_DEVICE uint32_t weft_quad_mask(const weft_quad &quad)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t word = weft_quad_word(quad, i);
        if (width == 1) {
            const uint32_t tops = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
            mask |= ((tops >> 7) * 0x10204080u >> 28) << 4 * i;
        } else if (width == 2) {
            const uint32_t tops = (((word & 0x7fff7fffu) + 0x7fff7fffu) | word) & 0x80008000u;
            mask |= (tops >> 15 | tops >> 30) % 4 << 2 * i;
        } else {
            mask |= (uint32_t)(word != 0) << (width == 4 ? i : i / 2);
        }
    }
    return mask;
}

/* Notes what differs among the elements from number `at` of the slice on. */
WEFT_DEVICE void weft_diff_note(weft_diff_shared *shared, uint32_t at, uint32_t mask)
{
    const uint32_t shift = at % 32, low = mask << shift, high = mask >> 1 >> (31 - shift);
    weft_or32(&shared->word[at / 32], low);
    if (high != 0)
        weft_or32(&shared->word[at / 32 + 1], high);
}

/* Elements of one piece that lie in the slice. */
typedef struct weft_diff_part {
    uint64_t now, shadow;
    uint32_t at; /* number of the first in the slice */
    uint32_t count;
} weft_diff_part;

template <unsigned width>
WEFT_DEVICE void weft_diff_element(weft_diff_shared *shared, const weft_diff_part *part, uint32_t index)
{
    if (weft_element_load<width>(part->now, index) != weft_element_load<width>(part->shadow, index))
        weft_diff_note(shared, part->at + index, 1);
}

/* 16 bytes of elements that lie anywhere. */
template <unsigned width> WEFT_DEVICE weft_quad weft_load_any(uint64_t data, bool aligned)
{
    if (aligned)
        return weft_load_stream(WEFT_AT(const weft_quad, data));
    uint64_t half[2] = {0, 0};
    for (unsigned i = 0; i < 16 / width; i++)
        half[i * width / 8] |= (uint64_t)weft_element_load<width>(data, i) << i * width % 8 * 8;
    return {(uint32_t)half[0], (uint32_t)(half[0] >> 32), (uint32_t)half[1], (uint32_t)(half[1] >> 32)};
}

WEFT_DEVICE weft_quad weft_quad_xor(const weft_quad &a, const weft_quad &b)
{
    return {a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w};
}

template <unsigned width>
WEFT_DEVICE void weft_diff_quad(weft_diff_shared *shared, uint32_t at, const weft_quad &now, const weft_quad &shadow)
{
    const weft_quad differ = weft_quad_xor(now, shadow);
    if (differ.x | differ.y | differ.z | differ.w)
        weft_diff_note(shared, at, weft_quad_mask<width>(differ));
}

/* The quads of a part, from `now` = aligned to 16 bytes on. */
template <unsigned width>
WEFT_DEVICE void weft_diff_quads(weft_diff_shared *shared, const weft_diff_part *part, uint32_t quads, uint32_t rank,
                                 uint32_t ranks)
{
    const uint32_t each = 16 / width;
    const bool aligned = part->shadow % 16 == 0;
    uint32_t q = rank;
    for (; q + (WEFT_DIFF_FLIGHT - 1) * ranks < quads; q += WEFT_DIFF_FLIGHT * ranks) {
        weft_quad now[WEFT_DIFF_FLIGHT], shadow[WEFT_DIFF_FLIGHT];
        for (uint32_t i = 0; i < WEFT_DIFF_FLIGHT; i++) {
            const uint64_t offset = (uint64_t)(q + i * ranks) * 16;
            now[i] = weft_load_stream(WEFT_AT(const weft_quad, part->now + offset));
            shadow[i] = weft_load_any<width>(part->shadow + offset, aligned);
        }
        for (uint32_t i = 0; i < WEFT_DIFF_FLIGHT; i++)
            weft_diff_quad<width>(shared, part->at + (q + i * ranks) * each, now[i], shadow[i]);
    }
    for (; q < quads; q += ranks) {
        const uint64_t offset = (uint64_t)q * 16;
        weft_diff_quad<width>(shared, part->at + q * each,
                              weft_load_stream(WEFT_AT(const weft_quad, part->now + offset)),
                              weft_load_any<width>(part->shadow + offset, aligned));
    }
}

/* One of `ranks` threads that share a part. */
template <unsigned width>
WEFT_DEVICE void weft_diff_share(weft_diff_shared *shared, const weft_diff_part *part, uint32_t rank, uint32_t ranks)
{
    const uint32_t head = weft_head_of<width>(part->now, part->count), each = 16 / width;
    const uint32_t quads = (part->count - head) / each, rest = head + quads * each + rank;
    const uint64_t skip = (uint64_t)head * width;
    const weft_diff_part body = {part->now + skip, part->shadow + skip, part->at + head, quads * each};
    if (rank < head)
        weft_diff_element<width>(shared, part, rank);
    weft_diff_quads<width>(shared, &body, quads, rank, ranks);
    if (rest < part->count)
        weft_diff_element<width>(shared, part, rest);
}

/* The same of a part whose `now` is F32. */
WEFT_DEVICE void weft_diff_cast_element(weft_diff_shared *shared, const weft_diff_part *part, uint32_t index,
                                        uint32_t cast)
{
    if (weft_cast_load(part->now, index, cast) != weft_element_load<2>(part->shadow, index))
        weft_diff_note(shared, part->at + index, 1);
}

/* Eight elements, from the first on of which `now` is aligned to 16 bytes. */
WEFT_DEVICE weft_quad weft_diff_cast_load(uint64_t now, uint32_t cast)
{
    const weft_quad low = weft_load_stream(WEFT_AT(const weft_quad, now));
    return weft_cast_quad(low, weft_load_stream(WEFT_AT(const weft_quad, now + 16)), cast);
}

WEFT_DEVICE void weft_diff_cast_share(weft_diff_shared *shared, const weft_diff_part *part, uint32_t rank,
                                      uint32_t ranks, uint32_t cast)
{
    const uint32_t head = weft_head_of<4>(part->now, part->count), quads = (part->count - head) / 8;
    const uint64_t now = part->now + (uint64_t)head * 4, shadow = part->shadow + (uint64_t)head * 2;
    const uint32_t rest = head + quads * 8 + rank;
    const bool aligned = shadow % 16 == 0;
    uint32_t q = rank;
    if (head > rank)
        weft_diff_cast_element(shared, part, rank, cast);
    for (; q + ranks < quads; q += 2 * ranks) { /* two under way are as many bytes as four without a cast */
        const uint32_t p = q + ranks;
        const weft_quad first = weft_diff_cast_load(now + (uint64_t)q * 32, cast);
        const weft_quad second = weft_diff_cast_load(now + (uint64_t)p * 32, cast);
        const weft_quad below = weft_load_any<2>(shadow + (uint64_t)q * 16, aligned);
        const weft_quad beside = weft_load_any<2>(shadow + (uint64_t)p * 16, aligned);
        weft_diff_quad<2>(shared, part->at + head + q * 8, first, below);
        weft_diff_quad<2>(shared, part->at + head + p * 8, second, beside);
    }
    if (q < quads)
        weft_diff_quad<2>(shared, part->at + head + q * 8, weft_diff_cast_load(now + (uint64_t)q * 32, cast),
                          weft_load_any<2>(shadow + (uint64_t)q * 16, aligned));
    if (rest < part->count)
        weft_diff_cast_element(shared, part, rest, cast);
}

template <unsigned width, bool casts = false>
WEFT_DEVICE void weft_diff_slice(weft_diff_shared *shared, const weft_k_diff *tile, const weft_k_slice *slice)
{
    const weft_k_piece *pieces = WEFT_AT(const weft_k_piece, tile->pieces);
    const weft_share share = weft_share_of(tile, slice);
    for (uint32_t p = share.piece; p < tile->piece_count; p += share.stride) {
        const weft_overlap part = weft_overlap_of(pieces + p, slice);
        if (part.count == 0)
            break;
        const uint64_t skip = (uint64_t)part.skip * width;
        const uint32_t cast = casts ? pieces[p].cast : 0;
        const weft_diff_part both = {pieces[p].now + (cast ? 2 * skip : skip), pieces[p].shadow + skip, part.at,
                                     part.count};
        if (cast)
            weft_diff_cast_share(shared, &both, share.rank, share.ranks, cast);
        else
            weft_diff_share<width>(shared, &both, share.rank, share.ranks);
    }
}

/* Leaves the slice's bits and their number. */
WEFT_DEVICE void weft_diff_leave(weft_diff_shared *shared, const weft_k_diff *tile, const weft_k_slice *slice)
{
    uint32_t *bitmap = WEFT_AT(uint32_t, tile->bitmap) + slice->number * (WEFT_K_SLICE / 32);
    uint32_t ones = 0, all;
    for (uint32_t i = weft_thread(); i < WEFT_K_SLICE / 32; i += WEFT_BLOCK) {
        bitmap[i] = shared->word[i];
        ones += weft_ones(shared->word[i]);
    }
    weft_block_prefix(&shared->sums, ones, &all);
    if (weft_thread() == 0)
        WEFT_AT(uint32_t, tile->counts)[slice->number] = all;
}

WEFT_KERNEL(diff)(const weft_k_diff *rows)
{
    WEFT_SHARED(weft_diff_shared, shared);
    const weft_k_diff *tile = rows + weft_block() / WEFT_K_SLICES;
    const weft_k_slice slice = weft_slice_of(tile);
    if (slice.count == 0)
        return;
    for (uint32_t i = weft_thread(); i < WEFT_K_SLICE / 32; i += WEFT_BLOCK)
        shared.word[i] = 0;
    weft_barrier();
    switch (tile->width) {
    case 1:
        weft_diff_slice<1>(&shared, tile, &slice);
        break;
    case 2:
        weft_diff_slice<2>(&shared, tile, &slice);
        break;
    case 4:
        weft_diff_slice<4>(&shared, tile, &slice);
        break;
    default:
        if (tile->width & WEFT_K_CAST)
            weft_diff_slice<2, true>(&shared, tile, &slice);
        else
            weft_diff_slice<8>(&shared, tile, &slice);
    }
    weft_barrier();
    weft_diff_leave(&shared, tile, &slice);
}

#endif
