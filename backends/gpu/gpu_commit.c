/* gpu_commit.c - a commit that is queued on the caller's stream: rows of all its lists in one slab, a launch that
 * proves them, one that puts them in place or does nothing, and a mark.
 *
 * The launches are in order of the stream, so the second reads the word that the first has set if a weight was not what
 * its list has. Until the mark is reached the slab is nobody's. */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu_slab.h"
#include "backends/gpu/gpu_swap.h"
#include "backends/gpu/gpu_wait.h"
#include "base/log.h"
#include "base/status.h"

/* What is put on the stream, in this order. From `PUT` on weights may be written. */
typedef enum commit_step { STEP_SEND, STEP_PROVE, STEP_PUT, STEP_FETCH, STEP_MARK, STEP_ASK } commit_step;

typedef struct commit_plan {
    weft_gpu_sheet rows, results; /* the results are in front of the rows, zero at first */
    uint32_t *words;              /* the guard, and the mismatch of each list */
    uint64_t parts;               /* address of their rows */
    uint32_t blocks;
} commit_plan;

typedef struct commit_size {
    uint64_t results, rows, blocks;
} commit_size;

static commit_size size_of(const weft_queued_commit *commit)
{
    commit_size size = {.results = weft_gpu_row_bytes((commit->count + 1) * sizeof(uint32_t))};
    for (uint64_t i = 0; i < commit->count; i++) {
        weft_apply_job job;
        commit->fill(commit->user, i, &job);
        const weft_gpu_swap swap = {&job.target, job.changes};
        size.rows += weft_gpu_swap_bytes(&swap);
        size.blocks += weft_gpu_swap_blocks(&swap);
    }
    return size;
}

/* A sheet begins on WEFT_GPU_ALIGN, and so may the plan. */
static bool size_fits(const weft_gpu_slab *slab, const commit_size *size)
{
    const uint64_t bytes = size->results + size->rows + 2 * WEFT_GPU_ALIGN;
    return bytes <= slab->device.bytes && bytes <= slab->pinned.bytes && size->blocks < UINT32_MAX;
}

static void rows_put(commit_plan *plan, const weft_queued_commit *commit, const commit_size *size)
{
    void *made;
    const uint64_t words = weft_gpu_sheet_take(&plan->results, (commit->count + 1) * sizeof(uint32_t), &made);
    plan->words = made;
    plan->parts = weft_gpu_sheet_take(&plan->rows, size->blocks * sizeof(weft_k_part), &made);
    plan->blocks = (uint32_t)size->blocks;
    weft_k_part *part = made;
    for (uint64_t i = 0; i < commit->count; i++) {
        weft_apply_job job;
        commit->fill(commit->user, i, &job);
        const weft_gpu_swap swap = {&job.target, job.changes};
        const uint64_t row = weft_gpu_swap_put(&plan->rows, &swap, words + (i + 1) * sizeof(uint32_t), words);
        part = weft_gpu_parts_put(part, row, weft_gpu_swap_blocks(&swap), 0);
    }
}

static void plan_make(weft_gpu_slab *slab, const weft_queued_commit *commit, const commit_size *size)
{
    commit_plan *plan = weft_gpu_take_plain(slab, sizeof *plan);
    *plan = (commit_plan){.rows = weft_gpu_sheet_open(slab, size->results + size->rows, true)};
    plan->results = weft_gpu_sheet_part(&plan->rows, size->results);
    rows_put(plan, commit, size);
    slab->plan = plan;
    slab->stream = slab->caller = commit->stream;
    slab->step = STEP_SEND;
}

/* ---- on the stream */

static weft_status step_put(weft_gpu *gpu, weft_gpu_slab *slab)
{
    const commit_plan *plan = slab->plan;
    switch (slab->step) {
    case STEP_SEND:
        return weft_gpu_sheet_send(gpu, slab, &plan->rows);
    case STEP_PROVE:
        return weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_prove, plan->blocks, plan->parts);
    case STEP_PUT:
        return weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_apply, plan->blocks, plan->parts);
    case STEP_FETCH:
        return weft_gpu_sheet_fetch(gpu, slab, &plan->results);
    default:
        return gpu->driver->mark_caller(gpu->device, slab->caller, slab->mark);
    }
}

/* Returns true if a step that failed is to be taken again. Weights may be written from the step after PUT on, so that
 * only the device's loss ends the commit then: not a stream that is captured meanwhile, and no lack of memory. */
static bool step_waits(const weft_gpu_slab *slab, weft_status status)
{
    return status == WEFT_AGAIN || status == WEFT_E_STATE || (slab->step > STEP_PUT && status != WEFT_E_DEVICE);
}

/* Puts what is left on the stream. WEFT_AGAIN: not now, because a graph is being captured beside it. */
static weft_status steps_put(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_status status = gpu->driver->mark_caller(gpu->device, slab->caller, slab->fence);
    while (status == WEFT_OK && slab->step < STEP_ASK) {
        status = step_put(gpu, slab);
        slab->step += status == WEFT_OK;
    }
    return status != WEFT_OK && step_waits(slab, status) ? WEFT_AGAIN : status;
}

/* Asks whether the device has done what is on the stream. What may have written weights is waited for, and is not given
 * up before the device is. */
static weft_status steps_ask(weft_gpu *gpu, weft_gpu_slab *slab)
{
    bool late = weft_gpu_wait_ends(&slab->wait, gpu->hang_ns);
    weft_log_sink *before = weft_log_quiet(); /* a step may fail a thousand times in a second */
    weft_status status = slab->step < STEP_ASK ? steps_put(gpu, slab) : WEFT_OK;
    weft_log_enter(before);
    if (status == WEFT_OK)
        status = weft_gpu_slab_ask(gpu, slab, gpu->hang_ns, &late);
    return status == WEFT_AGAIN && late ? weft_gpu_hang(gpu, gpu->hang_ns) : status;
}

/* Waits for what is on the stream already, because the proof reads the slab, and puts nothing but a mark there. */
static weft_status steps_end(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_status status;
    slab->step = STEP_MARK;
    weft_gpu_wait_begin(&slab->wait);
    for (uint64_t asked = weft_gpu_now_ns(); (status = steps_ask(gpu, slab)) == WEFT_AGAIN; asked = weft_gpu_now_ns())
        weft_gpu_wait_after(asked);
    return status;
}

/* Ends a commit of which nothing is in the weights. */
static weft_status commit_drop(weft_gpu *gpu, weft_gpu_slab *slab, weft_status status)
{
    char why[256];
    snprintf(why, sizeof why, "%s", weft_last_error());
    weft_gpu_noted(gpu, status);
    if (slab->step > STEP_SEND && !atomic_load(&gpu->lost) && weft_gpu_noted(gpu, steps_end(gpu, slab)) != WEFT_OK)
        status = WEFT_E_DEVICE;
    else
        weft_fail_quiet(status, "%s", why);
    weft_gpu_slab_stage(gpu, slab, WEFT_GPU_FREE);
    return status;
}

/* Before the launch that writes, a commit may still be given up. */
static weft_status commit_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_status status;
    weft_gpu_wait_begin(&slab->wait);
    while ((status = steps_put(gpu, slab)) == WEFT_AGAIN && slab->step <= STEP_PUT) {
        if (weft_gpu_wait_ends(&slab->wait, gpu->patience_ns))
            return commit_drop(gpu, slab, weft_gpu_late_fail(gpu, "nothing was done"));
        weft_gpu_wait_after(weft_gpu_now_ns());
    }
    if (status != WEFT_OK && status != WEFT_AGAIN)
        return commit_drop(gpu, slab, status);
    weft_gpu_wait_begin(&slab->wait);
    weft_gpu_slab_stage(gpu, slab, WEFT_GPU_QUEUED);
    return WEFT_OK;
}

weft_status weft_gpu_commit_queue(weft_gpu *gpu, weft_queued_commit *commit)
{
    weft_gpu_slab *slab;
    const commit_size size = size_of(commit);
    if (atomic_load(&gpu->lost))
        return weft_gpu_lost_fail(gpu);
    if (!size_fits(&gpu->slabs[0], &size))
        return weft_fail_quiet(WEFT_E_BUDGET, "%s: the rows of %llu lists take %.1f MB of device memory, and of pinned",
                               gpu->driver->name, (unsigned long long)commit->count,
                               (double)(size.results + size.rows) / 1e6);
    weft_status status = weft_gpu_rest(gpu);
    if (status == WEFT_OK)
        status = weft_gpu_slab_wait(gpu, &slab);
    if (status != WEFT_OK)
        return status;
    weft_gpu_slab_begin(slab);
    plan_make(slab, commit, &size);
    commit->place = (uint32_t)(slab - gpu->slabs);
    gpu->driver->hold(gpu->device);
    status = commit_begin(gpu, slab);
    gpu->driver->release(gpu->device);
    return status;
}

/* ---- after that */

static void results_read(const commit_plan *plan, weft_queued_commit *commit)
{
    commit->written = plan->words[0] == 0;
    commit->altered = UINT64_MAX;
    for (uint64_t i = commit->count; i-- > 0;)
        if (plan->words[i + 1])
            commit->altered = i;
}

weft_status weft_gpu_commit_ask(weft_gpu *gpu, weft_queued_commit *commit)
{
    weft_gpu_slab *slab = &gpu->slabs[commit->place];
    const uint64_t asked = weft_gpu_now_ns();
    gpu->driver->hold(gpu->device);
    const weft_status status = atomic_load(&gpu->lost) ? weft_gpu_lost_fail(gpu) : steps_ask(gpu, slab);
    gpu->driver->release(gpu->device);
    if (status == WEFT_AGAIN) {
        weft_gpu_wait_after(asked);
        return status;
    }
    if (status == WEFT_OK)
        results_read(slab->plan, commit);
    weft_gpu_noted(gpu, status);
    weft_gpu_slab_stage(gpu, slab, WEFT_GPU_FREE);
    return status;
}
