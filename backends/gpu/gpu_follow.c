/* gpu_follow.c - the shadow follows a batch of encode jobs: it takes their new bits from the lists that gather left in
 * the slab. */
#include "backends/gpu/gpu_encode.h"

/* Launches once for each stretch of jobs between those that are not to follow. Jobs without changes count as either. */
static weft_status follow_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    const weft_gpu_batch *batch = slab->plan;
    const weft_gpu_chain *chain = &batch->chain;
    const uint32_t count = chain->list_row->count;
    uint64_t rows = chain->gathers;
    weft_status status = WEFT_OK;
    uint32_t tiles = 0;
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++) {
        const weft_gpu_encoding *encoding = &batch->encodings[i];
        if (encoding->follows || batch->totals[i] == 0) {
            tiles += encoding->pair.tile_count;
            continue;
        }
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_follow, tiles * WEFT_K_SLICES, rows);
        rows += (tiles + (uint64_t)encoding->pair.tile_count) * sizeof(weft_k_follow);
        tiles = 0;
    }
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_follow, tiles * WEFT_K_SLICES, rows);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

static weft_status follow_advance(weft_gpu *gpu, weft_gpu_slab *slab)
{
    (void)gpu;
    (void)slab;
    return WEFT_OK;
}

const weft_gpu_kind weft_gpu_follow = {
    .name = "follow", .writes = true, .begin = follow_begin, .advance = follow_advance};
