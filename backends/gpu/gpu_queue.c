/* gpu_queue.c - the queue: takes jobs, collects them, sends them to the device, and returns their results. */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu_boxes.h"
#include "backends/gpu/gpu_slab.h"
#include "backends/gpu/gpu_wait.h"
#include "base/status.h"

static void jobs_fail(weft_gpu_slab *slab, weft_status status)
{
    for (uint32_t i = 0; i < slab->count; i++) {
        if (slab->status[i] == WEFT_OK)
            weft_gpu_job_fail(slab, i, status);
    }
}

/* Work on the stream may still write to the jobs' memory, so it must end first. */
static void slab_fail(weft_gpu *gpu, weft_gpu_slab *slab, weft_status status)
{
    /* Nobody knows the bits of a shadow that did not follow, and no job is there to fail. */
    weft_gpu_noted(gpu, slab->kind == &weft_gpu_follow ? WEFT_E_DEVICE : status);
    jobs_fail(slab, status);
    if (slab->stage == WEFT_GPU_RUNNING && !atomic_load(&gpu->hung))
        weft_gpu_quiet(gpu, slab);
    weft_gpu_slab_end(gpu, slab, WEFT_GPU_FREE);
}

/* Gives up the jobs of a slab, whose work goes on. No later batch begins before that work has ended, so nothing of it
 * meets what later jobs do with the same lists. */
static void slab_give_up(weft_gpu *gpu, weft_gpu_slab *slab)
{
    jobs_fail(slab, weft_gpu_late_fail(gpu, "the job is given up"));
    weft_gpu_slab_end(gpu, slab, WEFT_GPU_LATE);
}

/* Handles the status of begin or advance. */
static void slab_settle(weft_gpu *gpu, weft_gpu_slab *slab, weft_status status)
{
    weft_gpu_wait_begin(&slab->wait);
    if (status == WEFT_AGAIN) {
        status = gpu->driver->mark(gpu->device, slab->stream, slab->mark);
        if (status == WEFT_OK)
            return;
    }
    if (status == WEFT_OK)
        weft_gpu_slab_end(gpu, slab, slab->lent > 0 ? WEFT_GPU_LENT : WEFT_GPU_FREE);
    else
        slab_fail(gpu, slab, status);
}

/* Kinds that write put all their work on the stream at once. */
static void slab_run(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_gpu_slab_stage(gpu, slab, WEFT_GPU_RUNNING);
    weft_status status = weft_gpu_boxes_begin(gpu, slab);
    if (status == WEFT_OK)
        status = slab->kind->begin(gpu, slab);
    if (status == WEFT_AGAIN && slab->kind->writes) {
        status = weft_gpu_boxes_return(gpu, slab);
        status = status == WEFT_OK ? WEFT_AGAIN : status;
    }
    slab_settle(gpu, slab, status);
}

/* Asks whether the device has done the work that was on the caller's stream when the batch was put together. The host
 * waits for that, and not the slab's stream. Otherwise a batch that was given up would still run when the caller's
 * stream moves on. */
static weft_status fence_ask(weft_gpu *gpu, weft_gpu_slab *slab)
{
    const bool late = weft_gpu_wait_ends(&slab->wait, gpu->caller_ns);
    weft_status status = WEFT_OK;
    if (!slab->fenced)
        status = gpu->driver->mark_caller(gpu->device, slab->caller, slab->fence);
    slab->fenced = slab->fenced || status == WEFT_OK;
    if (status == WEFT_OK)
        status = gpu->driver->reached(gpu->device, slab->fence);
    if (status == WEFT_E_STATE)
        status = WEFT_AGAIN;
    if (status != WEFT_AGAIN || !late)
        return status;
    return weft_fail(WEFT_E_TIMEOUT,
                     "%s device %d: earlier work on the caller's stream did not end in %.0f s; nothing was done",
                     gpu->driver->name, gpu->driver->number(gpu->device), (double)gpu->caller_ns / 1e9);
}

/* Asks whether the device comes to a mark on the slab's stream, behind earlier batches there. A device with few queues
 * does not while a collective waits in front. A batch that is given up here has done nothing and will do nothing. */
static weft_status way_ask(weft_gpu *gpu, weft_gpu_slab *slab)
{
    const uint64_t most_ns = slab->kind->takes_back ? gpu->hang_ns : gpu->patience_ns;
    weft_status status = WEFT_OK;
    bool late = false;
    if (!slab->marked) {
        status = gpu->driver->mark(gpu->device, slab->stream, slab->mark);
        weft_gpu_wait_begin(&slab->wait);
    }
    slab->marked = slab->marked || status == WEFT_OK;
    if (status == WEFT_OK)
        status = weft_gpu_slab_ask(gpu, slab, most_ns, &late);
    if (status == WEFT_OK && !weft_gpu_nothing_is_late(gpu)) {
        late = weft_gpu_wait_ends(&slab->wait, most_ns);
        status = WEFT_AGAIN;
    }
    if (!late)
        return status;
    return slab->kind->takes_back ? weft_gpu_hang(gpu, most_ns) : weft_gpu_late_fail(gpu, "nothing was done");
}

/* True if the slab moved on. */
static bool order_step(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_status status = slab->ordered ? fence_ask(gpu, slab) : WEFT_OK;
    if (status == WEFT_OK) {
        slab->ordered = false;
        status = slab->behind && weft_gpu_nothing_is_late(gpu) ? WEFT_OK : way_ask(gpu, slab);
    }
    if (status == WEFT_AGAIN)
        return false;
    if (status == WEFT_OK)
        slab_run(gpu, slab);
    else
        slab_fail(gpu, slab, status);
    return true;
}

static void slab_launch(weft_gpu *gpu, weft_gpu_slab *slab)
{
    gpu->driver->hold(gpu->device);
    weft_gpu_slab_stage(gpu, slab, WEFT_GPU_ORDERED);
    weft_gpu_wait_begin(&slab->wait);
    slab->fenced = slab->marked = false;
    if (atomic_load(&gpu->lost))
        slab_fail(gpu, slab, weft_gpu_lost_fail(gpu));
    else
        order_step(gpu, slab);
    gpu->driver->release(gpu->device);
}

/* True if the slab moved on. */
static bool slab_step(weft_gpu *gpu, weft_gpu_slab *slab)
{
    const bool writes = slab->kind->writes;
    bool late;
    if (slab->stage == WEFT_GPU_ORDERED)
        return order_step(gpu, slab);
    weft_status status = weft_gpu_slab_ask(gpu, slab, writes ? gpu->hang_ns : gpu->patience_ns, &late);
    if (late && writes)
        status = weft_gpu_hang(gpu, gpu->hang_ns);
    else if (late)
        slab_give_up(gpu, slab);
    if (status == WEFT_AGAIN)
        return late;
    slab_settle(gpu, slab, status == WEFT_OK ? slab->kind->advance(gpu, slab) : status);
    return true;
}

static bool slabs_step(weft_gpu *gpu)
{
    bool moved = false;
    uint32_t index = 0;
    weft_gpu_slab *slab = weft_gpu_slab_under_way(gpu, &index);
    if (!slab)
        return false;
    gpu->driver->hold(gpu->device);
    for (; slab; slab = weft_gpu_slab_under_way(gpu, &index))
        moved |= slab_step(gpu, slab);
    gpu->driver->release(gpu->device);
    return moved;
}

/* ---- the shadow follows */

void weft_gpu_slab_follow(weft_gpu *gpu, weft_gpu_slab *slab)
{
    if (slab->follows == 0) {
        weft_gpu_slab_stage(gpu, slab, WEFT_GPU_FREE);
        return;
    }
    slab->kind = &weft_gpu_follow;
    slab->count = slab->follows = 0; /* because the jobs have their results, and are the caller's again */
    gpu->driver->hold(gpu->device);
    weft_gpu_slab_stage(gpu, slab, WEFT_GPU_RUNNING);
    slab_settle(gpu, slab, atomic_load(&gpu->lost) ? weft_gpu_lost_fail(gpu) : slab->kind->begin(gpu, slab));
    gpu->driver->release(gpu->device);
}

static weft_gpu_slab *slab_follows(weft_gpu *gpu, uint32_t *index)
{
    weft_gpu_slab *slab = weft_gpu_slab_under_way(gpu, index);
    while (slab && slab->kind != &weft_gpu_follow)
        slab = weft_gpu_slab_under_way(gpu, index);
    return slab;
}

/* Takes a step of each slab of the thread that follows. True if there is such a slab. */
static bool follows_step(weft_gpu *gpu)
{
    uint32_t index = 0;
    weft_gpu_slab *slab = slab_follows(gpu, &index);
    if (!slab)
        return false;
    gpu->driver->hold(gpu->device);
    for (; slab; slab = slab_follows(gpu, &index))
        slab_step(gpu, slab);
    gpu->driver->release(gpu->device);
    return true;
}

weft_status weft_gpu_followed(weft_gpu *gpu)
{
    for (uint64_t asked_ns = weft_gpu_now_ns(); follows_step(gpu); asked_ns = weft_gpu_now_ns())
        weft_gpu_wait_after(asked_ns);
    return atomic_load(&gpu->lost) ? weft_gpu_lost_fail(gpu) : WEFT_OK;
}

/* ---- taking jobs */

/* A slab takes another job only if there is also room for all that its jobs may take later. An empty slab takes any
 * job, because one job always has room for its lists. */
static bool need_fits(const weft_gpu_slab *slab, const weft_gpu_need *need)
{
    const uint64_t later = slab->count > 0 ? slab->promised.later + need->later : 0;
    return slab->promised.device + need->device + later <= slab->device.bytes &&
           slab->promised.pinned + need->pinned <= slab->pinned.bytes &&
           slab->promised.plain + need->plain <= slab->plain.bytes;
}

static void need_add(weft_gpu_need *sum, const weft_gpu_need *need)
{
    sum->device += need->device;
    sum->later += need->later;
    sum->pinned += need->pinned;
    sum->plain += need->plain;
}

weft_status weft_gpu_slab_wait(weft_gpu *gpu, weft_gpu_slab **slab)
{
    const uint64_t most_ns = gpu->caller_ns + gpu->patience_ns;
    weft_gpu_wait wait;
    weft_gpu_wait_begin(&wait);
    while (!(*slab = weft_gpu_slab_free(gpu))) {
        if (weft_gpu_wait_ends(&wait, most_ns))
            return weft_fail(WEFT_E_TIMEOUT, "%s device %d: jobs of other threads kept it busy for %.0f s",
                             gpu->driver->name, gpu->driver->number(gpu->device), (double)most_ns / 1e9);
        const uint64_t asked = weft_gpu_now_ns();
        if (!slabs_step(gpu))
            weft_gpu_wait_after(asked);
    }
    return WEFT_OK;
}

void weft_gpu_slab_begin(weft_gpu_slab *slab)
{
    slab->count = slab->lent = slab->follows = 0;
    slab->step = 0;
    slab->plan = slab->boxed = NULL;
    slab->trouble[0] = '\0';
    slab->device.used = slab->pinned.used = slab->plain.used = 0;
}

/* Place of a slab's jobs: behind the work on a caller's stream, behind an earlier job, or behind nothing. */
typedef struct order {
    void *caller;
    bool ordered, behind;
} order;

static order order_of(weft_gpu *gpu, const weft_gpu_kind *kind, const void *job)
{
    order made = {.behind = kind->behind && kind->behind(job)};
    if (kind->stream && !made.behind)
        made.caller = kind->stream(gpu, job, &made.ordered);
    return made;
}

static weft_status slab_begin(weft_gpu *gpu, const weft_gpu_kind *kind, const order *after, weft_gpu_slab **begun)
{
    weft_status status = weft_gpu_slab_wait(gpu, begun);
    if (status != WEFT_OK)
        return status;
    weft_gpu_slab *slab = *begun;
    weft_gpu_slab_begin(slab);
    slab->kind = kind;
    slab->stream = weft_gpu_stream_of(gpu, slab, kind->urgent);
    slab->caller = after->caller;
    slab->ordered = after->ordered;
    slab->behind = after->behind;
    slab->promised = kind->need(gpu, NULL);
    return WEFT_OK;
}

/* Returns a slab with room for the job: the one that is being filled, or a new one. */
static weft_status slab_for(weft_gpu *gpu, const weft_gpu_kind *kind, void *job, weft_gpu_slab **slab)
{
    const order after = order_of(gpu, kind, job);
    weft_gpu_need need = kind->need(gpu, job);
    if (kind->view) {
        const weft_gpu_need boxes = weft_gpu_boxes_need(kind->view(job));
        need_add(&need, &boxes);
    }
    *slab = weft_gpu_slab_filling(gpu);
    if (*slab && ((*slab)->kind != kind || (*slab)->caller != after.caller || (*slab)->ordered != after.ordered ||
                  (*slab)->behind != after.behind || (*slab)->count == gpu->jobs_most || !need_fits(*slab, &need))) {
        slab_launch(gpu, *slab);
        *slab = NULL;
    }
    weft_status status = *slab ? WEFT_OK : slab_begin(gpu, kind, &after, slab);
    if (status != WEFT_OK)
        return status;
    if (need_fits(*slab, &need)) {
        need_add(&(*slab)->promised, &need);
        (*slab)->last = need;
        return WEFT_OK;
    }
    weft_gpu_slab_stage(gpu, *slab, WEFT_GPU_FREE);
    return weft_fail(WEFT_E_BUDGET,
                     "%s: one %s job needs %.1f MB of device memory, %.1f of pinned and %.1f of other; there are %.1f, "
                     "%.1f and %.1f: raise device_memory",
                     gpu->driver->name, kind->name, (double)need.device / 1e6, (double)need.pinned / 1e6,
                     (double)need.plain / 1e6, (double)(*slab)->device.bytes / 1e6, (double)(*slab)->pinned.bytes / 1e6,
                     (double)(*slab)->plain.bytes / 1e6);
}

/* A slab that is full goes, as the next job would have it. */
bool weft_gpu_ready(weft_gpu *gpu)
{
    weft_gpu_slab *slab = weft_gpu_slab_filling(gpu);
    if (slab && slab->count < gpu->jobs_most && need_fits(slab, &slab->last))
        return true;
    if (slab)
        slab_launch(gpu, slab);
    if (weft_gpu_slab_spare(gpu))
        return true;
    follows_step(gpu);
    return weft_gpu_slab_spare(gpu);
}

weft_status weft_gpu_submit(weft_gpu *gpu, const weft_gpu_kind *kind, void *job)
{
    weft_gpu_slab *slab = NULL;
    if (atomic_load(&gpu->lost))
        return weft_gpu_lost_fail(gpu);
    weft_status status = slab_for(gpu, kind, job, &slab);
    if (status != WEFT_OK)
        return status;
    *(weft_ticket *)job =
        (weft_ticket){.status = WEFT_AGAIN, .batch = (uint32_t)(slab - gpu->slabs), .place = slab->count};
    slab->status[slab->count] = WEFT_OK;
    slab->jobs[slab->count++] = job;
    if (slab->count == gpu->jobs_most)
        slab_launch(gpu, slab);
    return WEFT_AGAIN;
}

/* True if a slab that is being filled must go: one of its jobs is polled, or the device has nothing else to do. */
static bool slab_is_due(weft_gpu *gpu, const weft_gpu_slab *slab, const weft_ticket *ticket)
{
    uint32_t index = 0;
    return &gpu->slabs[ticket->batch] == slab || !weft_gpu_slab_under_way(gpu, &index);
}

weft_status weft_gpu_poll(weft_gpu *gpu, void *job)
{
    const weft_ticket *ticket = job;
    weft_status status = weft_gpu_result_of(gpu, ticket);
    if (status != WEFT_AGAIN)
        return status;
    const uint64_t asked = weft_gpu_now_ns();
    weft_gpu_slab *slab = weft_gpu_slab_filling(gpu);
    gpu->driver->hold(gpu->device);
    if (slab && slab_is_due(gpu, slab, ticket))
        slab_launch(gpu, slab);
    bool moved = slabs_step(gpu);
    gpu->driver->release(gpu->device);
    status = weft_gpu_result_of(gpu, ticket);
    if (status == WEFT_AGAIN && !moved)
        weft_gpu_wait_after(asked);
    return status;
}
