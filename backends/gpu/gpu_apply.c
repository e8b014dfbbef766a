/* gpu_apply.c - changes put in place and taken back on the device. */
#include "backends/gpu/gpu_swap.h"

typedef struct swap_plan {
    weft_gpu_sheet rows, results; /* the results are in front of the rows, zero at first */
    uint32_t *mismatch;           /* one of each job */
} swap_plan;

static weft_gpu_need swap_need(const weft_gpu_swap *job)
{
    const uint64_t rows = weft_gpu_swap_bytes(job);
    return (weft_gpu_need){.device = rows, .pinned = rows};
}

/* Returns what a batch needs besides its jobs. */
static weft_gpu_need batch_need(void)
{
    const uint64_t results = WEFT_GPU_JOBS * sizeof(uint32_t) + WEFT_GPU_ALIGN;
    return (weft_gpu_need){.device = results, .pinned = results, .plain = sizeof(swap_plan) + WEFT_GPU_ALIGN};
}

static weft_gpu_swap apply_of(const void *job)
{
    const weft_apply_job *apply = job;
    return (weft_gpu_swap){&apply->target, apply->changes};
}

static weft_gpu_swap undo_of(const void *job)
{
    const weft_undo_job *undo = job;
    return (weft_gpu_swap){&undo->target, undo->changes};
}

/* Writes the rows of all jobs, then the rows of their parts; returns the number of parts. */
static uint32_t rows_put(weft_gpu_slab *slab, swap_plan *plan, weft_gpu_swap (*of)(const void *), uint64_t *parts)
{
    uint64_t address[WEFT_GPU_JOBS], mismatch;
    uint32_t blocks = 0;
    void *made;
    mismatch = weft_gpu_sheet_take(&plan->results, slab->count * sizeof(uint32_t), &made);
    plan->mismatch = made;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_gpu_swap job = of(slab->jobs[i]);
        address[i] = weft_gpu_swap_put(&plan->rows, &job, mismatch + i * sizeof(uint32_t), 0);
        blocks += weft_gpu_swap_blocks(&job);
    }
    *parts = weft_gpu_sheet_take(&plan->rows, blocks * sizeof(weft_k_part), &made);
    weft_k_part *row = made;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_gpu_swap job = of(slab->jobs[i]);
        row = weft_gpu_parts_put(row, address[i], weft_gpu_swap_blocks(&job), 0);
    }
    return blocks;
}

static weft_status swap_begin(weft_gpu *gpu, weft_gpu_slab *slab, weft_gpu_swap (*of)(const void *),
                              enum weft_gpu_kernel kernel)
{
    swap_plan *plan = weft_gpu_take_plain(slab, sizeof *plan);
    uint64_t rows = 0, parts;
    slab->plan = plan;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_gpu_swap job = of(slab->jobs[i]);
        rows += swap_need(&job).device;
    }
    const uint64_t results = weft_gpu_row_bytes(slab->count * sizeof(uint32_t));
    plan->rows = weft_gpu_sheet_open(slab, results + rows, true);
    plan->results = weft_gpu_sheet_part(&plan->rows, results);
    const uint32_t blocks = rows_put(slab, plan, of, &parts);
    weft_status status = weft_gpu_sheet_send(gpu, slab, &plan->rows);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, kernel, blocks, parts);
    if (status == WEFT_OK)
        status = weft_gpu_sheet_fetch(gpu, slab, &plan->results);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

/* ---- apply */

static weft_gpu_need apply_need(const weft_gpu *gpu, const void *job)
{
    (void)gpu;
    if (!job)
        return batch_need();
    const weft_gpu_swap swap = apply_of(job);
    return swap_need(&swap);
}

static void *apply_stream(weft_gpu *gpu, const void *from, bool *ordered)
{
    const weft_apply_job *job = from;
    return weft_gpu_order(gpu, &job->target, job->stream, ordered);
}

static weft_status apply_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    return swap_begin(gpu, slab, apply_of, WEFT_GPU_KERNEL_apply);
}

static weft_status apply_advance(weft_gpu *gpu, weft_gpu_slab *slab)
{
    (void)gpu;
    const swap_plan *plan = slab->plan;
    for (uint32_t i = 0; i < slab->count; i++)
        ((weft_apply_job *)slab->jobs[i])->mismatch = plan->mismatch[i] != 0;
    return WEFT_OK;
}

const weft_gpu_kind weft_gpu_apply = {.name = "apply",
                                      .writes = true,
                                      .urgent = true,
                                      .need = apply_need,
                                      .stream = apply_stream,
                                      .begin = apply_begin,
                                      .advance = apply_advance};

/* ---- undo */

static weft_gpu_need undo_need(const weft_gpu *gpu, const void *job)
{
    (void)gpu;
    if (!job)
        return batch_need();
    const weft_gpu_swap swap = undo_of(job);
    return swap_need(&swap);
}

static weft_status undo_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    return swap_begin(gpu, slab, undo_of, WEFT_GPU_KERNEL_undo);
}

static weft_status undo_advance(weft_gpu *gpu, weft_gpu_slab *slab)
{
    (void)gpu;
    (void)slab;
    return WEFT_OK;
}

/* Undo waits for the work that its apply waited for, and not for later work on the caller's stream, because a commit
 * that fails must be taken back. */
const weft_gpu_kind weft_gpu_undo = {.name = "undo",
                                     .writes = true,
                                     .takes_back = true,
                                     .urgent = true,
                                     .need = undo_need,
                                     .begin = undo_begin,
                                     .advance = undo_advance};
