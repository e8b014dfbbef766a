/* record.c - the files of a version: an update out of the journal, and an anchor out of the shadow. */
#include <string.h>

#include "base/status.h"
#include "layout/digest.h"
#include "peer/peer.h"
#include "trainer/recorder.h"

static const weft_layout *layout_of(const weft_record *record)
{
    return record->recorder->publisher->session->layout;
}

weft_update_cells *weft_record_cells(const weft_record *record, weft_store_kind kind)
{
    weft_update_cells *cells = &record->recorder->cells[kind];
    return cells->model ? cells : NULL;
}

weft_status weft_record_begin(weft_filling *f, const weft_sink *sink, weft_store_kind kind, const weft_version *base,
                              const weft_parameters *parameters)
{
    static const weft_level levels[WEFT_STORE_KINDS] = {WEFT_JOURNAL_LEVEL, WEFT_LEVEL_FULL, WEFT_JOURNAL_LEVEL,
                                                        WEFT_LEVEL_TIGHT};
    const weft_record *record = f->record;
    const weft_blob *attachment = record->attachment;
    weft_update_cells *cells = weft_record_cells(record, kind);
    weft_wire_update header = {.base = *base, .target = record->target, .level = levels[kind]};
    if (parameters)
        header.parameters = *parameters;
    memcpy(header.layout, layout_of(record)->hash, sizeof header.layout);
    weft_status status = weft_update_writer_begin(&f->writer, sink, &header, attachment ? attachment->data : NULL,
                                                  attachment ? attachment->bytes : 0);
    if (status == WEFT_OK && cells)
        weft_update_writer_divide(&f->writer, layout_of(record), cells);
    return status;
}

weft_status weft_record_put(weft_record *record, weft_store_kind kind,
                            weft_status (*fill)(void *user, const weft_sink *sink))
{
    weft_filling f = {.record = record};
    const weft_status status = weft_store_file_put(record->recorder->store, &record->target, kind, fill, &f);
    weft_update_writer_close(&f.writer);
    return status;
}

weft_status weft_record_enter(const weft_record *record)
{
    pthread_mutex_t *lock = &record->recorder->publisher->session->lock;
    pthread_mutex_lock(lock);
    if (!record->recorder->broken)
        return WEFT_OK;
    pthread_mutex_unlock(lock);
    return WEFT_AGAIN;
}

/* ---- an update */

/* Copies the next frame of the update out of the journal. `*bytes` 0: there is none. */
static weft_status frame_next(const weft_record *record, weft_cursor *cursor, bool *begun, uint32_t *bytes)
{
    weft_recorder *recorder = record->recorder;
    weft_publisher *publisher = recorder->publisher;
    weft_status status = weft_record_enter(record);
    if (status != WEFT_OK)
        return status;
    const weft_update *update = weft_journal_at(&publisher->journal, record->order);
    if (!update || update->snapshot_only)
        status = WEFT_E_BUDGET;
    if (status == WEFT_OK && !*begun)
        *cursor = weft_cursor_begin(&update->chain[WEFT_JOURNAL_LEVEL]);
    *begun = true;
    if (status == WEFT_OK)
        *bytes = weft_cursor_take(&publisher->journal.arena, cursor, UINT64_MAX, recorder->frame);
    pthread_mutex_unlock(&publisher->session->lock);
    return status;
}

static weft_status frames_copy(weft_filling *f)
{
    weft_cursor cursor;
    bool begun = false;
    for (;;) {
        uint32_t bytes = 0;
        weft_status status = frame_next(f->record, &cursor, &begun, &bytes);
        if (status != WEFT_OK || bytes == 0)
            return status;
        status = weft_update_writer_frame(&f->writer, layout_of(f->record), f->record->recorder->frame, bytes);
        if (status != WEFT_OK)
            return status;
    }
}

weft_status weft_record_digests(const weft_publisher *publisher, uint64_t order, uint64_t *digests)
{
    memcpy(digests, publisher->newest.digests, publisher->session->layout->part_count * sizeof *digests);
    if (order > publisher->newest.order || !weft_history_reaches(&publisher->history, order))
        return WEFT_E_BUDGET;
    for (uint64_t at = publisher->newest.order; at > order; at--)
        weft_history_step_back(&publisher->history, at, digests);
    return WEFT_OK;
}

/* Computes what each key adds to the roots of base and target. */
static weft_status shares_make(const weft_record *record, weft_update_cells *cells)
{
    const weft_recorder *recorder = record->recorder;
    const weft_publisher *publisher = recorder->publisher;
    const uint64_t target = record->order ? record->order : record->same, base = record->order ? target - 1 : target;
    weft_status status = weft_record_enter(record);
    if (status != WEFT_OK)
        return status;
    status = weft_record_digests(publisher, target, recorder->after);
    if (status == WEFT_OK)
        status = weft_record_digests(publisher, base, recorder->before);
    pthread_mutex_unlock(&publisher->session->lock);
    if (status != WEFT_OK)
        return status;
    weft_update_cells_base(cells, layout_of(record), recorder->before);
    weft_update_cells_target(cells, layout_of(record), recorder->after);
    return WEFT_OK;
}

static weft_status update_fill(void *user, const weft_sink *sink)
{
    weft_filling *f = user;
    const weft_record *record = f->record;
    weft_update_cells *cells = weft_record_cells(record, WEFT_STORE_UPDATE);
    weft_status status = weft_record_begin(f, sink, WEFT_STORE_UPDATE, &record->base, &record->parameters);
    if (status == WEFT_OK && record->order)
        status = frames_copy(f);
    if (status == WEFT_OK && cells)
        status = shares_make(record, cells);
    if (status != WEFT_OK)
        return status;
    return weft_update_writer_finish(&f->writer, layout_of(record), true, record->base.root, &record->target,
                                     record->changed);
}

weft_status weft_record_update(weft_record *record)
{
    return weft_record_put(record, WEFT_STORE_UPDATE, update_fill);
}

/* ---- an anchor */

static weft_status frame_write(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    weft_filling *f = user;
    (void)level;
    return weft_update_writer_frame(&f->writer, layout_of(f->record), frame, bytes);
}

/* Writes what differs from zeros in the block around a unit. */
static weft_status block_write(weft_filling *f, weft_encode_pass *pass, uint64_t unit, uint32_t units)
{
    weft_recorder *recorder = f->record->recorder;
    weft_status status = weft_rebuild_target(&recorder->rebuilder, f->record->order, unit, WEFT_RUN_SHIFT_MAX);
    if (status != WEFT_OK)
        return status;
    weft_rebuild_zeros(&recorder->rebuilder);
    for (uint64_t at = unit; at < unit + units && status == WEFT_OK; at++)
        status = weft_encoder_one(&recorder->encoder, pass, at, 1);
    return status;
}

/* The root that zeros and the frames lead to must be that of the version. */
static weft_status finish(weft_filling *f, const weft_encode_pass *pass)
{
    const weft_layout *layout = layout_of(f->record);
    const uint64_t zeros = weft_digest_parts_root(layout, pass->digests);
    weft_update_cells *cells = weft_record_cells(f->record, WEFT_STORE_ANCHOR);
    if (cells)
        weft_update_cells_base(cells, layout, pass->digests);
    for (uint64_t part = 0; part < layout->part_count; part++)
        pass->digests[part] += pass->delta[part];
    if (cells)
        weft_update_cells_target(cells, layout, pass->digests);
    const uint64_t root = weft_digest_parts_root(layout, pass->digests);
    if (root != f->record->target.root)
        return weft_fail(WEFT_E_TARGET, "the bits that were rebuilt have digest %016llx, and the version %016llx",
                         (unsigned long long)root, (unsigned long long)f->record->target.root);
    return weft_update_writer_finish(&f->writer, layout, true, zeros, &f->record->target, pass->changed);
}

static weft_status anchor_fill(void *user, const weft_sink *sink)
{
    static const weft_parameters none;
    static const weft_version zeros;
    weft_filling *f = user;
    weft_recorder *recorder = f->record->recorder;
    const weft_layout *layout = layout_of(f->record);
    weft_encode_pass pass = {.now = &recorder->rebuilder.target.bound,
                             .shadow = &recorder->rebuilder.base.bound,
                             .parameters = &none,
                             .levels = 1u << WEFT_LEVEL_FULL,
                             .delta = recorder->delta,
                             .digests = recorder->digests,
                             .emit = frame_write,
                             .user = f};
    memset(recorder->delta, 0, layout->part_count * sizeof *recorder->delta);
    memset(recorder->digests, 0, layout->part_count * sizeof *recorder->digests);
    weft_status status = weft_record_begin(f, sink, WEFT_STORE_ANCHOR, &zeros, NULL);
    uint32_t units;
    for (uint64_t unit = 0; unit < layout->unit_count && status == WEFT_OK; unit += units) {
        units = weft_layout_run(layout, unit, WEFT_RUN_SHIFT_MAX);
        status = block_write(f, &pass, unit, units);
        f->record->beside(recorder);
    }
    return status == WEFT_OK ? finish(f, &pass) : status;
}

weft_status weft_record_anchor(weft_record *record)
{
    return weft_record_put(record, WEFT_STORE_ANCHOR, anchor_fill);
}
