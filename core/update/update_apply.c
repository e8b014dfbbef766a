/* update_apply.c - a proved update put in place: every tensor or none. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "update/update_prove.h"
#include "update/update_work.h"

#define MEMORY_DEFAULT (UINT64_C(1) << 30)

static void undo(weft_update_prover *prover, uint64_t count)
{
    const weft_backend *backend = prover->pass.backend;
    weft_backend_state *device = prover->pass.workers[0].device;
    while (count-- > 0) {
        const weft_changes *changes = weft_staging_at(prover->staging, count);
        weft_undo_job job = {.target = weft_binding_span(&prover->base, changes->unit, changes->units),
                             .changes = changes,
                             .stream = NULL};
        weft_backend_wait(backend, device, backend->undo(device, &job), &job);
    }
}

static weft_status commit(weft_update_prover *prover)
{
    const weft_backend *backend = prover->pass.backend;
    weft_backend_state *device = prover->pass.workers[0].device;
    for (uint64_t i = 0; i < prover->staging->count; i++) {
        weft_changes *changes = weft_staging_at(prover->staging, i);
        weft_apply_job job = {.target = weft_binding_span(&prover->base, changes->unit, changes->units),
                              .changes = changes};
        weft_status status = weft_backend_wait(backend, device, backend->apply(device, &job), &job);
        if (status == WEFT_OK && !job.mismatch)
            continue;
        undo(prover, status == WEFT_OK ? i + 1 : i);
        return status != WEFT_OK
                   ? status
                   : weft_fail(WEFT_E_BASE, "weights of unit %u changed while the update was applied; undone",
                               changes->unit);
    }
    return WEFT_OK;
}

weft_status weft_update_apply(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
                              uint64_t count, const weft_work *work, weft_apply_info *info)
{
    WEFT_ALONE(update, "weft_update_apply");
    weft_update_prover prover;
    weft_staging staging;
    weft_piece *renumbered = NULL;
    weft_work own;
    weft_status status = weft_update_sizes_check(work, info, "weft_apply_info");
    if (status == WEFT_OK)
        status = weft_update_pieces_match(update, &layout, pieces, count, &renumbered);
    if (status != WEFT_OK)
        return status;
    work = weft_update_work_take(work, &own);
    status = weft_update_prover_open(&prover, update, layout, renumbered ? renumbered : pieces, count, work);
    weft_mem_give(renumbered);
    if (status != WEFT_OK)
        return status;
    status = weft_binding_apart(&prover.base);
    if (status != WEFT_OK) {
        weft_update_prover_close(&prover);
        return status;
    }
    prover.memory_bytes = work && work->memory_bytes ? work->memory_bytes : MEMORY_DEFAULT;
    status = weft_staging_open(&staging, prover.pass.backend, prover.pass.workers[0].device, prover.memory_bytes,
                               layout->unit_count + 1, "memory_bytes of weft_work, or its default");
    if (status == WEFT_OK) {
        prover.staging = &staging;
        status = weft_update_prove(&prover);
    }
    uint64_t begun = weft_clock_ns();
    if (status == WEFT_OK)
        status = commit(&prover);
    if (status == WEFT_OK && info)
        weft_update_prover_report(&prover, weft_clock_ms(begun, weft_clock_ns()), info);
    weft_staging_close(&staging);
    weft_update_prover_close(&prover);
    return status;
}
