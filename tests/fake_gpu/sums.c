/* sums.c - see sums.h. */
#include "tests/fake_gpu/sums.h"

#include <string.h>

#include "backends/kernels/rows.h"
#include "base/status.h"
#include "layout/digest.h"

typedef struct sums_plan {
    weft_k_digest *rows;
    uint64_t *sums;
    uint64_t rows_there, sums_there;
} sums_plan;

static weft_gpu_need sums_need(const weft_gpu *gpu, const void *job)
{
    (void)gpu;
    const uint64_t bytes = WEFT_GPU_JOBS * (sizeof(weft_k_digest) + sizeof(uint64_t)) + 2ull * WEFT_GPU_ALIGN;
    if (job)
        return (weft_gpu_need){.device = ((const sums_job *)job)->device};
    return (weft_gpu_need){.device = bytes, .pinned = bytes, .plain = sizeof(sums_plan) + WEFT_GPU_ALIGN};
}

static void *sums_stream(weft_gpu *gpu, const void *job, bool *ordered)
{
    (void)gpu;
    const sums_job *sums = job;
    *ordered = sums->ordered;
    return sums->stream;
}

static bool sums_behind(const void *job)
{
    return ((const sums_job *)job)->behind;
}

static void rows_write(weft_gpu_slab *slab, sums_plan *plan)
{
    for (uint32_t i = 0; i < slab->count; i++) {
        const sums_job *job = slab->jobs[i];
        plan->rows[i] = (weft_k_digest){.data = job->data,
                                        .sum = plan->sums_there + i * sizeof(uint64_t),
                                        .count = job->count,
                                        .width = sizeof(uint32_t)};
    }
}

static weft_status sums_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    const uint64_t rows = slab->count * sizeof(weft_k_digest), words = slab->count * sizeof(uint64_t);
    sums_plan *plan = slab->plan = weft_gpu_take_plain(slab, sizeof *plan);
    plan->rows = weft_gpu_take_pinned(slab, rows, NULL);
    plan->sums = weft_gpu_take_pinned(slab, words, NULL);
    plan->rows_there = weft_gpu_take_device(slab, rows);
    plan->sums_there = weft_gpu_take_device(slab, words);
    rows_write(slab, plan);
    weft_status status = weft_gpu_clear(gpu, slab, plan->sums_there, words);
    if (status == WEFT_OK)
        status = weft_gpu_copy(gpu, slab, plan->rows_there, (uintptr_t)plan->rows, rows);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

/* The results read here show whether advance comes too early. */
static void sums_give(weft_gpu_slab *slab, const sums_plan *plan)
{
    for (uint32_t i = 0; i < slab->count; i++) {
        sums_job *job = slab->jobs[i];
        if (job->wrong)
            weft_gpu_job_fail(slab, i, weft_fail_quiet(WEFT_E_CORRUPT, "job %u is wrong", i));
        else
            job->sum += plan->sums[i];
    }
}

static weft_status sums_advance(weft_gpu *gpu, weft_gpu_slab *slab)
{
    const sums_plan *plan = slab->plan;
    weft_status status = WEFT_OK;
    switch (slab->step++) {
    case 0:
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_digest, slab->count, plan->rows_there);
        break;
    case 1:
        status = weft_gpu_copy(gpu, slab, (uintptr_t)plan->sums, plan->sums_there, slab->count * sizeof(uint64_t));
        break;
    default:
        sums_give(slab, plan);
        return WEFT_OK;
    }
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

const weft_gpu_kind sums_kind = {.name = "sums",
                                 .need = sums_need,
                                 .stream = sums_stream,
                                 .behind = sums_behind,
                                 .begin = sums_begin,
                                 .advance = sums_advance};
const weft_gpu_kind sums_other_kind = {
    .name = "other sums", .need = sums_need, .stream = sums_stream, .begin = sums_begin, .advance = sums_advance};

const weft_gpu_kind sums_writing_kind = {.name = "writing sums",
                                         .writes = true,
                                         .urgent = true,
                                         .need = sums_need,
                                         .stream = sums_stream,
                                         .begin = sums_begin,
                                         .advance = sums_advance};

static weft_status sums_rest(weft_gpu *gpu, weft_gpu_slab *slab)
{
    (void)gpu;
    (void)slab;
    return WEFT_OK;
}

const weft_gpu_kind sums_idle_kind = {
    .name = "idle", .need = sums_need, .stream = sums_stream, .begin = sums_rest, .advance = sums_rest};

uint64_t sums_expected(const uint32_t *elements, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += weft_digest_term(i, elements[i]);
    return sum;
}
