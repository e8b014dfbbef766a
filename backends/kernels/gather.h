/* gather.h - from bits to lists: sums over the slices' counts, then each change to its place, with what its elements
 * were and are. A thread seeks the change it lists: changes are few and lie anywhere, so threads that went through the
 * bits would wait for the one that has most. */
#ifndef WEFT_BACKENDS_KERNELS_GATHER_H
#define WEFT_BACKENDS_KERNELS_GATHER_H

#include "backends/kernels/block.h"
#include "backends/kernels/element.h"
#include "backends/kernels/pieces.h"

/* Puts in place of each word the sum of those before it, and after them that of all. Collective. */
WEFT_DEVICE void weft_scan_words(weft_block_sums *sums, uint32_t *words, uint32_t count)
{
    uint32_t sum = 0;
    for (uint32_t first = 0; first < count; first += WEFT_BLOCK) {
        const uint32_t at = first + weft_thread();
        const uint32_t word = at < count ? words[at] : 0;
        uint32_t all;
        const uint32_t before = weft_block_prefix(sums, word, &all);
        if (at < count)
            words[at] = sum + before;
        sum += all;
    }
    if (weft_thread() == 0)
        words[count] = sum;
}

WEFT_KERNEL(scan)(const weft_k_scan *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_scan *row = rows + weft_block();
    weft_scan_words(&sums, WEFT_AT(uint32_t, row->words), row->count);
    if (weft_thread() == 0)
        *WEFT_AT(uint32_t, row->total) = WEFT_AT(const uint32_t, row->words)[row->count];
}

/* Number of the one that has `rank` ones below it; the word has more. */
WEFT_DEVICE uint32_t weft_one_at(uint32_t word, uint32_t rank)
{
    uint32_t at = 0;
    for (uint32_t half = 16; half > 0; half /= 2) {
        const uint32_t ones = weft_ones(word >> at & ((1u << half) - 1));
        at += rank >= ones ? half : 0;
        rank -= rank >= ones ? ones : 0;
    }
    return at;
}

/* The same over the 128 bits of a quad. */
WEFT_DEVICE uint32_t weft_quad_one_at(const weft_quad &quad, uint32_t rank)
{
    uint32_t base = 0, word = quad.x;
    for (unsigned i = 1; i < 4; i++) {
        const uint32_t ones = weft_ones(word);
        if (rank < ones)
            break;
        rank -= ones;
        base = 32 * i;
        word = weft_quad_word(quad, i);
    }
    return base + weft_one_at(word, rank);
}

WEFT_DEVICE uint32_t weft_quad_ones(const weft_quad &quad)
{
    return weft_ones(quad.x | (uint64_t)quad.y << 32) + weft_ones(quad.z | (uint64_t)quad.w << 32);
}

/* Ones of a stretch of bits, 128 of them for each thread. */
#define WEFT_SEEK_BITS (128u * WEFT_BLOCK)

typedef struct weft_seek {
    weft_block_sums sums;
    uint32_t before[WEFT_BLOCK]; /* ones before those of a thread */
} weft_seek;

/* Counts them; `mine` are this thread's bits. Collective. */
WEFT_DEVICE uint32_t weft_seek_begin(weft_seek *seek, const weft_quad &mine)
{
    uint32_t all;
    const uint32_t before = weft_block_prefix(&seek->sums, weft_quad_ones(mine), &all);
    seek->before[weft_thread()] = before;
    weft_barrier();
    return all;
}

/* The thread that has the one with `rank` ones before it. */
WEFT_DEVICE uint32_t weft_seek_thread(const weft_seek *seek, uint32_t rank)
{
    uint32_t thread = 0;
    for (uint32_t half = WEFT_BLOCK / 2; half > 0; half /= 2)
        thread += seek->before[thread + half] <= rank ? half : 0;
    return thread;
}

/* Digests of the changes that a thread lists go to the word of their piece. */
typedef struct weft_gather_sum {
    uint64_t sum;
    uint32_t word;
} weft_gather_sum;

WEFT_DEVICE void weft_gather_add(uint64_t *words, weft_gather_sum *sum, uint32_t word, uint64_t term)
{
    if (word != sum->word) {
        if (sum->sum != 0)
            weft_add64(words + sum->word, sum->sum);
        *sum = {0, word};
    }
    sum->sum += term;
}

/* Lists one change. */
template <unsigned width, bool casts>
WEFT_DEVICE void weft_gather_one(const weft_k_gather *row, const weft_k_changes *changes, const weft_k_piece *piece,
                                 uint32_t place, uint32_t position, weft_gather_sum *sum)
{
    typedef typename weft_bits_of<width>::type bits;
    const uint32_t in = position - piece->position;
    const bits before = weft_element_load<width>(piece->shadow, in);
    const bits after =
        casts ? (bits)weft_cast_load(piece->now, in, piece->cast) : weft_element_load<width>(piece->now, in);
    const uint64_t index = piece->element + in;
    WEFT_AT(uint32_t, changes->position)[place] = position;
    weft_element_store<width>(changes->before, place, before);
    weft_element_store<width>(changes->after, place, after);
    weft_gather_add(WEFT_AT(uint64_t, row->sums), sum, piece->sum,
                    weft_k_term(index, after) - weft_k_term(index, before));
}

template <unsigned width, bool casts = false>
WEFT_DEVICE void weft_gather_slice(weft_seek *seek, const weft_k_gather *row, const weft_k_diff *tile,
                                   const weft_k_slice *slice, uint32_t place, uint32_t count)
{
    const weft_k_changes *changes = WEFT_AT(const weft_k_changes, row->changes);
    const weft_k_piece *pieces = WEFT_AT(const weft_k_piece, tile->pieces);
    const weft_quad *bits = WEFT_AT(const weft_quad, tile->bitmap) + slice->number * (WEFT_K_SLICE / 128);
    const weft_quad mine = bits[weft_thread()];
    const uint32_t first = weft_piece_at(pieces, tile->piece_count, slice->first);
    const uint32_t last = weft_piece_at(pieces, tile->piece_count, slice->first + slice->count - 1);
    weft_gather_sum sum = {0, pieces[first].sum};
    weft_seek_begin(seek, mine);
    for (uint32_t i = weft_thread(); i < count; i += WEFT_BLOCK) {
        const uint32_t thread = weft_seek_thread(seek, i);
        const uint32_t at = thread * 128 + weft_quad_one_at(bits[thread], i - seek->before[thread]);
        const uint32_t position = slice->first + at;
        const uint32_t piece = first + weft_piece_at(pieces + first, last - first + 1, position);
        weft_gather_one<width, casts>(row, changes, pieces + piece, place + i, position, &sum);
    }
    uint64_t *words = WEFT_AT(uint64_t, row->sums);
    if (pieces[first].sum == pieces[last].sum)
        weft_block_add64(words + sum.word, sum.sum);
    else if (sum.sum != 0)
        weft_add64(words + sum.word, sum.sum);
}

WEFT_KERNEL(gather)(const weft_k_gather *rows)
{
    WEFT_SHARED(weft_seek, seek);
    const weft_k_gather *row = rows + weft_block() / WEFT_K_SLICES;
    const weft_k_diff *tile = WEFT_AT(const weft_k_diff, row->tile);
    const weft_k_slice slice = weft_slice_of(tile);
    if (slice.count == 0)
        return;
    const uint32_t *counts = WEFT_AT(const uint32_t, tile->counts) + slice.number;
    const uint32_t place = counts[0], count = counts[1] - place;
    if (count == 0 || WEFT_AT(const weft_k_changes, row->changes)->count == 0) /* or the job has no lists this time */
        return;
    switch (tile->width) {
    case 1:
        weft_gather_slice<1>(&seek, row, tile, &slice, place, count);
        break;
    case 2:
        weft_gather_slice<2>(&seek, row, tile, &slice, place, count);
        break;
    case 4:
        weft_gather_slice<4>(&seek, row, tile, &slice, place, count);
        break;
    default:
        if (tile->width & WEFT_K_CAST)
            weft_gather_slice<2, true>(&seek, row, tile, &slice, place, count);
        else
            weft_gather_slice<8>(&seek, row, tile, &slice, place, count);
    }
}

#endif
