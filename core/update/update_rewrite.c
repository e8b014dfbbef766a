/* update_rewrite.c - base and proved update as a stream of the target's bytes, unit by unit in layout order. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "update/update_prove.h"
#include "update/update_work.h"

typedef struct weft_update_rewriter {
    weft_update_prover *prover;
    const weft_sink *sink;
    uint8_t *dense; /* one unit */
    uint64_t unit;  /* the next one to write */
} rewriter;

static weft_status unit_load(const rewriter *r)
{
    const weft_update_pass *pass = &r->prover->pass;
    weft_backend_state *device = pass->workers[0].device;
    weft_load_job job = {.view = weft_binding_view(&r->prover->base, r->unit), .bytes = r->dense};
    return weft_backend_wait(pass->backend, device, pass->backend->load(device, &job), &job);
}

static weft_status unit_write(rewriter *r)
{
    const weft_unit *unit = &r->prover->layout->units[r->unit];
    weft_status status = weft_update_write(r->sink, r->dense, (uint64_t)unit->count * unit->width);
    r->unit++;
    if (status == WEFT_OK && (r->unit % 16 == 0 || r->unit == r->prover->layout->unit_count))
        status = weft_update_prover_progress(r->prover, 1, r->unit);
    return status;
}

/* Units without changes. */
static weft_status write_plain(rewriter *r, uint64_t end)
{
    weft_status status = WEFT_OK;
    while (r->unit < end && status == WEFT_OK) {
        status = unit_load(r);
        if (status == WEFT_OK)
            status = unit_write(r);
    }
    return status;
}

/* Puts the changes from `from` on that lie in the next unit into the unit's bytes; returns the end of these changes. */
static weft_status changes_put(const rewriter *r, const weft_changes *changes, uint32_t begin, uint32_t *from)
{
    const weft_update_pass *pass = &r->prover->pass;
    weft_backend_state *device = pass->workers[0].device;
    weft_run run = {.data = r->dense};
    weft_apply_job job = {.target = weft_binding_view(&r->prover->base, r->unit)};
    uint32_t end = *from;
    while (end < changes->count && changes->position[end] - begin < job.target.count)
        changes->position[end++] -= begin;
    weft_changes part = {.unit = (uint32_t)r->unit, .units = 1, .count = end - *from, .capacity = end - *from};
    part.position = changes->position + *from;
    part.before = (uint8_t *)changes->before + (uint64_t)*from * job.target.width;
    part.after = (uint8_t *)changes->after + (uint64_t)*from * job.target.width;
    run.position = job.target.first;
    run.count = job.target.count;
    job.target.runs = &run;
    job.target.run_count = 1;
    job.changes = &part;
    *from = end;
    weft_status status = weft_backend_wait(pass->backend, device, pass->backend->apply(device, &job), &job);
    return status == WEFT_OK && job.mismatch ? weft_fail(WEFT_E_BASE, "the weights changed while they were read")
                                             : status;
}

static weft_status write_changed(rewriter *r, const weft_changes *changes)
{
    weft_status status = WEFT_OK;
    uint32_t begin = 0, from = 0;
    for (uint32_t i = 0; i < changes->units && status == WEFT_OK; i++) {
        uint32_t count = r->prover->layout->units[r->unit].count;
        status = unit_load(r);
        if (status == WEFT_OK)
            status = changes_put(r, changes, begin, &from);
        if (status == WEFT_OK)
            status = unit_write(r);
        begin += count;
    }
    return status;
}

/* Decodes and proves all frames once more, because the weights may have changed since. The caller can still discard the
 * sink's bytes. */
static weft_status write_all(rewriter *r)
{
    weft_update_prover *prover = r->prover;
    weft_update_worker *worker = &prover->pass.workers[0];
    const uint8_t *frame;
    uint64_t bytes, units = prover->layout->unit_count;
    memset(prover->delta, 0, prover->layout->part_count * sizeof *prover->delta);
    weft_update_cursor_begin(&prover->cursor);
    for (;;) {
        weft_status status = weft_update_cursor_next(&prover->cursor, units, &frame, &bytes);
        if (status == WEFT_OK && bytes == 0)
            break;
        if (status == WEFT_OK)
            status = weft_update_decode(prover, worker, frame, bytes, &worker->changes);
        if (status == WEFT_OK)
            status = write_plain(r, worker->changes.unit);
        if (status == WEFT_OK)
            status = write_changed(r, &worker->changes);
        if (status != WEFT_OK)
            return status;
    }
    weft_status status = write_plain(r, units);
    return status == WEFT_OK ? weft_update_judge_target(prover) : status;
}

weft_status weft_update_rewrite(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
                                uint64_t count, const weft_work *work, const weft_sink *sink, weft_apply_info *info)
{
    WEFT_ALONE(update, "weft_update_rewrite");
    weft_update_prover prover;
    weft_work own;
    weft_status status = weft_update_sizes_check(work, info, "weft_apply_info");
    if (status != WEFT_OK)
        return status;
    work = weft_update_work_take(work, &own);
    status = weft_update_prover_open(&prover, update, layout, pieces, count, work);
    if (status != WEFT_OK)
        return status;
    rewriter r = {.prover = &prover, .sink = sink, .dense = weft_mem_take(layout->largest_frame, 1)};
    prover.passes = 2;
    status = r.dense ? weft_update_prove(&prover) : weft_fail(WEFT_E_MEMORY, "no memory for a unit");
    uint64_t begun = weft_clock_ns();
    if (status == WEFT_OK)
        status = write_all(&r);
    if (status == WEFT_OK && info)
        weft_update_prover_report(&prover, weft_clock_ms(begun, weft_clock_ns()), info);
    weft_mem_give(r.dense);
    weft_update_prover_close(&prover);
    return status;
}
