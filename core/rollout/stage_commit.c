/* stage_commit.c - staged changes into the weights, all or none. */
#include "base/status.h"
#include "layout/part.h"
#include "rollout/rollout.h"

typedef struct commit {
    weft_rollout *rollout;
    uint64_t begun;              /* lists applied, in whole or not at all */
    const weft_changes *altered; /* the first that met other bits than it was staged on */
} commit;

static void apply_fill(void *user, uint64_t list, weft_job *job)
{
    weft_rollout *rollout = ((const commit *)user)->rollout;
    weft_changes *changes = weft_staging_at(&rollout->stage.staging, list);
    job->apply = (weft_apply_job){.target = weft_binding_span(&rollout->current.weights, changes->unit, changes->units),
                                  .changes = changes,
                                  .stream = rollout->stage.stream};
}

/* Empties a list that failed, because such a list has changed nothing that could be undone. */
static weft_status apply_done(void *user, uint64_t list, const weft_job *job)
{
    commit *c = user;
    c->begun = list + 1;
    if (job->status != WEFT_OK)
        job->apply.changes->count = 0;
    else if (job->apply.mismatch && !c->altered)
        c->altered = job->apply.changes;
    return job->status == WEFT_OK && job->apply.mismatch ? WEFT_E_BASE : job->status;
}

static void undo_fill(void *user, uint64_t list, weft_job *job)
{
    weft_rollout *rollout = ((const commit *)user)->rollout;
    const weft_changes *changes = weft_staging_at(&rollout->stage.staging, list);
    job->undo = (weft_undo_job){.target = weft_binding_span(&rollout->current.weights, changes->unit, changes->units),
                                .changes = changes,
                                .stream = rollout->stage.stream};
}

weft_status weft_stage_altered(weft_rollout *rollout, const weft_changes *changes)
{
    char name[WEFT_PART_TEXT];
    weft_verify_name(rollout, changes->unit, changes->units, name);
    return weft_fail(WEFT_E_BASE, "version %llu: %s: the weights changed since it was staged; undone",
                     (unsigned long long)rollout->arriving.queue[0].trailer.target.number, name);
}

/* Undoes the first `count` lists. */
static weft_status undo_lists(commit *c, uint64_t count)
{
    const weft_chore undo = {WEFT_JOB_UNDO, undo_fill, NULL, c};
    return weft_pipeline_run(&c->rollout->session->calls, &undo, 0, count) == WEFT_OK ? WEFT_OK : WEFT_E_DEVICE;
}

weft_status weft_stage_apply(weft_rollout *rollout)
{
    commit c = {.rollout = rollout};
    const weft_chore apply = {WEFT_JOB_APPLY, apply_fill, apply_done, &c};
    weft_status status = weft_pipeline_run(&rollout->session->calls, &apply, 0, rollout->stage.staging.count);
    if (status == WEFT_OK)
        return WEFT_OK;
    if (status != WEFT_E_DEVICE && undo_lists(&c, c.begun) != WEFT_OK)
        status = WEFT_E_DEVICE;
    return status == WEFT_E_BASE ? weft_stage_altered(rollout, c.altered) : status;
}

static void image_fill(void *user, uint64_t unit, weft_job *job)
{
    const weft_rollout *rollout = user;
    job->store = (weft_store_job){.view = weft_binding_view(&rollout->current.weights, unit),
                                  .bytes = weft_binding_view(&rollout->stage.image_binding, unit).runs[0].data,
                                  .stream = rollout->stage.stream};
}

static weft_status commit_image(weft_rollout *rollout)
{
    const weft_chore store = {WEFT_JOB_STORE, image_fill, NULL, rollout};
    return weft_pipeline_run(&rollout->session->calls, &store, 0, rollout->layout->unit_count);
}

weft_status weft_stage_commit(weft_rollout *rollout)
{
    if (rollout->arriving.kept.encoded)
        return weft_stage_commit_encoded(rollout);
    if (!rollout->arriving.queue[0].header.snapshot)
        return weft_stage_apply(rollout);
    return rollout->stage.into_image ? commit_image(rollout) : WEFT_OK;
}

weft_status weft_stage_undo(weft_rollout *rollout)
{
    commit c = {.rollout = rollout};
    return rollout->arriving.kept.encoded ? weft_stage_undo_encoded(rollout)
                                          : undo_lists(&c, rollout->stage.staging.count);
}
