/* gpu_swap.h - rows of the jobs that put changes in place, take them back, or prove them. */
#ifndef WEFT_BACKENDS_GPU_SWAP_H
#define WEFT_BACKENDS_GPU_SWAP_H

#include "backends/gpu/gpu_sheet.h"

/* What such jobs have in common. */
typedef struct weft_gpu_swap {
    const weft_view *target;
    const weft_changes *changes;
} weft_gpu_swap;

/* Returns the blocks that a job takes; the bytes of a sheet for its rows, those of its parts too. */
uint32_t weft_gpu_swap_blocks(const weft_gpu_swap *swap);
uint64_t weft_gpu_swap_bytes(const weft_gpu_swap *swap);

/* Writes the row of a job, whose words lie at `mismatch` and `guard` on the device. Returns the row's address. */
uint64_t weft_gpu_swap_put(weft_gpu_sheet *sheet, const weft_gpu_swap *swap, uint64_t mismatch, uint64_t guard);

#endif
