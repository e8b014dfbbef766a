/* deferred_jobs.c - one job of the deferred backend, by the host's, where the bytes really are. */
#include <stdlib.h>

#include "backends/host/host.h"
#include "tests/support/deferred_inside.h"

static weft_view view_reach(const weft_view *view)
{
    weft_view own = *view;
    weft_run *runs = malloc((view->run_count + 1) * sizeof *runs);
    if (!runs)
        abort();
    for (uint32_t i = 0; i < view->run_count; i++) {
        runs[i] = view->runs[i];
        runs[i].data = deferred_reach(runs[i].data, false);
    }
    own.runs = runs;
    return own;
}

static void view_end(const weft_view *view)
{
    free((void *)(uintptr_t)view->runs);
}

static weft_changes changes_reach(const weft_changes *changes)
{
    weft_changes own = *changes;
    own.position = deferred_reach(changes->position, false);
    own.before = deferred_reach(changes->before, false);
    own.after = deferred_reach(changes->after, false);
    return own;
}

static weft_status encode_do(weft_backend_state *host, weft_encode_job *job)
{
    weft_encode_job own = *job;
    own.now = view_reach(&job->now);
    own.shadow = view_reach(&job->shadow);
    weft_status status = weft_backend_host.encode(host, &own);
    view_end(&own.now);
    view_end(&own.shadow);
    own.now = job->now;
    own.shadow = job->shadow;
    *job = own;
    return status;
}

static weft_status survey_do(weft_backend_state *host, const weft_survey_job *job)
{
    weft_survey_job own = *job;
    own.now = view_reach(&job->now);
    own.shadow = view_reach(&job->shadow);
    weft_status status = weft_backend_host.survey(host, &own);
    view_end(&own.now);
    view_end(&own.shadow);
    return status;
}

static weft_status decode_do(weft_backend_state *host, const weft_decode_job *job)
{
    weft_decode_job own = *job;
    weft_changes changes = changes_reach(job->changes);
    own.base = view_reach(&job->base);
    own.changes = &changes;
    weft_status status = weft_backend_host.decode(host, &own);
    view_end(&own.base);
    job->changes->unit = changes.unit;
    job->changes->units = changes.units;
    job->changes->count = changes.count;
    return status;
}

static weft_status apply_do(weft_backend_state *host, weft_apply_job *job)
{
    weft_changes changes = changes_reach(job->changes);
    weft_apply_job own = {.target = view_reach(&job->target), .changes = &changes};
    weft_status status = weft_backend_host.apply(host, &own);
    view_end(&own.target);
    job->mismatch = own.mismatch;
    return status;
}

static weft_status undo_do(weft_backend_state *host, const weft_undo_job *job)
{
    weft_changes changes = changes_reach(job->changes);
    weft_undo_job own = {.target = view_reach(&job->target), .changes = &changes, .stream = NULL};
    weft_status status = weft_backend_host.undo(host, &own);
    view_end(&own.target);
    return status;
}

static weft_status digest_do(weft_backend_state *host, const weft_digest_job *job)
{
    weft_digest_job own = {.view = view_reach(&job->view), .tensor_delta = job->tensor_delta};
    weft_status status = weft_backend_host.digest(host, &own);
    view_end(&own.view);
    return status;
}

static weft_status load_do(weft_backend_state *host, const weft_load_job *job)
{
    weft_load_job own = {.view = view_reach(&job->view), .bytes = deferred_reach(job->bytes, true)};
    weft_status status = weft_backend_host.load(host, &own);
    view_end(&own.view);
    return status;
}

static weft_status store_do(weft_backend_state *host, const weft_store_job *job)
{
    weft_store_job own = {.view = view_reach(&job->view), .bytes = deferred_reach(job->bytes, true)};
    weft_status status = weft_backend_host.store(host, &own);
    view_end(&own.view);
    return status;
}

weft_status deferred_do(weft_backend_state *host, deferred_kind kind, void *job)
{
    switch (kind) {
    case DEFERRED_ENCODE:
        return encode_do(host, job);
    case DEFERRED_DECODE:
        return decode_do(host, job);
    case DEFERRED_SURVEY:
        return survey_do(host, job);
    case DEFERRED_APPLY:
        return apply_do(host, job);
    case DEFERRED_UNDO:
        return undo_do(host, job);
    case DEFERRED_DIGEST:
        return digest_do(host, job);
    case DEFERRED_LOAD:
        return load_do(host, job);
    default:
        return store_do(host, job);
    }
}
