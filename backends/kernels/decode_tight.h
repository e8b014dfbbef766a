/* decode_tight.h - what the kernels of level tight have in common: the sets that lists say.
 *
 *   decode_classes        classes of each part's elements, and how many are of each
 *   decode_populations    one block a frame: sums of those counts; the lists must fit them
 *   decode_bounds         which members of the lists belong to which part
 *   decode_places         the part's members as bits, in order of class and rank; each sought among the elements
 *   decode_further, decode_lengths, decode_magnitudes      from changes to their bits */
#ifndef WEFT_BACKENDS_KERNELS_DECODE_TIGHT_H
#define WEFT_BACKENDS_KERNELS_DECODE_TIGHT_H

#include "backends/kernels/decode.h"

WEFT_DEVICE const weft_k_tight *weft_tight_of(const weft_k_decode *job)
{
    return WEFT_AT(const weft_k_tight, job->level);
}

template <unsigned width>
WEFT_DEVICE uint32_t weft_exponent(const weft_k_tight *tight, typename weft_bits_of<width>::type bits)
{
    return (uint32_t)(bits >> tight->shift) & tight->mask;
}

/* Whether a list is of ranks below `universe` only. */
WEFT_DEVICE bool weft_set_fits(const weft_k_set *set, uint32_t universe)
{
    return set->count == 0 || WEFT_AT(const uint32_t, set->ranks)[set->count - 1] < universe;
}

/* Members of the set among the first `universe`, of which `listed` are listed. */
WEFT_DEVICE uint32_t weft_set_size(const weft_k_set *set, uint32_t universe, uint32_t listed)
{
    return set->inverted ? universe - listed : listed;
}

/* Listed ranks below one. */
WEFT_DEVICE uint32_t weft_set_below(const weft_k_set *set, uint32_t rank)
{
    const uint32_t *ranks = WEFT_AT(const uint32_t, set->ranks);
    uint32_t low = 0, high = set->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
