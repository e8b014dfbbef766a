/* gpu_digest.c - full digests on the device: a sum for each run of a view, which the host adds to its part's word. */
#include "backends/gpu/gpu_sheet.h"

typedef struct digest_plan {
    weft_gpu_sheet rows, sums; /* the sums are in front of the rows, zero at first */
    uint64_t first;            /* address of the first row */
    uint64_t *sum;             /* of each run of each job, those without elements too */
} digest_plan;

static uint32_t run_rows(const weft_run *run)
{
    return weft_gpu_parts(run->count, WEFT_K_DIGEST_ELEMENTS);
}

static uint32_t view_rows(const weft_view *view)
{
    uint32_t rows = 0;
    for (uint32_t r = 0; r < view->run_count; r++)
        rows += run_rows(&view->runs[r]);
    return rows;
}

static weft_gpu_need digest_need(const weft_gpu *gpu, const void *job)
{
    (void)gpu;
    if (!job)
        return (weft_gpu_need){
            .device = WEFT_GPU_ALIGN, .pinned = WEFT_GPU_ALIGN, .plain = sizeof(digest_plan) + WEFT_GPU_ALIGN};
    const weft_view *view = &((const weft_digest_job *)job)->view;
    const uint64_t bytes = weft_gpu_row_bytes(view_rows(view) * sizeof(weft_k_digest)) +
                           weft_gpu_row_bytes(view->run_count * sizeof(uint64_t));
    return (weft_gpu_need){.device = bytes, .pinned = bytes};
}

/* The caller of weft_bind may have written the weights by the default stream. */
static void *digest_stream(weft_gpu *gpu, const void *job, bool *ordered)
{
    return weft_gpu_order(gpu, &((const weft_digest_job *)job)->view, NULL, ordered);
}

static void sheets_open(weft_gpu_slab *slab, digest_plan *plan)
{
    uint64_t rows = 0, sums = 0;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_view *view = &((const weft_digest_job *)slab->jobs[i])->view;
        rows += view_rows(view) * sizeof(weft_k_digest);
        sums += view->run_count * sizeof(uint64_t);
    }
    rows = weft_gpu_row_bytes(rows);
    sums = weft_gpu_row_bytes(sums);
    plan->rows = weft_gpu_sheet_open(slab, sums + rows, true);
    plan->sums = weft_gpu_sheet_part(&plan->rows, sums);
}

static weft_k_digest *run_put(weft_k_digest *row, const weft_view *view, const weft_run *run, uint64_t sum)
{
    const weft_gpu_place place = weft_gpu_place_of(view, run);
    for (uint32_t at = 0; at < run->count; at += WEFT_K_DIGEST_ELEMENTS) {
        const uint32_t left = run->count - at;
        *row++ = (weft_k_digest){.data = place.data + (uint64_t)at * place.width,
                                 .element = run->element + at,
                                 .sum = sum,
                                 .count = left < WEFT_K_DIGEST_ELEMENTS ? left : WEFT_K_DIGEST_ELEMENTS,
                                 .width = place.cast ? WEFT_K_CAST + place.cast : view->width};
    }
    return row;
}

/* Returns how many rows there are. */
static uint32_t rows_put(weft_gpu_slab *slab, digest_plan *plan)
{
    void *rows, *sums;
    plan->first = weft_gpu_sheet_take(&plan->rows, plan->rows.bytes - plan->rows.used, &rows);
    uint64_t sum = weft_gpu_sheet_take(&plan->sums, plan->sums.bytes, &sums);
    weft_k_digest *row = rows;
    plan->sum = sums;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_view *view = &((const weft_digest_job *)slab->jobs[i])->view;
        for (uint32_t r = 0; r < view->run_count; r++, sum += sizeof(uint64_t))
            row = run_put(row, view, &view->runs[r], sum);
    }
    return (uint32_t)(row - (weft_k_digest *)rows);
}

static weft_status digest_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    digest_plan *plan = slab->plan = weft_gpu_take_plain(slab, sizeof *plan);
    sheets_open(slab, plan);
    const uint32_t blocks = rows_put(slab, plan);
    weft_status status = weft_gpu_sheet_send(gpu, slab, &plan->rows);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_digest, blocks, plan->first);
    if (status == WEFT_OK)
        status = weft_gpu_sheet_fetch(gpu, slab, &plan->sums);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

static weft_status digest_advance(weft_gpu *gpu, weft_gpu_slab *slab)
{
    (void)gpu;
    const uint64_t *sum = ((const digest_plan *)slab->plan)->sum;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_digest_job *job = slab->jobs[i];
        for (uint32_t r = 0; r < job->view.run_count; r++)
            job->tensor_delta[job->view.runs[r].part] += *sum++;
    }
    return WEFT_OK;
}

static weft_view *digest_view(void *job)
{
    return &((weft_digest_job *)job)->view;
}

const weft_gpu_kind weft_gpu_digest = {.name = "digest",
                                       .need = digest_need,
                                       .view = digest_view,
                                       .stream = digest_stream,
                                       .begin = digest_begin,
                                       .advance = digest_advance};
