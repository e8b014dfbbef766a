/* record_tight.c - an update at level tight, from the bits of both versions: block by block, as the shadow gives them
 * back. */
#include <string.h>

#include "base/status.h"
#include "encode/encode_blocks.h"
#include "layout/digest.h"
#include "peer/peer.h"
#include "trainer/recorder.h"

typedef struct tightening {
    weft_filling *f;
    weft_cursor cursor;
    weft_parameters parameters;
    weft_encode_pass pass;
    weft_encode_blocks blocks;
} tightening;

static weft_recorder *recorder_of(const tightening *t)
{
    return t->f->record->recorder;
}

static const weft_layout *layout_of(const tightening *t)
{
    return recorder_of(t)->publisher->session->layout;
}

/* ---- blocks */

/* Finds the update in the journal, and then moves the cursor to the block. `any` receives whether the update changes
 * anything there. */
static weft_status block_look(tightening *t, uint64_t unit, uint64_t end, bool *any)
{
    weft_recorder *recorder = recorder_of(t);
    weft_publisher *publisher = recorder->publisher;
    weft_status status = weft_record_enter(t->f->record);
    if (status != WEFT_OK)
        return status;
    const weft_update *update = weft_journal_at(&publisher->journal, t->f->record->order);
    if (!update || update->snapshot_only)
        status = WEFT_E_BUDGET;
    if (status == WEFT_OK && unit == 0)
        t->cursor = weft_cursor_begin(&update->chain[WEFT_JOURNAL_LEVEL]);
    if (status == WEFT_OK) {
        t->cursor = weft_cursor_seek_on(&publisher->journal.arena, t->cursor, unit);
        *any = !weft_cursor_done(&publisher->journal.arena, &t->cursor, end);
    }
    pthread_mutex_unlock(&publisher->session->lock);
    return status;
}

static weft_status block_stand(void *user, uint64_t unit, uint32_t units, bool wanted, bool *any)
{
    tightening *t = user;
    weft_rebuilder *rebuilder = &recorder_of(t)->rebuilder;
    const uint64_t order = t->f->record->order;
    weft_status status = wanted ? block_look(t, unit, unit + units, any) : WEFT_OK;
    if (status != WEFT_OK || !wanted || !*any)
        return status;
    status = weft_rebuild_target(rebuilder, order, unit, t->blocks.shift);
    return status == WEFT_OK ? weft_rebuild_base(rebuilder, order - 1) : status;
}

/* ---- the file */

static weft_status frame_write(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    tightening *t = user;
    (void)level;
    return weft_update_writer_frame(&t->f->writer, layout_of(t), frame, bytes);
}

/* The frames must lead to the version's root. */
static weft_status finish(tightening *t)
{
    const weft_record *record = t->f->record;
    weft_recorder *recorder = record->recorder;
    weft_publisher *publisher = recorder->publisher;
    const weft_layout *layout = layout_of(t);
    weft_update_cells *cells = weft_record_cells(record, WEFT_STORE_TIGHT);
    weft_status status = weft_record_enter(record);
    if (status != WEFT_OK)
        return status;
    status = weft_record_digests(publisher, record->order - 1, recorder->before);
    pthread_mutex_unlock(&publisher->session->lock);
    if (status != WEFT_OK)
        return status;
    for (uint64_t part = 0; part < layout->part_count; part++)
        recorder->after[part] += recorder->before[part];
    const uint64_t root = weft_digest_parts_root(layout, recorder->after);
    if (root != record->target.root)
        return weft_fail(WEFT_E_TARGET, "the bits that were rebuilt have digest %016llx, and the version %016llx",
                         (unsigned long long)root, (unsigned long long)record->target.root);
    if (cells) {
        weft_update_cells_base(cells, layout, recorder->before);
        weft_update_cells_target(cells, layout, recorder->after);
    }
    return weft_update_writer_finish(&t->f->writer, layout, true, record->base.root, &record->target, t->pass.changed);
}

static weft_status tight_fill(void *user, const weft_sink *sink)
{
    weft_filling *f = user;
    weft_recorder *recorder = f->record->recorder;
    tightening t = {.f = f};
    t.pass = (weft_encode_pass){.now = &recorder->rebuilder.target.bound,
                                .shadow = &recorder->rebuilder.base.bound,
                                .parameters = &t.parameters,
                                .levels = 1u << WEFT_LEVEL_TIGHT,
                                .delta = recorder->after,
                                .emit = frame_write,
                                .user = &t};
    t.blocks = (weft_encode_blocks){.encoder = &recorder->encoder,
                                    .pass = &t.pass,
                                    .parameters = &t.parameters,
                                    .shift = f->record->parameters.run_shift,
                                    .stand = block_stand,
                                    .user = &t};
    memset(recorder->after, 0, layout_of(&t)->part_count * sizeof *recorder->after);
    weft_status status = weft_encode_blocks_choose(&t.blocks);
    if (status == WEFT_OK)
        status = weft_record_begin(f, sink, WEFT_STORE_TIGHT, &f->record->base, &t.parameters);
    if (status == WEFT_OK)
        status = weft_encode_blocks_run(&t.blocks);
    return status == WEFT_OK ? finish(&t) : status;
}

weft_status weft_record_tight(weft_record *record)
{
    return weft_record_put(record, WEFT_STORE_TIGHT, tight_fill);
}
