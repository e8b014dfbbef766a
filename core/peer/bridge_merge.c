/* bridge_merge.c - adds up the sources' frames, without a weight. */
#include <string.h>

#include "base/status.h"
#include "encode/staging.h"
#include "peer/peer.h"

/* A publish that encodes has the processor to itself, but for a stretch of a merge now and then. Merges of a trainer
 * that publishes all the time must come to an end too. */
#define PAUSE_NS   (20 * WEFT_NS_PER_MS)
#define STRETCH_NS (5 * WEFT_NS_PER_MS)

bool weft_bridge_enter(weft_bridge *bridge)
{
    pthread_mutex_lock(&bridge->publisher->session->lock);
    if (!bridge->broken)
        return true;
    pthread_mutex_unlock(&bridge->publisher->session->lock);
    return false;
}

void weft_bridge_leave(weft_bridge *bridge)
{
    pthread_mutex_unlock(&bridge->publisher->session->lock);
}

weft_status weft_bridge_pause(weft_bridge *bridge)
{
    uint64_t until_ns = weft_clock_ns() + PAUSE_NS;
    if (until_ns < bridge->paused_ns + PAUSE_NS + STRETCH_NS)
        return WEFT_OK;
    if (!weft_bridge_enter(bridge))
        return WEFT_AGAIN;
    while (bridge->running && bridge->publisher->publishing && !bridge->broken && weft_clock_ns() < until_ns) {
        struct timespec t = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
        pthread_cond_timedwait(&bridge->wake, &bridge->publisher->session->lock, &t);
    }
    weft_bridge_leave(bridge);
    bridge->paused_ns = weft_clock_ns();
    return WEFT_OK;
}

/* Returns true if the work under way may have one block more, after giving up what nobody reads if that must be. */
static bool find_room(weft_bridge *bridge)
{
    bool left = bridge->blocks < bridge->limit, yields = true;
    while (!left && yields && weft_bridge_enter(bridge)) {
        yields = weft_bridge_yield(bridge);
        left = bridge->blocks < bridge->limit;
        weft_bridge_leave(bridge);
    }
    return left;
}

weft_status weft_bridge_append(weft_bridge *bridge, weft_update *update, weft_level level, const uint8_t *frame,
                               uint32_t bytes)
{
    weft_arena *arena = &bridge->publisher->journal.arena;
    const weft_layout *layout = bridge->publisher->session->layout;
    weft_chain *chain = &update->chain[level];
    weft_frame admitted;
    weft_status status = weft_frame_admit(layout, frame, bytes, &admitted);
    if (status != WEFT_OK)
        return status;
    weft_frame_sink sink = weft_chain_sink(arena, chain);
    if (sink.capacity < bytes) {
        if (!find_room(bridge) || !weft_chain_extend(arena, chain))
            return WEFT_E_BUDGET;
        bridge->blocks++;
        sink = weft_chain_sink(arena, chain);
    }
    memcpy(sink.data, frame, bytes);
    weft_chain_note(arena, chain, admitted.header.unit, bytes);
    chain->staged_bytes += weft_staging_need(admitted.header.changed, layout->units[admitted.header.unit].width);
    return WEFT_OK;
}

/* Copies the next frame of a source, because the journal may give the frame up as soon as the lock is left. */
static weft_status next(void *user, uint64_t unit_limit, const uint8_t **frame, uint64_t *bytes)
{
    weft_bridge_source *source = user;
    weft_bridge *bridge = source->bridge;
    const weft_arena *arena = &bridge->publisher->journal.arena;
    if (!weft_bridge_enter(bridge))
        return WEFT_AGAIN;
    *bytes = weft_cursor_take(arena, &source->cursor, unit_limit, bridge->frame);
    *frame = bridge->frame;
    weft_bridge_leave(bridge);
    return WEFT_OK;
}

typedef struct writer {
    weft_bridge *bridge;
    weft_update *update;
    uint64_t unit; /* frames before this unit were taken by an earlier part of the catch-up */
    uint64_t end;  /* unit of the first frame that had no place; 0: all had one */
} writer;

static weft_status append(writer *to, const uint8_t *frame, uint32_t bytes)
{
    weft_frame admitted;
    weft_status status = weft_frame_admit(to->bridge->publisher->session->layout, frame, bytes, &admitted);
    if (status != WEFT_OK || admitted.header.unit < to->unit)
        return status;
    status = weft_bridge_append(to->bridge, to->update, WEFT_LEVEL_FAST, frame, bytes);
    to->end = status == WEFT_E_BUDGET ? admitted.header.unit : 0;
    return status;
}

static weft_status emit(void *user, const uint8_t *frames, uint64_t bytes)
{
    weft_status status = WEFT_OK;
    for (uint64_t at = 0; at < bytes && status == WEFT_OK;) {
        uint64_t length = weft_frame_measure(frames + at, bytes - at);
        status = append(user, frames + at, (uint32_t)length);
        at += length;
    }
    return status;
}

static weft_status moved(void *user, uint64_t unit)
{
    (void)unit;
    return weft_bridge_pause(((const writer *)user)->bridge);
}

uint64_t weft_bridge_start_of(const weft_bridge *bridge, const weft_catch_up *catch_up)
{
    const weft_unit *units = bridge->publisher->session->layout->units;
    const uint32_t within = (1u << WEFT_RUN_SHIFT_MAX) - 1;
    return catch_up->unit > 0 ? catch_up->unit - (units[catch_up->unit].place & within) : 0;
}

/* The frames of a catch-up's region are the same, whichever part of it is made, because sources and version are the
 * same. So a part may end, and the next one begin, at any frame, and no region is too large for the share. */
weft_status weft_bridge_merge(weft_bridge *bridge, weft_update *update, weft_catch_up *catch_up)
{
    writer to = {.bridge = bridge, .update = update, .unit = catch_up->unit};
    weft_merge_pass pass = {.sources = bridge->merge_sources,
                            .count = bridge->source_count,
                            .level = WEFT_LEVEL_FAST,
                            .unit = weft_bridge_start_of(bridge, catch_up),
                            .emit = emit,
                            .user = &to,
                            .moved = moved};
    for (uint64_t i = 0; i < bridge->source_count; i++)
        bridge->merge_sources[i] = (weft_merge_source){&bridge->sources[i], next, WEFT_LEVEL_FAST,
                                                       bridge->sources[i].run_shift, bridge->sources[i].unit_limit};
    pass.run_shift = weft_merge_shift(bridge->merge_sources, bridge->source_count);
    weft_chain_begin(&update->chain[WEFT_LEVEL_FAST]);
    update->parameters = (weft_parameters){.run_shift = pass.run_shift};
    update->levels = 1u << WEFT_LEVEL_FAST;
    weft_status status = weft_merger_run(&bridge->merger, &pass);
    update->changed = pass.changed;
    catch_up->end = to.end ? to.end : pass.end;
    bool some = catch_up->limits && catch_up->end > catch_up->unit;
    return status == WEFT_E_BUDGET && some ? WEFT_OK : status;
}
