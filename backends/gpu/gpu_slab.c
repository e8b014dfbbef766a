/* gpu_slab.c - slabs: who has one, what is under way in it, what is late or lent; and when a device is lost. */
#include "backends/gpu/gpu_slab.h"

#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu_boxes.h"
#include "backends/gpu/gpu_wait.h"
#include "base/status.h"

#define STEP_NS UINT64_C(1000000000) /* counts of a wait between two times of asking, at most */

void weft_gpu_wait_begin(weft_gpu_wait *wait)
{
    *wait = (weft_gpu_wait){.asked_ns = weft_gpu_now_ns()};
}

bool weft_gpu_wait_ends(weft_gpu_wait *wait, uint64_t most_ns)
{
    const uint64_t now = weft_gpu_now_ns(), step = now - wait->asked_ns;
    wait->waited_ns += step < STEP_NS ? step : STEP_NS;
    wait->asked_ns = now;
    return wait->waited_ns > most_ns;
}

/* The first loss is the one that is reported. */
static void device_lose(weft_gpu *gpu)
{
    pthread_mutex_lock(&gpu->mutex);
    if (!atomic_load(&gpu->lost))
        snprintf(gpu->why_lost, sizeof gpu->why_lost, "%s", weft_last_error());
    atomic_store(&gpu->lost, true);
    pthread_mutex_unlock(&gpu->mutex);
}

weft_status weft_gpu_noted(weft_gpu *gpu, weft_status status)
{
    if (status == WEFT_E_DEVICE)
        device_lose(gpu);
    return status;
}

weft_status weft_gpu_lost_fail(weft_gpu *gpu)
{
    char why[sizeof gpu->why_lost];
    pthread_mutex_lock(&gpu->mutex);
    memcpy(why, gpu->why_lost, sizeof why);
    pthread_mutex_unlock(&gpu->mutex);
    return weft_fail_quiet(WEFT_E_DEVICE, "%s", why);
}

weft_status weft_gpu_slab_ask(const weft_gpu *gpu, weft_gpu_slab *slab, uint64_t most_ns, bool *late)
{
    *late = weft_gpu_wait_ends(&slab->wait, most_ns);
    weft_status status = gpu->driver->reached(gpu->device, slab->mark);
    if (status == WEFT_E_STATE) {
        weft_gpu_wait_begin(&slab->wait);
        status = WEFT_AGAIN;
        *late = false;
    }
    *late = *late && status == WEFT_AGAIN;
    return status;
}

weft_status weft_gpu_hang(weft_gpu *gpu, uint64_t waited_ns)
{
    weft_status status =
        weft_fail(WEFT_E_DEVICE, "%s device %d: work does not end for %.0f s; the device is lost to this session",
                  gpu->driver->name, gpu->driver->number(gpu->device), (double)waited_ns / 1e9);
    atomic_store(&gpu->hung, true);
    return weft_gpu_noted(gpu, status);
}

weft_status weft_gpu_late_fail(const weft_gpu *gpu, const char *what)
{
    return weft_fail(WEFT_E_TIMEOUT,
                     "%s device %d: other work on the device takes longer than device_deadline = %.3g s; %s",
                     gpu->driver->name, gpu->driver->number(gpu->device), (double)gpu->patience_ns / 1e9, what);
}

/* ---- work that is late */

/* Frees the slabs whose late work has ended. Call with the mutex held; true if no work is late. */
static bool late_settle(weft_gpu *gpu)
{
    for (uint32_t i = 0; i < WEFT_GPU_SLABS && gpu->late > 0; i++) {
        weft_gpu_slab *slab = &gpu->slabs[i];
        if (slab->stage != WEFT_GPU_LATE)
            continue;
        const weft_status status = gpu->driver->reached(gpu->device, slab->mark);
        if (status == WEFT_AGAIN || status == WEFT_E_STATE)
            continue;
        slab->stage = WEFT_GPU_FREE;
        gpu->late--;
    }
    return gpu->late == 0;
}

bool weft_gpu_nothing_is_late(weft_gpu *gpu)
{
    pthread_mutex_lock(&gpu->mutex);
    const bool none = late_settle(gpu);
    pthread_mutex_unlock(&gpu->mutex);
    return none;
}

weft_status weft_gpu_rest(weft_gpu *gpu)
{
    const uint64_t end_ns = weft_gpu_now_ns() + gpu->patience_ns;
    for (uint64_t asked_ns = weft_gpu_now_ns(); !weft_gpu_nothing_is_late(gpu); asked_ns = weft_gpu_now_ns()) {
        if (asked_ns > end_ns)
            return weft_gpu_late_fail(gpu, "work that was given up may still read the weights");
        weft_gpu_wait_after(asked_ns);
    }
    return WEFT_OK;
}

/* ---- slabs */

void weft_gpu_slab_stage(weft_gpu *gpu, weft_gpu_slab *slab, weft_gpu_stage stage)
{
    pthread_mutex_lock(&gpu->mutex);
    slab->stage = stage;
    pthread_mutex_unlock(&gpu->mutex);
}

/* Returns the next slab of the calling thread in these stages. */
static weft_gpu_slab *slab_own(weft_gpu *gpu, weft_gpu_stage first, weft_gpu_stage last, uint32_t *index)
{
    weft_gpu_slab *found = NULL;
    pthread_mutex_lock(&gpu->mutex);
    for (; *index < WEFT_GPU_SLABS && !found; ++*index) {
        weft_gpu_slab *slab = &gpu->slabs[*index];
        if (slab->stage >= first && slab->stage <= last && pthread_equal(slab->owner, pthread_self()))
            found = slab;
    }
    pthread_mutex_unlock(&gpu->mutex);
    return found;
}

weft_gpu_slab *weft_gpu_slab_under_way(weft_gpu *gpu, uint32_t *index)
{
    return slab_own(gpu, WEFT_GPU_ORDERED, WEFT_GPU_RUNNING, index);
}

weft_gpu_slab *weft_gpu_slab_filling(weft_gpu *gpu)
{
    uint32_t index = 0;
    return slab_own(gpu, WEFT_GPU_FILLING, WEFT_GPU_FILLING, &index);
}

/* Returns a slab that the calling thread may fill; NULL if there is none now. `*lent` is one whose frames the thread
 * was lent, if it has such a slab. With the mutex held. */
static weft_gpu_slab *slab_find(weft_gpu *gpu, weft_gpu_slab **lent)
{
    weft_gpu_slab *found = NULL;
    uint32_t own = 0;
    *lent = NULL;
    late_settle(gpu);
    for (uint32_t i = 0; i < WEFT_GPU_SLABS; i++) {
        weft_gpu_slab *slab = &gpu->slabs[i];
        const bool is_own = pthread_equal(slab->owner, pthread_self());
        if (slab->stage == WEFT_GPU_FREE)
            found = slab;
        else if (slab->stage != WEFT_GPU_LATE)
            own += is_own;
        if (slab->stage == WEFT_GPU_LENT && is_own)
            *lent = slab;
    }
    return own < WEFT_GPU_SLABS_OF_THREAD ? found : NULL;
}

bool weft_gpu_slab_spare(weft_gpu *gpu)
{
    weft_gpu_slab *lent;
    pthread_mutex_lock(&gpu->mutex);
    const bool spare = slab_find(gpu, &lent) != NULL;
    pthread_mutex_unlock(&gpu->mutex);
    return spare;
}

static weft_gpu_slab *slab_take(weft_gpu *gpu, weft_gpu_slab **lent)
{
    pthread_mutex_lock(&gpu->mutex);
    weft_gpu_slab *found = slab_find(gpu, lent);
    if (found) {
        found->stage = WEFT_GPU_FILLING;
        found->owner = pthread_self();
    }
    pthread_mutex_unlock(&gpu->mutex);
    return found;
}

weft_gpu_slab *weft_gpu_slab_free(weft_gpu *gpu)
{
    weft_gpu_slab *lent, *found = slab_take(gpu, &lent);
    if (found || !lent)
        return found;
    weft_gpu_lent_settle(lent);
    if (lent->follows > 0) {
        weft_gpu_slab_follow(gpu, lent);
        return NULL;
    }
    pthread_mutex_lock(&gpu->mutex);
    lent->stage = WEFT_GPU_FILLING;
    pthread_mutex_unlock(&gpu->mutex);
    return lent;
}

void weft_gpu_give(weft_gpu *gpu, weft_encode_job *job)
{
    weft_gpu_slab *slab = &gpu->slabs[job->ticket.batch];
    bool lent = false;
    for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++) {
        lent = lent || job->lent[level];
        job->lent[level] = NULL;
    }
    if (!lent)
        return;
    weft_gpu_lent_end(slab, job->ticket.place, job->follows && job->follow);
    if (slab->lent == 0)
        weft_gpu_slab_follow(gpu, slab);
}

void weft_gpu_slab_end(weft_gpu *gpu, weft_gpu_slab *slab, weft_gpu_stage stage)
{
    weft_gpu_boxes_end(slab);
    pthread_mutex_lock(&gpu->mutex);
    weft_gpu_results_put(gpu, slab);
    slab->stage = stage;
    gpu->late += stage == WEFT_GPU_LATE;
    pthread_mutex_unlock(&gpu->mutex);
}

void weft_gpu_quiet(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_status status = WEFT_E_DEVICE;
    /* A device that is lost says so every time; one call that fails proves nothing about work that is under way. */
    for (int tries = 0; tries < 2 && status != WEFT_OK && !atomic_load(&gpu->hung); tries++)
        status = gpu->driver->mark(gpu->device, slab->stream, slab->mark);
    weft_gpu_wait_begin(&slab->wait);
    for (bool late = false; status == WEFT_OK && !late;) {
        const uint64_t asked = weft_gpu_now_ns();
        status = weft_gpu_slab_ask(gpu, slab, gpu->patience_ns, &late) == WEFT_AGAIN ? WEFT_OK : WEFT_AGAIN;
        if (late)
            weft_gpu_hang(gpu, gpu->patience_ns);
        else if (status == WEFT_OK)
            weft_gpu_wait_after(asked);
    }
}
