#include "rebuild.h"

#include <string.h>

#include "mem.h"
#include "peer.h"
#include "status.h"

/* Publishes that may come in between before it is given up. */
#define TRIES 8u

weft_status weft_rebuilder_bind(weft_rebuilder *rebuilder, const weft_binding *shadow)
{
    if (rebuilder->moved.runs)
        return WEFT_OK;
    rebuilder->moved = *shadow;
    rebuilder->moved.runs = weft_mem_take(shadow->run_count + 1, sizeof *rebuilder->moved.runs);
    if (!rebuilder->moved.runs)
        return weft_fail(WEFT_E_MEMORY, "no memory to rebuild a version");
    memcpy(rebuilder->moved.runs, shadow->runs, shadow->run_count * sizeof *shadow->runs);
    return WEFT_OK;
}

weft_status weft_rebuilder_open(weft_rebuilder *rebuilder, const weft_layout *layout)
{
    uint64_t most = UINT64_C(1) << WEFT_RUN_SHIFT_MAX,
             units = layout->unit_count < most ? layout->unit_count + 1 : most;
    uint32_t tile = weft_tile_elements(1);
    weft_changes *changes = &rebuilder->changes;
    rebuilder->dense_bytes = units * layout->largest_frame + 1;
    rebuilder->dense = weft_mem_map(rebuilder->dense_bytes);
    rebuilder->discard = weft_mem_take(layout->part_count + 1, sizeof *rebuilder->discard);
    changes->capacity = tile;
    changes->position = weft_mem_take(tile, sizeof *changes->position);
    changes->before = weft_mem_take(tile, 8);
    changes->after = weft_mem_take(tile, 8);
    bool got = rebuilder->dense && rebuilder->discard && changes->position && changes->before && changes->after;
    return got ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory to rebuild versions");
}

void weft_rebuilder_close(weft_rebuilder *rebuilder)
{
    weft_mem_give(rebuilder->moved.runs);
    weft_mem_give(rebuilder->changes.after);
    weft_mem_give(rebuilder->changes.before);
    weft_mem_give(rebuilder->changes.position);
    weft_mem_give(rebuilder->discard);
    if (rebuilder->dense)
        weft_mem_unmap(rebuilder->dense, rebuilder->dense_bytes);
}

/* ---- one run of units */

typedef struct region {
    uint64_t unit, first; /* wanted; the run that it lies in */
    uint32_t units;
} region;

/* Copies the run out of the shadow. *newest: the order that it has. WEFT_AGAIN: a publish came in between. */
static weft_status copy_run(weft_bridge *bridge, const region *where, uint64_t *newest)
{
    weft_trainer *trainer = bridge->trainer;
    weft_rebuilder *r = bridge->rebuilder;
    weft_view view = weft_binding_span(&trainer->shadow, where->first, where->units);
    weft_run *moved = r->moved.runs + (view.runs - trainer->shadow.runs);
    uint8_t *to = r->dense;
    for (uint32_t i = 0; i < view.run_count; i++)
        moved[i].data = r->dense + (uint64_t)weft_run_position(&view, &view.runs[i]) * view.width;
    for (uint32_t i = 0; i < where->units; i++) {
        weft_load_job job = {weft_binding_view(&trainer->shadow, where->first + i), to};
        if (!weft_bridge_enter(bridge))
            return WEFT_E_BUDGET;
        while (trainer->shadow_busy && bridge->running && !bridge->broken)
            pthread_cond_wait(&trainer->session->changed, &trainer->session->lock);
        bool same = i == 0 || trainer->newest_order == *newest;
        *newest = trainer->newest_order;
        weft_status status = weft_backend_wait(trainer->session->backend, bridge->device,
                                               trainer->session->backend->load(bridge->device, &job), &job);
        weft_bridge_leave(bridge);
        if (status != WEFT_OK || !same)
            return status != WEFT_OK ? status : WEFT_AGAIN;
        to += (uint64_t)job.view.count * job.view.width;
    }
    return WEFT_OK;
}

/* A word's place in the order of its dtype; its own inverse (docs/WIRE_FORMAT.md). */
static uint64_t place_of(uint64_t bits, const weft_view *view)
{
    uint64_t top = UINT64_C(1) << ((8u * view->width - 1) & 63u);
    return view->is_float && bits & top ? bits ^ (top - 1) : bits;
}

/* The decoder stepped on from the bits after an update; the same steps the other way lead to those before it. */
static void step_back(const weft_view *view, const weft_changes *changes, uint8_t *dense)
{
    const uint8_t *now = changes->before, *further = changes->after;
    uint64_t mask = UINT64_MAX >> (64 - 8 * view->width);
    for (uint64_t i = 0; i < changes->count; i++) {
        uint64_t a = place_of(weft_bytes_get(now + i * view->width, view->width), view);
        uint64_t b = place_of(weft_bytes_get(further + i * view->width, view->width), view);
        weft_bytes_put(dense + (uint64_t)changes->position[i] * view->width, place_of((2 * a - b) & mask, view),
                       view->width);
    }
}

static weft_status undo_frame(weft_bridge *bridge, const region *where, uint64_t bytes)
{
    const weft_layout *layout = bridge->trainer->session->layout;
    const weft_backend *backend = bridge->trainer->session->backend;
    weft_rebuilder *r = bridge->rebuilder;
    weft_decode_job job = {.changes = &r->changes, .tensor_delta = r->discard};
    weft_status status = weft_frame_admit(layout, bridge->frame, bytes, &job.frame);
    if (status != WEFT_OK)
        return status;
    const weft_frame_header *header = &job.frame.header;
    if (header->level != WEFT_LEVEL_FAST) /* it says what the units became, not what they were */
        return where->unit - header->unit < header->units ? WEFT_E_BUDGET : WEFT_OK;
    uint32_t before = (uint32_t)(header->unit - where->first);
    uint64_t elements = before ? weft_layout_count_units(layout, where->first, before) : 0;
    job.base = weft_binding_span(&r->moved, header->unit, header->units);
    status = weft_backend_wait(backend, bridge->device, backend->decode(bridge->device, &job), &job);
    if (status == WEFT_OK)
        step_back(&job.base, &r->changes, r->dense + elements * job.base.width);
    return status;
}

/* The next frame that lies in the run, copied; its bytes, 0: none. False: the update has no frames any more. */
static bool next_frame(weft_bridge *bridge, uint64_t order, const region *where, weft_cursor *cursor, bool *begun,
                       uint32_t *bytes, uint64_t *from)
{
    weft_trainer *trainer = bridge->trainer;
    if (!weft_bridge_enter(bridge))
        return false;
    weft_update *update = weft_journal_at(&trainer->journal, order);
    bool there = update && !update->snapshot_only;
    if (there) {
        const weft_arena *arena = &trainer->journal.arena;
        if (!*begun)
            *cursor = weft_cursor_seek(arena, &update->chain[WEFT_LEVEL_FAST], where->first);
        *begun = true;
        *from = update->from;
        *bytes = weft_cursor_take(arena, cursor, where->first + where->units, bridge->frame);
    }
    weft_bridge_leave(bridge);
    return there;
}

/* *from: the order that its base has. */
static weft_status undo_update(weft_bridge *bridge, uint64_t order, const region *where, uint64_t *from)
{
    weft_cursor cursor;
    bool begun = false;
    for (;;) {
        uint32_t bytes = 0;
        if (!next_frame(bridge, order, where, &cursor, &begun, &bytes, from))
            return WEFT_E_BUDGET;
        if (bytes == 0)
            return WEFT_OK;
        weft_status status = undo_frame(bridge, where, bytes);
        if (status != WEFT_OK)
            return status;
    }
}

weft_status weft_rebuild_unit(weft_bridge *bridge, uint64_t order, uint64_t unit, const uint8_t **bits)
{
    const weft_layout *layout = bridge->trainer->session->layout;
    weft_rebuilder *r = bridge->rebuilder;
    const weft_unit *u = &layout->units[unit];
    uint32_t before = u->place % (1u << WEFT_RUN_SHIFT_MAX);
    region where = {unit, unit - before, weft_layout_run(layout, unit - before, WEFT_RUN_SHIFT_MAX)};
    uint64_t at = 0;
    weft_status status = WEFT_AGAIN;
    for (uint32_t i = 0; i < TRIES && status == WEFT_AGAIN; i++)
        status = copy_run(bridge, &where, &at);
    while (status == WEFT_OK && at > order)
        status = undo_update(bridge, at, &where, &at);
    uint64_t elements = before ? weft_layout_count_units(layout, where.first, before) : 0;
    *bits = r->dense + elements * u->width;
    return status == WEFT_OK && at == order            ? WEFT_OK
           : status == WEFT_OK || status == WEFT_AGAIN ? WEFT_E_BUDGET
                                                       : status;
}

weft_status weft_rebuild_frame(weft_bridge *bridge, uint64_t order, uint64_t unit, uint32_t *bytes)
{
    const weft_unit *u = &bridge->trainer->session->layout->units[unit];
    uint32_t dense = u->count * u->width, payload = (uint32_t)weft_frame_pad(dense);
    weft_frame_header header = {(uint32_t)unit, 1, WEFT_LEVEL_FULL, payload, u->count, 0};
    uint8_t *frame = bridge->frame;
    const uint8_t *bits;
    weft_status status = weft_rebuild_unit(bridge, order, unit, &bits);
    if (status != WEFT_OK)
        return status;
    weft_frame_write_header(frame, &header);
    memcpy(frame + WEFT_FRAME_HEADER_BYTES, bits, dense);
    memset(frame + WEFT_FRAME_HEADER_BYTES + dense, 0, payload - dense);
    *bytes = WEFT_FRAME_HEADER_BYTES + payload;
    return WEFT_OK;
}
