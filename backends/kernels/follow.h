/* follow.h - the shadow takes the new bits of a batch, from the lists that gather made. */
#ifndef WEFT_BACKENDS_KERNELS_FOLLOW_H
#define WEFT_BACKENDS_KERNELS_FOLLOW_H

#include "backends/kernels/element.h"
#include "backends/kernels/pieces.h"

template <unsigned width>
WEFT_DEVICE void weft_follow_slice(const weft_k_changes *changes, const weft_k_diff *tile, const weft_k_slice *slice,
                                   uint32_t place, uint32_t count)
{
    const weft_k_piece *pieces = WEFT_AT(const weft_k_piece, tile->pieces);
    const uint32_t first = weft_piece_at(pieces, tile->piece_count, slice->first);
    const uint32_t most = weft_piece_at(pieces, tile->piece_count, slice->first + slice->count - 1) - first + 1;
    for (uint32_t i = place + weft_thread(); i < place + count; i += WEFT_BLOCK) {
        const uint32_t position = WEFT_AT(const uint32_t, changes->position)[i];
        const weft_k_piece *piece = pieces + first + weft_piece_at(pieces + first, most, position);
        weft_element_store<width>(piece->shadow, position - piece->position,
                                  weft_element_load<width>(changes->after, i));
    }
}

WEFT_KERNEL(follow)(const weft_k_follow *rows)
{
    const weft_k_follow *row = rows + weft_block() / WEFT_K_SLICES;
    const weft_k_changes *changes = WEFT_AT(const weft_k_changes, row->changes);
    const weft_k_diff *tile = WEFT_AT(const weft_k_diff, row->tile);
    const weft_k_slice slice = weft_slice_of(tile);
    if (slice.count == 0 || changes->count == 0)
        return;
    const uint32_t *counts = WEFT_AT(const uint32_t, tile->counts) + slice.number;
    const uint32_t place = counts[0], count = counts[1] - place;
    switch (changes->width) {
    case 1:
        weft_follow_slice<1>(changes, tile, &slice, place, count);
        break;
    case 2:
        weft_follow_slice<2>(changes, tile, &slice, place, count);
        break;
    case 4:
        weft_follow_slice<4>(changes, tile, &slice, place, count);
        break;
    default:
        weft_follow_slice<8>(changes, tile, &slice, place, count);
    }
}

#endif
