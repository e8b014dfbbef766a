/* session_digest.c - bound weights: whether the backend reaches them, and what they are. */
#include <string.h>

#include "base/status.h"
#include "layout/box.h"
#include "layout/digest.h"
#include "session/session.h"

/* One job may have to work on all units of a run, of a frame that any trainer cuts. */
static weft_status check_runs(const weft_session *session, const weft_binding *binding)
{
    const weft_layout *layout = binding->layout;
    const uint64_t most = session->backend->runs(session->device);
    uint32_t units;
    for (uint64_t unit = 0; unit < layout->unit_count; unit += units) {
        units = weft_layout_run(layout, unit, WEFT_RUN_SHIFT_MAX);
        const uint64_t runs = binding->first_run[unit + units] - binding->first_run[unit];
        if (runs > most)
            return weft_fail(WEFT_E_LAYOUT,
                             "bind: tensor %s and those after it lie in %llu pieces that may have to be worked on "
                             "together; backend %s has room for %llu: bind fewer and larger ones, or work on the host",
                             layout->entries[layout->units[unit].tensor].tensor.name, (unsigned long long)runs,
                             session->backend_name, (unsigned long long)most);
    }
    return WEFT_OK;
}

static weft_status check_boxes(const weft_session *session, const weft_layout *layout, const weft_boxes *boxes)
{
    char name[WEFT_SLICE_TEXT];
    for (uint64_t i = 0; i < boxes->pattern_count; i++) {
        const weft_pattern *pattern = &boxes->pattern[i];
        const char *why = session->backend->check(session->device, (const void *)pattern->low, pattern->span);
        if (!why)
            continue;
        weft_slice_name(layout, &boxes->slice[i], name);
        return weft_fail(WEFT_E_ARGUMENT, "bind: %s: %p %s (backend %s)", name, (void *)pattern->low, why,
                         session->backend_name);
    }
    return WEFT_OK;
}

weft_status weft_session_check(const weft_session *session, const weft_binding *binding)
{
    weft_status status = check_runs(session, binding);
    if (status == WEFT_OK && binding->boxes)
        status = check_boxes(session, binding->layout, binding->boxes);
    if (status != WEFT_OK)
        return status;
    for (uint64_t i = 0; i < binding->run_count; i++) {
        const weft_run *run = &binding->runs[i];
        const weft_layout_entry *entry = &binding->layout->entries[run->tensor];
        if (!run->data)
            continue;
        const char *why = session->backend->check(session->device, run->data, (uint64_t)run->count * entry->row->width);
        if (why)
            return weft_fail(WEFT_E_ARGUMENT, "bind: tensor %s: %p %s (backend %s)", entry->tensor.name,
                             (void *)run->data, why, session->backend_name);
    }
    return WEFT_OK;
}

weft_status weft_session_rest(weft_session *session)
{
    if (!session->backend->rest)
        return WEFT_OK;
    pthread_mutex_unlock(&session->lock);
    const weft_status status = session->backend->rest(session->device);
    pthread_mutex_lock(&session->lock);
    return status;
}

typedef struct digests {
    const weft_binding *binding;
    uint64_t *digests;
} digests;

static void digest_fill(void *user, uint64_t unit, weft_job *job)
{
    const digests *d = user;
    job->digest = (weft_digest_job){.view = weft_binding_view(d->binding, unit), .tensor_delta = d->digests};
}

weft_status weft_session_digest(weft_pipeline *window, const weft_binding *binding, uint64_t *sums, uint64_t *root)
{
    digests d = {binding, sums};
    const weft_chore chore = {WEFT_JOB_DIGEST, digest_fill, NULL, &d};
    memset(sums, 0, binding->layout->part_count * sizeof *sums);
    weft_status status = weft_pipeline_run(window, &chore, 0, binding->layout->unit_count);
    if (status == WEFT_OK)
        *root = weft_digest_parts_root(binding->layout, sums);
    return status;
}
