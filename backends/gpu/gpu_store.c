/* gpu_store.c - copies dense bytes out of views and into views. Bytes in host memory pass through the slab. Memory of
 * kind DEVICE is reached directly. */
#include <string.h>

#include "backends/gpu/gpu_sheet.h"

/* The part that load and store jobs have in common. */
typedef struct copy_job {
    const weft_view *view;
    const uint8_t *bytes;
} copy_job;

typedef struct copy_plan {
    weft_gpu_sheet rows, dense;
    uint8_t *passing[WEFT_GPU_JOBS]; /* a job's bytes in pinned memory; NULL: they lie on the device */
} copy_plan;

static uint64_t dense_bytes(const weft_view *view)
{
    return (uint64_t)view->count * view->width;
}

static weft_gpu_need copy_need(const copy_job *job)
{
    const uint64_t rows = weft_gpu_copy_bytes(job->view) +
                          sizeof(weft_k_part) * (uint64_t)weft_gpu_parts(job->view->count, WEFT_K_ELEMENTS);
    const uint64_t bytes = rows + weft_gpu_row_bytes(dense_bytes(job->view));
    return (weft_gpu_need){.device = bytes, .pinned = bytes};
}

static weft_gpu_need batch_need(void)
{
    return (weft_gpu_need){
        .device = 2 * WEFT_GPU_ALIGN, .pinned = 2 * WEFT_GPU_ALIGN, .plain = sizeof(copy_plan) + WEFT_GPU_ALIGN};
}

static copy_job load_of(const void *job)
{
    const weft_load_job *load = job;
    return (copy_job){&load->view, load->bytes};
}

static copy_job store_of(const void *job)
{
    const weft_store_job *store = job;
    return (copy_job){&store->view, store->bytes};
}

static void sheets_open(weft_gpu_slab *slab, copy_plan *plan, copy_job (*of)(const void *))
{
    uint64_t rows = 0, dense = 0;
    for (uint32_t i = 0; i < slab->count; i++) {
        const copy_job job = of(slab->jobs[i]);
        const uint64_t bytes = weft_gpu_row_bytes(dense_bytes(job.view));
        rows += copy_need(&job).device - bytes;
        dense += bytes;
    }
    plan->rows = weft_gpu_sheet_open(slab, rows, true);
    plan->dense = weft_gpu_sheet_open(slab, dense, true);
}

/* Writes the rows of all jobs, then the rows of their parts; returns the number of parts. */
static uint32_t rows_put(const weft_gpu *gpu, weft_gpu_slab *slab, copy_plan *plan, copy_job (*of)(const void *),
                         uint64_t *parts)
{
    uint64_t address[WEFT_GPU_JOBS];
    uint32_t blocks = 0;
    char why[192];
    void *made;
    for (uint32_t i = 0; i < slab->count; i++) {
        const copy_job job = of(slab->jobs[i]);
        const uint64_t bytes = dense_bytes(job.view);
        uint64_t at = (uintptr_t)job.bytes;
        plan->passing[i] = NULL;
        if (at % job.view->width != 0 || gpu->driver->reaches(gpu->device, at, bytes, why, sizeof why)) {
            at = weft_gpu_sheet_take(&plan->dense, bytes, &made);
            plan->passing[i] = made;
        }
        address[i] = weft_gpu_copy_put(&plan->rows, job.view, at);
        blocks += weft_gpu_parts(job.view->count, WEFT_K_ELEMENTS);
    }
    *parts = weft_gpu_sheet_take(&plan->rows, blocks * sizeof(weft_k_part), &made);
    weft_k_part *row = made;
    for (uint32_t i = 0; i < slab->count; i++)
        row = weft_gpu_parts_put(row, address[i], weft_gpu_parts(of(slab->jobs[i]).view->count, WEFT_K_ELEMENTS), 0);
    return blocks;
}

static copy_plan *plan_make(const weft_gpu *gpu, weft_gpu_slab *slab, copy_job (*of)(const void *), uint32_t *blocks,
                            uint64_t *parts)
{
    copy_plan *plan = weft_gpu_take_plain(slab, sizeof *plan);
    slab->plan = plan;
    sheets_open(slab, plan, of);
    *blocks = rows_put(gpu, slab, plan, of, parts);
    return plan;
}

/* ---- load */

static weft_gpu_need load_need(const weft_gpu *gpu, const void *job)
{
    (void)gpu;
    if (!job)
        return batch_need();
    const copy_job copy = load_of(job);
    return copy_need(&copy);
}

static void *load_stream(weft_gpu *gpu, const void *from, bool *ordered)
{
    const weft_load_job *job = from;
    return weft_gpu_order(gpu, &job->view, job->stream, ordered);
}

static weft_status load_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    uint32_t blocks;
    uint64_t parts;
    const copy_plan *plan = plan_make(gpu, slab, load_of, &blocks, &parts);
    weft_status status = weft_gpu_sheet_send(gpu, slab, &plan->rows);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_load, blocks, parts);
    if (status == WEFT_OK)
        status = weft_gpu_sheet_fetch(gpu, slab, &plan->dense);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

static weft_status load_advance(weft_gpu *gpu, weft_gpu_slab *slab)
{
    (void)gpu;
    const copy_plan *plan = slab->plan;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_load_job *job = slab->jobs[i];
        if (plan->passing[i])
            memcpy(job->bytes, plan->passing[i], dense_bytes(&job->view));
    }
    return WEFT_OK;
}

static weft_view *load_view(void *job)
{
    return &((weft_load_job *)job)->view;
}

const weft_gpu_kind weft_gpu_load = {.name = "load",
                                     .need = load_need,
                                     .view = load_view,
                                     .stream = load_stream,
                                     .begin = load_begin,
                                     .advance = load_advance};

/* ---- store */

static weft_gpu_need store_need(const weft_gpu *gpu, const void *job)
{
    (void)gpu;
    if (!job)
        return batch_need();
    const copy_job copy = store_of(job);
    return copy_need(&copy);
}

static void *store_stream(weft_gpu *gpu, const void *from, bool *ordered)
{
    const weft_store_job *job = from;
    return weft_gpu_order(gpu, &job->view, job->stream, ordered);
}

static weft_status store_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    uint32_t blocks;
    uint64_t parts;
    const copy_plan *plan = plan_make(gpu, slab, store_of, &blocks, &parts);
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_store_job *job = slab->jobs[i];
        if (plan->passing[i])
            memcpy(plan->passing[i], job->bytes, dense_bytes(&job->view));
    }
    weft_status status = weft_gpu_sheet_send(gpu, slab, &plan->rows);
    if (status == WEFT_OK)
        status = weft_gpu_sheet_send(gpu, slab, &plan->dense);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_store, blocks, parts);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

static weft_status store_advance(weft_gpu *gpu, weft_gpu_slab *slab)
{
    (void)gpu;
    (void)slab;
    return WEFT_OK;
}

static weft_view *store_view(void *job)
{
    return &((weft_store_job *)job)->view;
}

const weft_gpu_kind weft_gpu_store = {.name = "store",
                                      .writes = true,
                                      .need = store_need,
                                      .view = store_view,
                                      .stream = store_stream,
                                      .begin = store_begin,
                                      .advance = store_advance};
