/* bridge_tight.c - makes one update of several at level tight. It rebuilds the bits of both ends block by block and
 * compares them, so that what came back to its old bits is no change. */
#include <string.h>

#include "base/status.h"
#include "codec/chooser.h"
#include "peer/peer.h"
#include "peer/rebuild.h"

/* One block in so many is looked at for the parameters; more if that leaves few. */
#define SAMPLE_EACH  8u
#define SAMPLE_LEAST 8u

typedef struct work {
    weft_bridge *bridge;
    weft_update *update;
    uint32_t shift; /* blocks are runs of 2^shift units, or longer */
} work;

static const weft_layout *layout_of(const work *w)
{
    return w->bridge->publisher->session->layout;
}

/* ---- a block */

/* Returns true if the sources change anything in the block. */
static weft_status touched(const work *w, uint64_t unit, uint32_t units, bool *any)
{
    weft_bridge *bridge = w->bridge;
    const weft_arena *arena = &bridge->publisher->journal.arena;
    *any = false;
    if (!weft_bridge_enter(bridge))
        return WEFT_AGAIN;
    for (uint64_t i = 0; i < bridge->source_count; i++) {
        weft_bridge_source *source = &bridge->sources[i];
        source->cursor = weft_cursor_seek_on(arena, source->cursor, unit);
        *any = *any || !weft_cursor_done(arena, &source->cursor, unit + units);
    }
    weft_bridge_leave(bridge);
    return WEFT_OK;
}

static weft_status sources_begin(const work *w)
{
    if (!weft_bridge_enter(w->bridge))
        return WEFT_AGAIN;
    for (uint64_t i = 0; i < w->bridge->source_count; i++) {
        weft_bridge_source *source = &w->bridge->sources[i];
        source->cursor = weft_cursor_begin(&source->update->chain[WEFT_LEVEL_FAST]);
    }
    weft_bridge_leave(w->bridge);
    return WEFT_OK;
}

/* Rebuilds the bits of both ends. */
static weft_status ends_rebuild(const work *w, uint64_t unit)
{
    weft_status status = weft_rebuild_target(w->bridge->rebuilder, w->update->order, unit, w->shift);
    return status == WEFT_OK ? weft_rebuild_base(w->bridge->rebuilder, w->update->from) : status;
}

/* Goes through the blocks that the sources touch, one in every `each`, and acts on each with both ends at hand. */
static weft_status each_block(const work *w, uint32_t each,
                              weft_status (*act)(const work *, uint64_t, uint32_t, void *), void *user)
{
    const weft_layout *layout = layout_of(w);
    weft_status status = sources_begin(w);
    uint32_t units;
    for (uint64_t unit = 0; unit < layout->unit_count && status == WEFT_OK; unit += units) {
        bool any = (layout->units[unit].place >> w->shift) % each == 0;
        units = weft_layout_run(layout, unit, w->shift);
        if (any)
            status = touched(w, unit, units, &any);
        if (status != WEFT_OK || !any)
            continue;
        status = ends_rebuild(w, unit);
        if (status == WEFT_OK)
            status = act(w, unit, units, user);
        if (status == WEFT_OK)
            status = weft_bridge_pause(w->bridge);
    }
    return status;
}

/* ---- parameters */

static weft_status block_survey(const work *w, uint64_t unit, uint32_t units, void *user)
{
    const weft_survey_plan *plan = user;
    const weft_backend *backend = w->bridge->backend;
    weft_rebuilder *r = w->bridge->rebuilder;
    weft_status status = WEFT_OK;
    for (uint64_t at = unit; at < unit + units && status == WEFT_OK; at++) {
        weft_survey_job job = {.now = weft_binding_view(&r->target.bound, at),
                               .shadow = weft_binding_view(&r->base.bound, at),
                               .count = plan->count,
                               .stride = plan->stride,
                               .survey = w->bridge->encoder.surveys,
                               .stream = NULL};
        status = weft_backend_wait(backend, w->bridge->device, backend->survey(w->bridge->device, &job), &job);
    }
    return status;
}

static weft_status choose(work *w)
{
    const weft_layout *layout = layout_of(w);
    uint64_t blocks = layout->unit_count >> w->shift;
    uint32_t each = blocks / SAMPLE_LEAST >= SAMPLE_EACH ? SAMPLE_EACH : (uint32_t)(blocks / SAMPLE_LEAST);
    each = each ? each : 1;
    weft_survey_plan plan = weft_survey_plan_for(layout->elements / each, 1u << WEFT_LEVEL_TIGHT);
    weft_survey_clear(w->bridge->encoder.surveys);
    weft_status status = each_block(w, each, block_survey, &plan);
    if (status == WEFT_OK)
        weft_parameters_choose(w->bridge->encoder.surveys, 1u << WEFT_LEVEL_TIGHT, &w->update->parameters);
    return status;
}

/* ---- frames */

static weft_status emit(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    const work *w = user;
    return weft_bridge_append(w->bridge, w->update, level, frame, bytes);
}

static weft_status block_encode(const work *w, uint64_t unit, uint32_t units, void *user)
{
    const uint64_t end = unit + units;
    weft_status status = WEFT_OK;
    for (; unit < end && status == WEFT_OK; unit += units) {
        units = weft_layout_run(layout_of(w), unit, w->update->parameters.run_shift);
        status = weft_encoder_one(&w->bridge->encoder, user, unit, units);
    }
    return status;
}

weft_status weft_bridge_tighten(weft_bridge *bridge, weft_update *update)
{
    weft_rebuilder *r = bridge->rebuilder;
    work w = {bridge, update, 0};
    weft_encode_pass pass = {.now = &r->target.bound,
                             .shadow = &r->base.bound,
                             .parameters = &update->parameters,
                             .levels = 1u << WEFT_LEVEL_TIGHT,
                             .delta = r->discard,
                             .emit = emit,
                             .user = &w};
    for (uint64_t i = 0; i < bridge->source_count; i++)
        w.shift = bridge->sources[i].run_shift > w.shift ? bridge->sources[i].run_shift : w.shift;
    weft_chain_begin(&update->chain[WEFT_LEVEL_TIGHT]);
    update->levels = 1u << WEFT_LEVEL_TIGHT;
    weft_status status = choose(&w);
    w.shift = update->parameters.run_shift > w.shift ? update->parameters.run_shift : w.shift;
    if (status == WEFT_OK)
        status = each_block(&w, 1, block_encode, &pass);
    update->changed += pass.changed;
    return status;
}
