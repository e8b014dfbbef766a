/* gpu_queue.c - jobs are taken, collected, sent to the device and given back with what became of them. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backends/gpu.h"
#include "status.h"

#define PAUSE_NS 20000

/* The device's time is the system's, whatever clock the session goes by. */
static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

/* The first loss is the one that is told. */
static void device_lose(weft_gpu *gpu)
{
    pthread_mutex_lock(&gpu->mutex);
    if (!atomic_load(&gpu->lost))
        snprintf(gpu->why_lost, sizeof gpu->why_lost, "%s", weft_last_error());
    atomic_store(&gpu->lost, true);
    pthread_mutex_unlock(&gpu->mutex);
}

/* Keeps in mind what a driver's error means. */
static weft_status noted(weft_gpu *gpu, weft_status status)
{
    if (status == WEFT_E_DEVICE)
        device_lose(gpu);
    return status;
}

static weft_status lost_fail(weft_gpu *gpu)
{
    char why[sizeof gpu->why_lost];
    pthread_mutex_lock(&gpu->mutex);
    memcpy(why, gpu->why_lost, sizeof why);
    pthread_mutex_unlock(&gpu->mutex);
    return weft_fail_quiet(WEFT_E_DEVICE, "%s", why);
}

static weft_status hung_fail(weft_gpu *gpu, const char *what)
{
    weft_status status =
        weft_fail(WEFT_E_DEVICE, "%s device %d: %s for %.0f s; the device is lost to this session", gpu->driver->name,
                  gpu->driver->number(gpu->device), what, (double)gpu->patience_ns / 1e9);
    atomic_store(&gpu->hung, true);
    return noted(gpu, status);
}

/* ---- results */

/* The results of a slab's jobs; those that failed share a text. Called with the mutex held. */
static void results_put(weft_gpu *gpu, const weft_gpu_slab *slab)
{
    const uint32_t trouble = gpu->trouble_count;
    if (slab->trouble[0])
        memcpy(gpu->troubles[gpu->trouble_count++ % WEFT_GPU_TROUBLES], slab->trouble, sizeof slab->trouble);
    for (uint32_t i = 0; i < slab->count; i++)
        gpu->results[gpu->result_count++] =
            (weft_gpu_result){.job = slab->jobs[i], .status = slab->status[i], .trouble = trouble};
}

/* Says a failed job's error again for the thread that asks, which may have heard others since. */
static weft_status result_tell(const weft_gpu *gpu, const weft_gpu_result *result, char *trouble)
{
    bool kept = gpu->trouble_count - result->trouble <= WEFT_GPU_TROUBLES;
    snprintf(trouble, sizeof gpu->troubles[0], "%s",
             kept ? gpu->troubles[result->trouble % WEFT_GPU_TROUBLES] : "a job on the device failed");
    return result->status;
}

/* WEFT_AGAIN if the job is not done. */
static weft_status result_take(weft_gpu *gpu, const void *job)
{
    char trouble[sizeof gpu->troubles[0]] = "";
    weft_status status = WEFT_AGAIN;
    pthread_mutex_lock(&gpu->mutex);
    for (uint32_t i = 0; i < gpu->result_count && status == WEFT_AGAIN; i++) {
        weft_gpu_result *result = &gpu->results[i];
        if (result->job != job)
            continue;
        status = result->status == WEFT_OK ? WEFT_OK : result_tell(gpu, result, trouble);
        *result = gpu->results[--gpu->result_count];
        gpu->taken--;
    }
    pthread_mutex_unlock(&gpu->mutex);
    if (status < WEFT_OK && strcmp(weft_last_error(), trouble) != 0)
        return weft_fail_quiet(status, "%s", trouble);
    return status;
}

/* ---- slabs */

/* The calling thread's slabs of a stage, from number `*index` on; NULL behind the last. */
static weft_gpu_slab *slab_own(weft_gpu *gpu, weft_gpu_stage stage, uint32_t *index)
{
    weft_gpu_slab *found = NULL;
    pthread_mutex_lock(&gpu->mutex);
    for (; *index < WEFT_GPU_SLABS && !found; ++*index) {
        weft_gpu_slab *slab = &gpu->slabs[*index];
        if (slab->stage == stage && pthread_equal(slab->owner, pthread_self()))
            found = slab;
    }
    pthread_mutex_unlock(&gpu->mutex);
    return found;
}

static weft_gpu_slab *slab_filling(weft_gpu *gpu)
{
    uint32_t index = 0;
    return slab_own(gpu, WEFT_GPU_FILLING, &index);
}

/* A slab that the calling thread may fill; NULL if there is none now. */
static weft_gpu_slab *slab_free(weft_gpu *gpu)
{
    weft_gpu_slab *found = NULL;
    uint32_t own = 0;
    pthread_mutex_lock(&gpu->mutex);
    for (uint32_t i = 0; i < WEFT_GPU_SLABS; i++) {
        weft_gpu_slab *slab = &gpu->slabs[i];
        if (slab->stage == WEFT_GPU_FREE)
            found = slab;
        else
            own += pthread_equal(slab->owner, pthread_self()) != 0;
    }
    if (own >= WEFT_GPU_SLABS_OF_THREAD)
        found = NULL;
    if (found) {
        found->stage = WEFT_GPU_FILLING;
        found->owner = pthread_self();
    }
    pthread_mutex_unlock(&gpu->mutex);
    return found;
}

static void slab_end(weft_gpu *gpu, weft_gpu_slab *slab)
{
    pthread_mutex_lock(&gpu->mutex);
    results_put(gpu, slab);
    slab->stage = WEFT_GPU_FREE;
    pthread_mutex_unlock(&gpu->mutex);
}

void weft_gpu_quiet(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_status status = WEFT_E_DEVICE;
    /* A device that is lost says so every time; one call that fails proves nothing about work that is under way. */
    for (int tries = 0; tries < 2 && status != WEFT_OK && !atomic_load(&gpu->hung); tries++)
        status = gpu->driver->mark(gpu->device, slab->stream, slab->mark);
    if (status != WEFT_OK)
        return;
    for (uint64_t begin = now_ns();; pause_briefly()) {
        status = gpu->driver->reached(gpu->device, slab->mark);
        if (status != WEFT_AGAIN)
            return;
        if (now_ns() - begin > gpu->patience_ns) {
            hung_fail(gpu, "work does not end");
            return;
        }
    }
}

/* What is on the stream may still write to memory of the jobs: it comes to its end first. */
static void slab_fail(weft_gpu *gpu, weft_gpu_slab *slab, weft_status status)
{
    noted(gpu, status);
    for (uint32_t i = 0; i < slab->count; i++) {
        if (slab->status[i] == WEFT_OK)
            weft_gpu_job_fail(slab, i, status);
    }
    if (!atomic_load(&gpu->hung))
        weft_gpu_quiet(gpu, slab);
    slab_end(gpu, slab);
}

/* After begin or advance. */
static void slab_settle(weft_gpu *gpu, weft_gpu_slab *slab, weft_status status)
{
    slab->since_ns = now_ns();
    if (status == WEFT_AGAIN) {
        status = gpu->driver->mark(gpu->device, slab->stream, slab->mark);
        if (status == WEFT_OK)
            return;
    }
    if (status == WEFT_OK)
        slab_end(gpu, slab);
    else
        slab_fail(gpu, slab, status);
}

/* The batch comes after what is on the caller's stream now. */
static weft_status slab_order(weft_gpu *gpu, weft_gpu_slab *slab)
{
    if (!slab->ordered)
        return WEFT_OK;
    weft_status status = gpu->driver->mark(gpu->device, slab->caller, slab->fence);
    return status == WEFT_OK ? gpu->driver->wait(gpu->device, slab->stream, slab->fence) : status;
}

static void slab_launch(weft_gpu *gpu, weft_gpu_slab *slab)
{
    pthread_mutex_lock(&gpu->mutex);
    slab->stage = WEFT_GPU_RUNNING;
    pthread_mutex_unlock(&gpu->mutex);
    weft_status status = atomic_load(&gpu->lost) ? lost_fail(gpu) : slab_order(gpu, slab);
    slab_settle(gpu, slab, status == WEFT_OK ? slab->kind->begin(gpu, slab) : status);
}

/* Whether it came further. */
static bool slab_step(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_status status = gpu->driver->reached(gpu->device, slab->mark);
    if (status == WEFT_AGAIN) {
        if (now_ns() - slab->since_ns <= gpu->patience_ns)
            return false;
        status = hung_fail(gpu, "work does not end");
    }
    slab_settle(gpu, slab, status == WEFT_OK ? slab->kind->advance(gpu, slab) : status);
    return true;
}

static bool slabs_step(weft_gpu *gpu)
{
    bool moved = false;
    uint32_t index = 0;
    for (weft_gpu_slab *slab; (slab = slab_own(gpu, WEFT_GPU_RUNNING, &index));)
        moved |= slab_step(gpu, slab);
    return moved;
}

/* ---- taking jobs */

static bool need_fits(const weft_gpu_slab *slab, const weft_gpu_need *need)
{
    return slab->promised.device + need->device <= slab->device.bytes &&
           slab->promised.pinned + need->pinned <= slab->pinned.bytes &&
           slab->promised.plain + need->plain <= slab->plain.bytes;
}

static void need_add(weft_gpu_need *sum, const weft_gpu_need *need)
{
    sum->device += need->device;
    sum->pinned += need->pinned;
    sum->plain += need->plain;
}

static weft_gpu_slab *slab_wait(weft_gpu *gpu)
{
    weft_gpu_slab *slab;
    for (uint64_t begin = now_ns(); !(slab = slab_free(gpu));) {
        if (slabs_step(gpu))
            continue;
        if (now_ns() - begin > gpu->patience_ns) {
            hung_fail(gpu, "other threads leave their jobs on it");
            return NULL;
        }
        pause_briefly();
    }
    return slab;
}

static weft_gpu_slab *slab_begin(weft_gpu *gpu, const weft_gpu_kind *kind, void *caller, bool ordered)
{
    weft_gpu_slab *slab = slab_wait(gpu);
    if (!slab)
        return NULL;
    slab->kind = kind;
    slab->caller = caller;
    slab->ordered = ordered;
    slab->count = 0;
    slab->step = 0;
    slab->plan = NULL;
    slab->trouble[0] = '\0';
    slab->device.used = slab->pinned.used = slab->plain.used = 0;
    slab->promised = kind->need(gpu, NULL);
    return slab;
}

static void slab_give_up(weft_gpu *gpu, weft_gpu_slab *slab)
{
    pthread_mutex_lock(&gpu->mutex);
    slab->stage = WEFT_GPU_FREE;
    pthread_mutex_unlock(&gpu->mutex);
}

/* A slab with room for the job: the one that is being filled, or a new one. */
static weft_status slab_for(weft_gpu *gpu, const weft_gpu_kind *kind, const void *job, weft_gpu_slab **slab)
{
    bool ordered = false;
    void *caller = kind->stream ? kind->stream(job, &ordered) : NULL;
    const weft_gpu_need need = kind->need(gpu, job);
    *slab = slab_filling(gpu);
    if (*slab && ((*slab)->kind != kind || (*slab)->caller != caller || (*slab)->ordered != ordered ||
                  (*slab)->count == WEFT_GPU_JOBS || !need_fits(*slab, &need))) {
        slab_launch(gpu, *slab);
        *slab = NULL;
    }
    if (!*slab && !(*slab = slab_begin(gpu, kind, caller, ordered)))
        return WEFT_E_DEVICE;
    if (need_fits(*slab, &need)) {
        need_add(&(*slab)->promised, &need);
        return WEFT_OK;
    }
    slab_give_up(gpu, *slab);
    return weft_fail(WEFT_E_BUDGET,
                     "%s: one %s job needs %.1f MB of device memory, %.1f of pinned and %.1f of other; there are %.1f, "
                     "%.1f and %.1f: raise device_memory",
                     gpu->driver->name, kind->name, (double)need.device / 1e6, (double)need.pinned / 1e6,
                     (double)need.plain / 1e6, (double)(*slab)->device.bytes / 1e6, (double)(*slab)->pinned.bytes / 1e6,
                     (double)(*slab)->plain.bytes / 1e6);
}

static bool job_count(weft_gpu *gpu)
{
    pthread_mutex_lock(&gpu->mutex);
    bool room = gpu->taken < WEFT_GPU_TAKEN;
    gpu->taken += room;
    pthread_mutex_unlock(&gpu->mutex);
    return room;
}

static void job_uncount(weft_gpu *gpu)
{
    pthread_mutex_lock(&gpu->mutex);
    gpu->taken--;
    pthread_mutex_unlock(&gpu->mutex);
}

weft_status weft_gpu_submit(weft_gpu *gpu, const weft_gpu_kind *kind, void *job)
{
    weft_gpu_slab *slab = NULL;
    if (atomic_load(&gpu->lost))
        return lost_fail(gpu);
    if (!job_count(gpu))
        return weft_fail(WEFT_E_STATE, "%s: %u jobs were submitted and not asked for", gpu->driver->name,
                         WEFT_GPU_TAKEN);
    weft_status status = slab_for(gpu, kind, job, &slab);
    if (status != WEFT_OK) {
        job_uncount(gpu);
        return status;
    }
    slab->status[slab->count] = WEFT_OK;
    slab->jobs[slab->count++] = job;
    if (slab->count == WEFT_GPU_JOBS)
        slab_launch(gpu, slab);
    return WEFT_AGAIN;
}

/* A slab that is being filled goes off when one of its jobs is asked for, or when the device has nothing else to do. */
static bool slab_is_due(weft_gpu *gpu, const weft_gpu_slab *slab, const void *job)
{
    uint32_t index = 0;
    for (uint32_t i = 0; i < slab->count; i++) {
        if (slab->jobs[i] == job)
            return true;
    }
    return !slab_own(gpu, WEFT_GPU_RUNNING, &index);
}

weft_status weft_gpu_poll(weft_gpu *gpu, void *job)
{
    weft_status status = result_take(gpu, job);
    if (status != WEFT_AGAIN)
        return status;
    weft_gpu_slab *slab = slab_filling(gpu);
    if (slab && slab_is_due(gpu, slab, job))
        slab_launch(gpu, slab);
    bool moved = slabs_step(gpu);
    status = result_take(gpu, job);
    if (status == WEFT_AGAIN && !moved)
        pause_briefly();
    return status;
}
