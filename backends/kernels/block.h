/* block.h - what the threads of a block do together. All of it is collective: every thread of the block comes here, in
 * the same order. A struct that a function asks for lies in shared memory and is free again after it. */
#ifndef WEFT_BACKENDS_KERNELS_BLOCK_H
#define WEFT_BACKENDS_KERNELS_BLOCK_H

#define WEFT_WARPS (WEFT_BLOCK / WEFT_LANES)

/* Sum over the lanes, known to lane 0 (and to others as it comes). */
WEFT_DEVICE uint32_t weft_warp_sum(uint32_t value)
{
    for (uint32_t step = WEFT_LANES / 2; step > 0; step /= 2)
        value += weft_shuffle(value, (weft_lane() + step) % WEFT_LANES);
    return value;
}

WEFT_DEVICE uint64_t weft_warp_sum64(uint64_t value)
{
    for (uint32_t step = WEFT_LANES / 2; step > 0; step /= 2) {
        const uint32_t lane = (weft_lane() + step) % WEFT_LANES;
        const uint32_t low = weft_shuffle((uint32_t)value, lane), high = weft_shuffle((uint32_t)(value >> 32), lane);
        value += low | (uint64_t)high << 32;
    }
    return value;
}

#ifndef WEFT_OWN_PREFIX
/* Sum over this lane and those below it, of 32 that begin at a multiple of 32. */
WEFT_DEVICE uint32_t weft_prefix_32(uint32_t value)
{
    const uint32_t lane = weft_lane();
    for (uint32_t step = 1; step < 32; step *= 2) {
        const uint32_t below = weft_shuffle(value, (lane - step) % WEFT_LANES);
        value += lane % 32 >= step ? below : 0;
    }
    return value;
}

/* The same of all lanes of the warp. */
WEFT_DEVICE uint32_t weft_warp_prefix(uint32_t value)
{
    value = weft_prefix_32(value);
    if (WEFT_LANES == 32)
        return value;
    const uint32_t below = weft_shuffle(value, 31);
    return value + (weft_lane() < 32 ? 0 : below);
}
#endif

typedef struct weft_block_sums {
    uint32_t warp[WEFT_WARPS];
    uint32_t all;
} weft_block_sums;

/* Sum over the threads below this one; *all is that over the block. */
WEFT_DEVICE uint32_t weft_block_prefix(weft_block_sums *sums, uint32_t value, uint32_t *all)
{
    const uint32_t through = weft_warp_prefix(value), warp = weft_thread() / WEFT_LANES;
    if (weft_lane() == WEFT_LANES - 1)
        sums->warp[warp] = through;
    weft_barrier();
    uint32_t before = 0, total = 0;
    for (uint32_t w = 0; w < WEFT_WARPS; w++) {
        before += w < warp ? sums->warp[w] : 0;
        total += sums->warp[w];
    }
    weft_barrier();
    *all = total;
    return before + through - value;
}

/* Adds the values of all threads to *sum in device memory. */
WEFT_DEVICE void weft_block_add64(uint64_t *sum, uint64_t value)
{
    value = weft_warp_sum64(value);
    if (weft_lane() == 0 && value != 0)
        weft_add64(sum, value);
}

#endif
