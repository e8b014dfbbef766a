/* gpu_swap.c - rows of the jobs that put changes in place, take them back, or prove them. */
#include "backends/gpu/gpu_swap.h"

#include "backends/gpu/gpu_boxes.h"

uint32_t weft_gpu_swap_blocks(const weft_gpu_swap *swap)
{
    return weft_gpu_parts(swap->changes->count, WEFT_K_SWAPS);
}

uint64_t weft_gpu_swap_bytes(const weft_gpu_swap *swap)
{
    return weft_gpu_row_bytes(sizeof(weft_k_swap)) + weft_gpu_boxed_view_bytes(swap->target) +
           sizeof(weft_k_part) * (uint64_t)weft_gpu_swap_blocks(swap);
}

uint64_t weft_gpu_swap_put(weft_gpu_sheet *sheet, const weft_gpu_swap *swap, uint64_t mismatch, uint64_t guard)
{
    const weft_changes *changes = swap->changes;
    void *made;
    bool boxed;
    const uint64_t address = weft_gpu_sheet_take(sheet, sizeof(weft_k_swap), &made);
    const weft_k_view view = weft_gpu_boxed_view_put(sheet, swap->target, &boxed);
    *(weft_k_swap *)made = (weft_k_swap){.view = view,
                                         .position = (uintptr_t)changes->position,
                                         .before = (uintptr_t)changes->before,
                                         .after = (uintptr_t)changes->after,
                                         .mismatch = mismatch,
                                         .guard = guard,
                                         .count = changes->count,
                                         .boxed = boxed};
    return address;
}
