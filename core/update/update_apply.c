/* update_apply.c - a proved update put in place, every tensor or none, or written as a stream of the target's bytes. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "update/update_fit.h"
#include "update/update_move.h"
#include "update/update_work.h"

/* An update of weights. */
typedef struct application {
    weft_binding base;
    weft_mover mover;
    weft_update_step step;
} application;

static weft_status application_open(application *a, weft_update_file *update, const weft_layout *layout,
                                    const weft_piece *pieces, uint64_t count, uint32_t passes, const weft_work *work)
{
    *a = (application){.step = {.file = update}};
    weft_status status = weft_update_layout_fits(update, layout);
    if (status == WEFT_OK)
        status = weft_binding_open((weft_layout *)(uintptr_t)layout, pieces, count, &a->base);
    if (status == WEFT_OK)
        status = weft_mover_open(&a->mover, layout, NULL, &a->base, work);
    a->mover.passes = passes;
    return status == WEFT_OK ? weft_mover_way(&a->mover, &a->step, 1, false) : status;
}

static void application_close(application *a)
{
    weft_mover_close(&a->mover);
    weft_binding_close(&a->base);
}

/* ---- in place */

static void undo(const weft_mover *mover, uint64_t count)
{
    const weft_backend *backend = mover->pass.backend;
    weft_backend_state *device = mover->pass.workers[0].device;
    while (count-- > 0) {
        const weft_changes *changes = weft_staging_at(mover->staging, count);
        weft_undo_job job = {.target = weft_binding_span(mover->weights, changes->unit, changes->units),
                             .changes = changes,
                             .stream = NULL};
        weft_backend_wait(backend, device, backend->undo(device, &job), &job);
    }
}

static weft_status commit(const weft_mover *mover)
{
    const weft_backend *backend = mover->pass.backend;
    weft_backend_state *device = mover->pass.workers[0].device;
    for (uint64_t i = 0; i < mover->staging->count; i++) {
        weft_changes *changes = weft_staging_at(mover->staging, i);
        weft_apply_job job = {.target = weft_binding_span(mover->weights, changes->unit, changes->units),
                              .changes = changes};
        weft_status status = weft_backend_wait(backend, device, backend->apply(device, &job), &job);
        if (status == WEFT_OK && !job.mismatch)
            continue;
        undo(mover, status == WEFT_OK ? i + 1 : i);
        return status != WEFT_OK
                   ? status
                   : weft_fail(WEFT_E_BASE, "weights of unit %u changed while the update was applied; undone",
                               changes->unit);
    }
    return WEFT_OK;
}

/* Proves and commits, with the changes of all frames in memory between. */
static weft_status put(application *a, weft_apply_info *info)
{
    weft_mover *mover = &a->mover;
    weft_staging staging;
    weft_status status = weft_binding_apart(&a->base);
    if (status != WEFT_OK)
        return status;
    status = weft_staging_open(&staging, mover->pass.backend, mover->pass.workers[0].device, mover->memory_bytes,
                               mover->part.layout->unit_count + 1, "memory_bytes of weft_work, or its default");
    if (status == WEFT_OK) {
        mover->staging = &staging;
        status = weft_mover_prove(mover);
    }
    const uint64_t begun = weft_clock_ns();
    if (status == WEFT_OK)
        status = commit(mover);
    if (status == WEFT_OK && info)
        weft_mover_report(mover, weft_clock_ms(begun, weft_clock_ns()), info);
    weft_staging_close(&staging);
    return status;
}

weft_status weft_update_apply(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
                              uint64_t count, const weft_work *work, weft_apply_info *info)
{
    WEFT_ALONE(update, "weft_update_apply");
    application a;
    weft_piece *renumbered = NULL;
    weft_work own;
    weft_status status = weft_update_sizes_check(work, info, "weft_apply_info");
    if (status == WEFT_OK)
        status = weft_update_pieces_match(update, &layout, pieces, count, &renumbered);
    if (status != WEFT_OK)
        return status;
    status = application_open(&a, update, layout, renumbered ? renumbered : pieces, count, 1,
                              weft_update_work_take(work, &own));
    weft_mem_give(renumbered);
    if (status == WEFT_OK)
        status = put(&a, info);
    application_close(&a);
    return status;
}

/* ---- as a stream */

static weft_status stream(void *user, const uint8_t *bytes, uint64_t count)
{
    return weft_update_write(user, bytes, count);
}

weft_status weft_update_rewrite(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
                                uint64_t count, const weft_work *work, const weft_sink *sink, weft_apply_info *info)
{
    WEFT_ALONE(update, "weft_update_rewrite");
    application a;
    weft_work own;
    weft_status status = weft_update_sizes_check(work, info, "weft_apply_info");
    if (status != WEFT_OK)
        return status;
    status = application_open(&a, update, layout, pieces, count, 2, weft_update_work_take(work, &own));
    if (status == WEFT_OK)
        status = weft_mover_prove(&a.mover);
    const uint64_t begun = weft_clock_ns();
    if (status == WEFT_OK)
        status = weft_mover_stream(&a.mover, stream, (void *)(uintptr_t)sink);
    if (status == WEFT_OK && info)
        weft_mover_report(&a.mover, weft_clock_ms(begun, weft_clock_ns()), info);
    application_close(&a);
    return status;
}
