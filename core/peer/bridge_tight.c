/* bridge_tight.c - makes one update of several at level tight. It rebuilds the bits of both ends block by block and
 * compares them, so that what came back to its old bits is no change. */
#include "base/status.h"
#include "encode/encode_blocks.h"
#include "peer/peer.h"
#include "peer/rebuild.h"

typedef struct work {
    weft_bridge *bridge;
    weft_update *update;
    weft_encode_blocks blocks;
} work;

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

/* Rebuilds the bits of both ends of a block that the sources touch. */
static weft_status block_stand(void *user, uint64_t unit, uint32_t units, bool wanted, bool *any)
{
    const work *w = user;
    weft_rebuilder *rebuilder = w->bridge->rebuilder;
    weft_status status = unit == 0 ? sources_begin(w) : WEFT_OK;
    if (status == WEFT_OK && wanted)
        status = touched(w, unit, units, any);
    if (status != WEFT_OK || !wanted || !*any)
        return status;
    status = weft_rebuild_target(rebuilder, w->update->order, unit, w->blocks.shift);
    return status == WEFT_OK ? weft_rebuild_base(rebuilder, w->update->from) : status;
}

static weft_status block_done(void *user, uint64_t end)
{
    const work *w = user;
    (void)end;
    return weft_bridge_pause(w->bridge);
}

/* ---- frames */

static weft_status emit(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    const work *w = user;
    return weft_bridge_append(w->bridge, w->update, level, frame, bytes);
}

weft_status weft_bridge_tighten(weft_bridge *bridge, weft_update *update)
{
    weft_rebuilder *r = bridge->rebuilder;
    work w = {.bridge = bridge, .update = update};
    weft_encode_pass pass = {.now = &r->target.bound,
                             .shadow = &r->base.bound,
                             .parameters = &update->parameters,
                             .levels = 1u << WEFT_LEVEL_TIGHT,
                             .delta = r->discard,
                             .emit = emit,
                             .user = &w};
    w.blocks = (weft_encode_blocks){.encoder = &bridge->encoder,
                                    .pass = &pass,
                                    .parameters = &update->parameters,
                                    .stand = block_stand,
                                    .moved = block_done,
                                    .user = &w};
    for (uint64_t i = 0; i < bridge->source_count; i++)
        if (bridge->sources[i].run_shift > w.blocks.shift)
            w.blocks.shift = bridge->sources[i].run_shift;
    weft_chain_begin(&update->chain[WEFT_LEVEL_TIGHT]);
    update->levels = 1u << WEFT_LEVEL_TIGHT;
    weft_status status = weft_encode_blocks_choose(&w.blocks);
    if (status == WEFT_OK)
        status = weft_encode_blocks_run(&w.blocks);
    update->changed += pass.changed;
    return status;
}
