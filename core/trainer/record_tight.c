/* record_tight.c - an update at level tight, from the bits of both versions: block by block, as the shadow gives them
 * back. */
#include <string.h>

#include "base/status.h"
#include "codec/chooser.h"
#include "layout/digest.h"
#include "peer/peer.h"
#include "trainer/recorder.h"

/* One block in so many is looked at for the parameters; more if that leaves few. */
#define SAMPLE_EACH  8u
#define SAMPLE_LEAST 8u

typedef struct tightening {
    weft_filling *f;
    weft_cursor cursor;
    weft_parameters parameters;
    uint32_t shift; /* blocks are runs of 2^shift units, or longer */
    weft_survey_plan plan;
    weft_encode_pass pass;
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

static weft_status ends_rebuild(tightening *t, uint64_t unit)
{
    weft_rebuilder *rebuilder = &recorder_of(t)->rebuilder;
    const uint64_t order = t->f->record->order;
    weft_status status = weft_rebuild_target(rebuilder, order, unit, t->shift);
    return status == WEFT_OK ? weft_rebuild_base(rebuilder, order - 1) : status;
}

/* Acts on one in every `each` of the blocks that the update changes, with both ends at hand. */
static weft_status each_block(tightening *t, uint32_t each, weft_status (*act)(tightening *, uint64_t, uint32_t))
{
    const weft_layout *layout = layout_of(t);
    weft_status status = WEFT_OK;
    uint32_t units;
    for (uint64_t unit = 0; unit < layout->unit_count && status == WEFT_OK; unit += units) {
        bool any = false;
        units = weft_layout_run(layout, unit, t->shift);
        status = block_look(t, unit, unit + units, &any);
        if (status != WEFT_OK || !any || (layout->units[unit].place >> t->shift) % each != 0)
            continue;
        status = ends_rebuild(t, unit);
        if (status == WEFT_OK)
            status = act(t, unit, units);
    }
    return status;
}

/* ---- parameters */

static weft_status block_survey(tightening *t, uint64_t unit, uint32_t units)
{
    weft_recorder *recorder = recorder_of(t);
    weft_status status = WEFT_OK;
    for (uint64_t at = unit; at < unit + units && status == WEFT_OK; at++) {
        weft_survey_job job = {.now = weft_binding_view(&recorder->rebuilder.target.bound, at),
                               .shadow = weft_binding_view(&recorder->rebuilder.base.bound, at),
                               .count = t->plan.count,
                               .stride = t->plan.stride,
                               .survey = recorder->encoder.surveys,
                               .stream = NULL};
        status = weft_backend_wait(recorder->backend, recorder->device,
                                   recorder->backend->survey(recorder->device, &job), &job);
    }
    return status;
}

static weft_status parameters_choose(tightening *t)
{
    const weft_layout *layout = layout_of(t);
    weft_survey *surveys = recorder_of(t)->encoder.surveys;
    const uint64_t few = (layout->unit_count >> t->shift) / SAMPLE_LEAST;
    const uint32_t each = few >= SAMPLE_EACH ? SAMPLE_EACH : few ? (uint32_t)few : 1;
    t->plan = weft_survey_plan_for(layout->elements / each, 1u << WEFT_LEVEL_TIGHT);
    weft_survey_clear(surveys);
    const weft_status status = each_block(t, each, block_survey);
    if (status == WEFT_OK)
        weft_parameters_choose(surveys, 1u << WEFT_LEVEL_TIGHT, &t->parameters);
    if (t->parameters.run_shift > t->shift)
        t->shift = t->parameters.run_shift;
    return status;
}

/* ---- the file */

static weft_status frame_write(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    tightening *t = user;
    (void)level;
    return weft_update_writer_frame(&t->f->writer, layout_of(t), frame, bytes);
}

static weft_status block_encode(tightening *t, uint64_t unit, uint32_t units)
{
    const uint64_t end = unit + units;
    weft_status status = WEFT_OK;
    for (; unit < end && status == WEFT_OK; unit += units) {
        units = weft_layout_run(layout_of(t), unit, t->parameters.run_shift);
        status = weft_encoder_one(&recorder_of(t)->encoder, &t->pass, unit, units);
    }
    return status;
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
    tightening t = {.f = f, .shift = f->record->parameters.run_shift};
    t.pass = (weft_encode_pass){.now = &recorder->rebuilder.target.bound,
                                .shadow = &recorder->rebuilder.base.bound,
                                .parameters = &t.parameters,
                                .levels = 1u << WEFT_LEVEL_TIGHT,
                                .delta = recorder->after,
                                .emit = frame_write,
                                .user = &t};
    memset(recorder->after, 0, layout_of(&t)->part_count * sizeof *recorder->after);
    weft_status status = parameters_choose(&t);
    if (status == WEFT_OK)
        status = weft_record_begin(f, sink, WEFT_STORE_TIGHT, &f->record->base, &t.parameters);
    if (status == WEFT_OK)
        status = each_block(&t, 1, block_encode);
    return status == WEFT_OK ? finish(&t) : status;
}

weft_status weft_record_tight(weft_record *record)
{
    return weft_record_put(record, WEFT_STORE_TIGHT, tight_fill);
}
