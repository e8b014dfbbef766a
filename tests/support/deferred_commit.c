/* deferred_commit.c - a commit that is queued, as a device does it: all at once, when it has been asked for some times,
 * and by the lists alone. Memory is the deferred device's, or the host's. */
#include <stdlib.h>
#include <string.h>

#include "backends/host/host.h"
#include "base/status.h"
#include "tests/support/deferred.h"
#include "tests/support/deferred_inside.h"

/* A commit that a state has queued. */
typedef struct queued {
    const weft_backend_state *state; /* NULL: none */
    uint32_t asks_left;
} queued;

static queued all[16];
static weft_status fails_with;
static bool fails_late;
static void (*between)(void);
static weft_backend table;

void deferred_queue_fail(weft_status status, bool late)
{
    fails_with = status;
    fails_late = late;
}

void deferred_queue_between(void (*call)(void))
{
    between = call;
}

/* Finds what a state has queued, or with NULL a free place. */
static queued *queued_of(const weft_backend_state *state)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].state == state)
            return &all[i];
    return NULL;
}

bool deferred_queue_open(const weft_backend_state *state)
{
    return queued_of(state) != NULL;
}

/* Takes the failure that was asked for, once. */
static weft_status fate(bool late)
{
    const weft_status status = fails_late == late ? fails_with : WEFT_OK;
    if (status != WEFT_OK) {
        fails_with = WEFT_OK;
        weft_fail_quiet(status, "the deferred device says so");
    }
    return status;
}

weft_status deferred_queue(weft_backend_state *state, weft_queued_commit *commit)
{
    queued *place = queued_of(NULL);
    if (queued_of(state) || !place)
        deferred_refuse("a commit is queued while another is");
    if (commit->count == 0)
        deferred_refuse("a commit of no lists is queued");
    const weft_status status = fate(false);
    if (status != WEFT_OK)
        return status;
    *place = (queued){state, 3};
    return WEFT_OK;
}

/* ---- the lists */

static weft_view view_reach(const weft_view *view, weft_run *runs)
{
    weft_view own = *view;
    for (uint32_t i = 0; i < view->run_count; i++) {
        runs[i] = view->runs[i];
        runs[i].data = runs[i].data ? deferred_reach(runs[i].data, true) : NULL;
    }
    own.runs = runs;
    return own;
}

/* Applies a list; `proves`: takes it back at once, and leaves the list as it was. Returns true if a weight was not
 * `before`. */
static bool list_do(weft_backend_state *host, const weft_queued_commit *commit, uint64_t list, bool proves)
{
    weft_apply_job job = {0};
    commit->fill(commit->user, list, &job);
    weft_changes own = *job.changes;
    const uint64_t bytes = (uint64_t)own.count * job.target.width;
    weft_run *runs = malloc((job.target.run_count + 1) * sizeof *runs);
    uint8_t *before = malloc(bytes + 1);
    if (!runs || !before)
        abort();
    own.position = deferred_reach(own.position, true);
    own.before = deferred_reach(own.before, true);
    own.after = deferred_reach(own.after, true);
    memcpy(before, own.before, bytes);
    weft_apply_job apply = {.target = view_reach(&job.target, runs), .changes = &own};
    weft_undo_job undo = {.target = apply.target, .changes = &own};
    if (weft_backend_host.apply(host, &apply) != WEFT_OK || (proves && weft_backend_host.undo(host, &undo) != WEFT_OK))
        abort();
    if (proves)
        memcpy(own.before, before, bytes);
    free(before);
    free(runs);
    return apply.mismatch;
}

static void lists_do(weft_queued_commit *commit, bool proves)
{
    const weft_backend_options options = {.device = -1, .kernels = "portable"};
    weft_backend_state *host;
    if (weft_backend_host.open(&options, &host) != WEFT_OK)
        abort();
    for (uint64_t i = commit->count; i-- > 0;)
        if (list_do(host, commit, i, proves))
            commit->altered = i;
    weft_backend_host.close(host);
}

weft_status deferred_queued(weft_backend_state *state, weft_queued_commit *commit)
{
    queued *place = queued_of(state);
    if (!place)
        deferred_refuse("a commit is asked for that is not queued");
    if (place->asks_left-- > 0)
        return WEFT_AGAIN;
    *place = (queued){0};
    const weft_status status = fate(true);
    if (status != WEFT_OK)
        return status;
    commit->altered = UINT64_MAX;
    lists_do(commit, true);
    commit->written = commit->altered == UINT64_MAX;
    if (commit->written && between)
        between();
    between = NULL;
    if (commit->written)
        lists_do(commit, false);
    return WEFT_OK;
}

void deferred_lend_queue(void)
{
    table = weft_backend_host;
    table.queue = deferred_queue;
    table.queued = deferred_queued;
    fails_with = WEFT_OK;
    between = NULL;
    weft_backend_lend(&table);
}
