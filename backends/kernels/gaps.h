/* gaps.h - lists of rising numbers into Rice-coded gaps. */
#ifndef WEFT_BACKENDS_KERNELS_GAPS_H
#define WEFT_BACKENDS_KERNELS_GAPS_H

#include "backends/kernels/block.h"
#include "backends/kernels/steps.h"

/* Sets the ones that a list's gaps have in two planes that are all zero: `k` low bits of each, with the direction of
 * the change below them if `directed`, when the members are the changes' positions; and in unary what is above those.
 * Returns the bits of that plane. Collective. */
template <bool directed>
WEFT_DEVICE uint32_t weft_k_gaps_put(weft_block_sums *sums, const weft_k_changes *changes, const uint32_t *members,
                                     uint32_t count, uint32_t k, uint64_t payload, uint64_t lows_at, uint64_t unary_at)
{
    uint32_t used = 0;
    for (uint32_t first = 0; first < count; first += WEFT_BLOCK) {
        const uint32_t i = first + weft_thread();
        const bool there = i < count;
        const uint32_t gap = there ? weft_k_gap(members, i) : 0, one = there ? (gap >> k) + 1 : 0;
        uint32_t all;
        const uint32_t before = weft_block_prefix(sums, one, &all);
        if (there) {
            const uint32_t low = gap & ((1u << k) - 1);
            const uint32_t field = directed ? low << 1 | weft_k_steps_any(changes, i).down : low;
            weft_k_put(payload, lows_at + (uint64_t)i * (k + directed), field);
            weft_k_put(payload, unary_at + used + before + one - 1, 1);
        }
        used += all;
    }
    return used;
}

#endif
