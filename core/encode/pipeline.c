#include "encode/pipeline.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

weft_status weft_pipeline_open(weft_pipeline *window, const weft_backend *backend, weft_backend_state *device)
{
    *window = (weft_pipeline){.backend = backend, .device = device, .depth = backend->depth};
    window->jobs = weft_mem_take(window->depth, sizeof *window->jobs);
    return window->jobs ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for %u jobs", window->depth);
}

void weft_pipeline_close(weft_pipeline *window)
{
    weft_mem_give(window->jobs);
    window->jobs = NULL;
}

/* ---- one job */

static weft_status submit(const weft_backend *backend, weft_backend_state *device, weft_job *job)
{
    switch (job->kind) {
    case WEFT_JOB_ENCODE:
        return backend->encode(device, &job->encode);
    case WEFT_JOB_DECODE:
        return backend->decode(device, &job->decode);
    case WEFT_JOB_SURVEY:
        return backend->survey(device, &job->survey);
    case WEFT_JOB_APPLY:
        return backend->apply(device, &job->apply);
    case WEFT_JOB_UNDO:
        return backend->undo(device, &job->undo);
    case WEFT_JOB_DIGEST:
        return backend->digest(device, &job->digest);
    case WEFT_JOB_LOAD:
        return backend->load(device, &job->load);
    default:
        return backend->store(device, &job->store);
    }
}

static void complete(const weft_pipeline *window, weft_job *job)
{
    while (job->status == WEFT_AGAIN)
        job->status = window->backend->poll(window->device, &job->encode); /* all members begin where the union does */
}

/* ---- the ring */

static bool has_room(const weft_pipeline *window)
{
    return window->begun - window->ended < window->depth;
}

weft_job *weft_pipeline_next(weft_pipeline *window)
{
    return has_room(window) ? &window->jobs[window->begun % window->depth] : NULL;
}

void weft_pipeline_begin(weft_pipeline *window, weft_job_kind kind)
{
    weft_job *job = &window->jobs[window->begun++ % window->depth];
    job->kind = kind;
    job->status = submit(window->backend, window->device, job);
}

weft_job *weft_pipeline_end(weft_pipeline *window)
{
    if (window->ended == window->begun)
        return NULL;
    weft_job *job = &window->jobs[window->ended++ % window->depth];
    complete(window, job);
    return job;
}

bool weft_pipeline_is_over(const weft_pipeline *window)
{
    const weft_job *job = &window->jobs[window->ended % window->depth];
    return window->ended < window->begun && (job->status != WEFT_AGAIN || job->encode.ticket.status != WEFT_AGAIN);
}

void weft_pipeline_give(const weft_pipeline *window, weft_job *job)
{
    if (job->kind == WEFT_JOB_ENCODE && job->status == WEFT_OK)
        window->backend->give(window->device, &job->encode);
}

void weft_pipeline_settle(weft_pipeline *window)
{
    for (uint64_t at = window->ended; at < window->begun; at++)
        complete(window, &window->jobs[at % window->depth]);
}

/* A sink that drops the lines of a stretch of code. */
typedef struct hush {
    char text[512];
    weft_log_sink *before;
} hush;

static void hush_begin(hush *h)
{
    snprintf(h->text, sizeof h->text, "%s", weft_last_error());
    h->before = weft_log_quiet();
}

static void hush_end(hush *h, weft_status status)
{
    weft_log_enter(h->before);
    weft_fail_quiet(status, "%s", h->text);
}

void weft_pipeline_drop(weft_pipeline *window)
{
    hush h;
    if (window->ended == window->begun)
        return;
    hush_begin(&h);
    weft_pipeline_settle(window);
    for (; window->ended < window->begun; window->ended++)
        weft_pipeline_give(window, &window->jobs[window->ended % window->depth]);
    hush_end(&h, WEFT_OK);
}

/* ---- many items */

static weft_status end_one(const weft_chore *chore, uint64_t item, const weft_job *job)
{
    return chore->done ? chore->done(chore->user, item, job) : job->status;
}

weft_status weft_pipeline_run(weft_pipeline *window, const weft_chore *chore, uint64_t first, uint64_t end)
{
    weft_status status = WEFT_OK;
    uint64_t next = first, item = first;
    for (; status == WEFT_OK && item < end; item++) {
        for (; next < end && has_room(window); next++) {
            weft_job *job = weft_pipeline_next(window);
            chore->fill(chore->user, next, job);
            weft_pipeline_begin(window, chore->kind);
        }
        status = end_one(chore, item, weft_pipeline_end(window));
    }
    if (item == next)
        return status;
    hush h;
    hush_begin(&h);
    for (const weft_job *job; (job = weft_pipeline_end(window)); item++)
        end_one(chore, item, job);
    hush_end(&h, status);
    return status;
}
