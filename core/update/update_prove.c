#include "update/update_prove.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "layout/layout_match.h"
#include "update/update_work.h"

typedef unsigned long long ull;

/* ---- open */

/* Checks that the file's grid is the layout's, because frames are read by the one and applied by the other. */
static weft_status grid_fits(weft_update_file *file, const weft_layout *layout)
{
    const weft_layout *said;
    int named;
    weft_status status = weft_update_layout(file, &said, &named);
    if (status != WEFT_OK)
        return status;
    bool same = said->count == layout->count;
    for (uint64_t t = 0; t < layout->count && same; t++)
        same = said->entries[t].row == layout->entries[t].row && said->entries[t].coded == layout->entries[t].coded;
    return same ? WEFT_OK : weft_fail(WEFT_E_CORRUPT, "the update's grid is not that of the layout it names");
}

/* Says how the layouts differ, as far as the file has names. */
static weft_status differs(weft_update_file *file, const weft_layout *layout)
{
    const weft_layout *said;
    char text[WEFT_MATCH_TEXT];
    int named;
    weft_status status = weft_update_layout(file, &said, &named);
    if (status != WEFT_OK)
        return status;
    if (!named)
        return weft_fail(WEFT_E_LAYOUT,
                         "the update has no names (names = never), and its layout's hash is not that of the weights: "
                         "other tensors, or the same in another order, which cannot be matched without names");
    const weft_match_side mine = weft_match_layout("the weights", layout),
                          theirs = weft_match_layout("the update", said);
    status = weft_match_by_name(&mine, &theirs, NULL, text);
    return status != WEFT_OK ? status
                             : weft_fail(WEFT_E_LAYOUT,
                                         "the update has the tensors of the weights in another order: give its layout "
                                         "(weft_update_layout), and pieces by the numbers of that (weft_layout_match)");
}

weft_status weft_update_layout_fits(weft_update_file *file, const weft_layout *layout)
{
    const uint64_t *want = file->header.layout, *have = layout->hash;
    if (want[0] == have[0] && want[1] == have[1])
        return grid_fits(file, layout);
    return differs(file, layout);
}

weft_status weft_update_pieces_match(weft_update_file *file, const weft_layout **layout, const weft_piece *pieces,
                                     uint64_t count, weft_piece **renumbered)
{
    const uint64_t *want = file->header.layout, *have = (*layout)->hash;
    const weft_layout *said;
    int named;
    *renumbered = NULL;
    if (want[0] == have[0] && want[1] == have[1])
        return WEFT_OK;
    weft_status status = weft_update_layout(file, &said, &named);
    if (status != WEFT_OK || !named)
        return status == WEFT_OK ? differs(file, *layout) : status;
    const weft_match_side mine = weft_match_layout("the weights", *layout),
                          theirs = weft_match_layout("the update", said);
    status = weft_match_pieces(&mine, &theirs, pieces, count, renumbered);
    if (status == WEFT_OK)
        *layout = said;
    return status;
}

weft_status weft_update_prover_open(weft_update_prover *prover, weft_update_file *file, const weft_layout *layout,
                                    const weft_piece *pieces, uint64_t count, const weft_work *work)
{
    *prover = (weft_update_prover){.file = file, .layout = layout, .work = work, .passes = 1};
    weft_status status = weft_update_layout_fits(file, layout);
    if (status == WEFT_OK)
        status = weft_binding_open((weft_layout *)(uintptr_t)layout, pieces, count, &prover->base);
    if (status == WEFT_OK)
        status = weft_update_pass_open(&prover->pass, layout, work);
    if (status == WEFT_OK)
        status = weft_update_cursor_open(&prover->cursor, file, layout);
    prover->digests = weft_mem_take(layout->part_count + 1, sizeof *prover->digests);
    prover->delta = weft_mem_take(layout->part_count + 1, sizeof *prover->delta);
    if (status == WEFT_OK && (!prover->digests || !prover->delta))
        status = weft_fail(WEFT_E_MEMORY, "no memory for %llu digests", (ull)layout->part_count);
    if (status != WEFT_OK)
        weft_update_prover_close(prover);
    return status;
}

void weft_update_prover_close(weft_update_prover *prover)
{
    weft_mem_give(prover->delta);
    weft_mem_give(prover->digests);
    weft_update_cursor_close(&prover->cursor);
    weft_update_pass_close(&prover->pass);
    weft_binding_close(&prover->base);
    *prover = (weft_update_prover){0};
}

/* ---- one frame, one group */

weft_status weft_update_decode(weft_update_prover *prover, weft_update_worker *worker, const uint8_t *frame,
                               uint64_t bytes, weft_changes *changes)
{
    const weft_backend *backend = prover->pass.backend;
    weft_decode_job job = {
        .parameters = &prover->file->header.parameters, .changes = changes, .tensor_delta = prover->delta};
    uint64_t length;
    weft_status status = weft_planes_admit(&worker->unpacker, prover->layout, frame, bytes, &job.frame, &length);
    if (status == WEFT_OK && length != bytes)
        status = weft_fail(WEFT_E_CORRUPT, "update file: a frame of %llu bytes in %llu", (ull)length, (ull)bytes);
    if (status != WEFT_OK)
        return status;
    job.base = weft_binding_span(&prover->base, job.frame.header.unit, job.frame.header.units);
    return weft_backend_wait(backend, worker->device, backend->decode(worker->device, &job), &job);
}

static weft_status decode_group(weft_update_prover *prover, weft_update_worker *worker, weft_update_group *group)
{
    weft_status status = WEFT_OK;
    uint64_t list = group->first_list;
    for (uint64_t at = 0, bytes; at < group->used && status == WEFT_OK; at += bytes) {
        bytes = weft_frame_measure(group->data + at, group->used - at);
        weft_changes *changes = prover->staging ? weft_staging_at(prover->staging, list++) : &worker->changes;
        status = weft_update_decode(prover, worker, group->data + at, bytes, changes);
        group->changed += status == WEFT_OK ? changes->count : 0;
    }
    return status;
}

static weft_status prove_group(weft_update_pass *pass, weft_update_worker *worker, weft_update_group *group)
{
    weft_update_prover *prover = pass->user;
    weft_status status = WEFT_OK;
    uint64_t begun = weft_clock_ns(), middle;
    for (uint64_t unit = group->unit; unit < group->end && status == WEFT_OK; unit++) {
        weft_digest_job job = {.view = weft_binding_view(&prover->base, unit), .tensor_delta = prover->digests};
        status = weft_backend_wait(pass->backend, worker->device, pass->backend->digest(worker->device, &job), &job);
    }
    middle = weft_clock_ns();
    group->failed = status == WEFT_OK && decode_group(prover, worker, group) != WEFT_OK;
    worker->digest_ms += weft_clock_ms(begun, middle);
    worker->decode_ms += weft_clock_ms(middle, weft_clock_ns());
    return status;
}

/* ---- rounds */

static weft_status list_take(weft_update_prover *prover, const uint8_t *frame)
{
    const weft_unit *unit = &prover->layout->units[weft_bytes_get(frame, 4)];
    uint32_t changed = (uint32_t)weft_bytes_get(frame + 8, 4) & ((1u << 20) - 1);
    if (weft_staging_take(prover->staging, (uint32_t)weft_bytes_get(frame, 4), changed, unit->width))
        return WEFT_OK;
    return weft_fail(WEFT_E_BUDGET,
                     "the changes need more than memory_bytes = %llu; give more, or use weft_update_rewrite",
                     (ull)prover->memory_bytes);
}

static weft_status group_read(weft_update_prover *prover, weft_update_group *group)
{
    const uint8_t *frame;
    uint64_t bytes = 0;
    weft_status status;
    group->first_list = prover->staging ? prover->staging->count : 0;
    do {
        status = weft_update_cursor_next(&prover->cursor, group->end, &frame, &bytes);
        if (status != WEFT_OK || bytes == 0)
            break;
        if (bytes > group->capacity - group->used)
            return weft_fail(WEFT_E_CORRUPT, "update file: frames of units %llu to %llu are larger than dense",
                             (ull)group->unit, (ull)group->end);
        memcpy(group->data + group->used, frame, bytes);
        group->used += bytes;
        status = prover->staging ? list_take(prover, frame) : WEFT_OK;
    } while (status == WEFT_OK);
    return status;
}

static weft_status round_run(weft_update_prover *prover)
{
    weft_update_pass *pass = &prover->pass;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < pass->filled && status == WEFT_OK && !prover->failed; i++)
        status = group_read(prover, &pass->groups[i]);
    if (status == WEFT_OK)
        status = weft_update_pass_run(pass);
    for (uint32_t i = 0; i < pass->filled && status == WEFT_OK; i++) {
        prover->changed += pass->groups[i].changed;
        prover->failed = prover->failed || pass->groups[i].failed;
    }
    return status == WEFT_OK ? weft_update_prover_progress(prover, 0, pass->next_unit) : status;
}

/* Decodes again until the first frame that fails, for its error. */
static weft_status decode_again(weft_update_prover *prover)
{
    weft_update_worker *worker = &prover->pass.workers[0];
    const uint8_t *frame;
    uint64_t bytes;
    weft_status status;
    weft_update_cursor_begin(&prover->cursor);
    do {
        status = weft_update_cursor_next(&prover->cursor, prover->layout->unit_count, &frame, &bytes);
        if (status == WEFT_OK && bytes > 0)
            status = weft_update_decode(prover, worker, frame, bytes, &worker->changes);
    } while (status == WEFT_OK && bytes > 0);
    return status != WEFT_OK ? status : weft_fail(WEFT_E_BASE, "the weights changed while they were read");
}

static weft_status judge_base(const weft_update_prover *prover)
{
    const weft_version *base = &prover->file->header.base;
    uint64_t root = weft_digest_parts_root(prover->layout, prover->digests);
    if (root == base->root)
        return WEFT_OK;
    return weft_fail(WEFT_E_BASE, "the weights have digest %016llx, the update starts from %016llx (version %llu)",
                     (ull)root, (ull)base->root, (ull)base->number);
}

weft_status weft_update_judge_target(const weft_update_prover *prover)
{
    const weft_version *target = &prover->file->header.target;
    uint64_t root = 0;
    for (uint64_t t = 0; t < prover->layout->count; t++)
        root += weft_digest_term(t, weft_digest_tensor(prover->layout, prover->digests, t) +
                                        weft_digest_tensor(prover->layout, prover->delta, t));
    if (root == target->root)
        return WEFT_OK;
    return weft_fail(WEFT_E_TARGET, "base and changes have digest %016llx, the update's target %016llx (version %llu)",
                     (ull)root, (ull)target->root, (ull)target->number);
}

weft_status weft_update_prove(weft_update_prover *prover)
{
    weft_status status = WEFT_OK;
    weft_update_cursor_begin(&prover->cursor);
    weft_update_pass_begin(&prover->pass, prover->file->header.parameters.run_shift, prove_group, prover);
    while (status == WEFT_OK && weft_update_pass_fill(&prover->pass))
        status = round_run(prover);
    if (status == WEFT_OK)
        status = judge_base(prover);
    if (status == WEFT_OK && prover->failed)
        status = decode_again(prover);
    if (status == WEFT_OK)
        status = weft_update_cursor_finish(&prover->cursor);
    return status == WEFT_OK ? weft_update_judge_target(prover) : status;
}

/* ---- reports */

weft_status weft_update_prover_progress(const weft_update_prover *prover, uint32_t pass, uint64_t unit)
{
    uint64_t units = prover->layout->unit_count;
    return weft_update_progress(prover->work, pass * units + unit, prover->passes * units);
}

void weft_update_prover_report(const weft_update_prover *prover, double apply_ms, weft_apply_info *info)
{
    weft_apply_info all = {.version = prover->file->header.target, .changed = prover->changed, .apply_ms = apply_ms};
    uint32_t workers = prover->pass.lanes.count;
    for (uint32_t i = 0; i < workers; i++) {
        all.digest_ms += prover->pass.workers[i].digest_ms / workers;
        all.decode_ms += prover->pass.workers[i].decode_ms / workers;
    }
    size_t size = info->size < sizeof all ? info->size : sizeof all;
    all.size = size;
    memcpy(info, &all, size);
}
