/* pieces.h - where the elements of a job lie. */
#ifndef WEFT_BACKENDS_KERNELS_PIECES_H
#define WEFT_BACKENDS_KERNELS_PIECES_H

/* Number of the piece that has a position, which one of them has. */
WEFT_DEVICE uint32_t weft_piece_at(const weft_k_piece *pieces, uint32_t count, uint32_t position)
{
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (pieces[middle].position <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The elements of a tile that this block works on; none if `count` is 0. */
typedef struct weft_k_slice {
    uint32_t number; /* in the tile */
    uint32_t first;  /* element of the job */
    uint32_t count;
} weft_k_slice;

WEFT_DEVICE weft_k_slice weft_slice_of(const weft_k_diff *tile)
{
    const uint32_t number = weft_block() % WEFT_K_SLICES, begin = number * WEFT_K_SLICE;
    const uint32_t left = tile->count > begin ? tile->count - begin : 0;
    return {number, tile->first + begin, left < WEFT_K_SLICE ? left : WEFT_K_SLICE};
}

/* How the threads of a block share a slice: all of them a piece that is alone in it; several pieces go round the
 * warps. */
typedef struct weft_share {
    uint32_t piece, stride; /* the first piece, and how far it is to the next */
    uint32_t rank, ranks;   /* of this thread among those that share a piece */
} weft_share;

WEFT_DEVICE weft_share weft_share_of(const weft_k_diff *tile, const weft_k_slice *slice)
{
    const weft_k_piece *pieces = WEFT_AT(const weft_k_piece, tile->pieces);
    const uint32_t begin = weft_piece_at(pieces, tile->piece_count, slice->first);
    const bool alone = pieces[begin].position + pieces[begin].count - slice->first >= slice->count;
    const uint32_t ranks = alone ? WEFT_BLOCK : WEFT_LANES;
    return {begin + weft_thread() / ranks, WEFT_BLOCK / ranks, weft_thread() % ranks, ranks};
}

/* Elements of a piece, at or after the slice's first one, that lie in the slice. */
typedef struct weft_overlap {
    uint32_t at;    /* number of the first in the slice */
    uint32_t skip;  /* and in the piece */
    uint32_t count; /* 0 after the slice */
} weft_overlap;

WEFT_DEVICE weft_overlap weft_overlap_of(const weft_k_piece *piece, const weft_k_slice *slice)
{
    const uint32_t end = slice->first + slice->count;
    const uint32_t from = piece->position > slice->first ? piece->position : slice->first;
    if (from >= end)
        return {0, 0, 0};
    const uint32_t left = piece->position + piece->count - from;
    return {from - slice->first, from - piece->position, left < end - from ? left : end - from};
}

#endif
