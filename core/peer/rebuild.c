#include "peer/rebuild.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "peer/peer.h"

_Static_assert(1u << WEFT_RUN_SHIFT_MAX <= 64, "a block's units have a bit each");

/* ---- open and close */

/* All of a binding is the image's own, because the owner's thread may outlive the shadow. */
weft_status weft_rebuilder_bind(weft_rebuilder *rebuilder, const weft_binding *shadow)
{
    weft_binding *target = &rebuilder->target.bound, *base = &rebuilder->base.bound;
    if (base->runs)
        return WEFT_OK;
    weft_status status = target->runs ? WEFT_OK : weft_binding_copy(shadow, target);
    return status == WEFT_OK ? weft_binding_copy(shadow, base) : status;
}

/* Returns the bytes of one image. */
static uint64_t dense_bytes(const weft_layout *layout)
{
    const uint64_t most = UINT64_C(1) << WEFT_RUN_SHIFT_MAX,
                   units = layout->unit_count < most ? layout->unit_count + 1 : most;
    return units * layout->largest_frame + 1;
}

static weft_mem_list memory_of(weft_rebuilder *rebuilder, const weft_layout *layout)
{
    const uint32_t tile = weft_tile_elements(1);
    weft_changes *changes = &rebuilder->changes;
    return (weft_mem_list){{WEFT_MEM_PAGES(rebuilder->target.dense, dense_bytes(layout)),
                            WEFT_MEM_PAGES(rebuilder->base.dense, dense_bytes(layout)),
                            WEFT_MEM_TAKEN(rebuilder->discard, layout->part_count + 1),
                            WEFT_MEM_TAKEN(changes->position, tile),
                            {&changes->before, tile, 8, false},
                            {&changes->after, tile, 8, false}}};
}

uint64_t weft_rebuilder_need(const weft_layout *layout)
{
    return weft_mem_list_bytes(memory_of(&(weft_rebuilder){0}, layout)) + 2 * weft_binding_need(layout);
}

weft_status weft_rebuilder_open(weft_rebuilder *rebuilder, const weft_rebuilder_owner *owner)
{
    const weft_layout *layout = owner->publisher->session->layout;
    rebuilder->owner = *owner;
    rebuilder->changes.capacity = weft_tile_elements(1);
    return weft_mem_list_take(memory_of(rebuilder, layout), "to rebuild versions");
}

void weft_rebuilder_close(weft_rebuilder *rebuilder)
{
    if (!rebuilder->owner.publisher)
        return;
    weft_binding_close(&rebuilder->base.bound);
    weft_binding_close(&rebuilder->target.bound);
    weft_mem_list_give(memory_of(rebuilder, rebuilder->owner.publisher->session->layout));
}

/* ---- an image */

uint8_t *weft_image_at(const weft_layout *layout, const weft_image *image, uint64_t unit)
{
    uint32_t before = (uint32_t)(unit - image->unit);
    uint64_t elements = before ? weft_layout_count_units(layout, image->unit, before) : 0;
    return image->dense + elements * layout->units[unit].width;
}

static bool holds(const weft_image *image, uint64_t order, uint64_t unit, uint32_t units)
{
    return image->units > 0 && image->order == order && unit >= image->unit &&
           unit + units <= image->unit + image->units;
}

/* Points the runs of the image's block to where they lie in the image. */
static void place_runs(weft_image *image)
{
    weft_view view = weft_binding_span(&image->bound, image->unit, image->units);
    weft_run *runs = image->bound.runs + (view.runs - image->bound.runs);
    for (uint32_t i = 0; i < view.run_count; i++)
        runs[i].data = image->dense + (uint64_t)weft_run_position(&view, &view.runs[i]) * view.width;
}

/* ---- the lock */

/* Returns false, without the lock, if the work is broken off. */
static bool enter(const weft_rebuilder_owner *owner)
{
    pthread_mutex_lock(&owner->publisher->session->lock);
    if (!*owner->broken)
        return true;
    pthread_mutex_unlock(&owner->publisher->session->lock);
    return false;
}

static void leave(const weft_rebuilder_owner *owner)
{
    pthread_mutex_unlock(&owner->publisher->session->lock);
}

/* ---- the newest */

/* Places the image on the block around a unit that no frame of a version after `order` crosses. Under the lock. */
static void place_block(weft_publisher *publisher, uint64_t order, uint64_t unit, uint32_t shift, weft_image *image)
{
    const weft_layout *layout = publisher->session->layout;
    for (uint64_t later = order + 1; later <= publisher->newest.order; later++) {
        const weft_update *update = weft_journal_at(&publisher->journal, later);
        if (update && update->parameters.run_shift > shift)
            shift = update->parameters.run_shift;
    }
    image->unit = unit - (layout->units[unit].place & ((1u << shift) - 1));
    image->units = weft_layout_run(layout, image->unit, shift);
    image->order = publisher->newest.order;
    place_runs(image);
}

/* Enters the lock when no publish brings the shadow up to date. Returns false, without the lock, if the work is broken
 * off or the shadow is lost. */
static bool enter_calm(const weft_rebuilder_owner *owner)
{
    weft_publisher *publisher = owner->publisher;
    if (!enter(owner))
        return false;
    while (publisher->shadow.busy && !publisher->shadow.lost && *owner->running && !*owner->broken)
        pthread_cond_wait(&publisher->session->changed, &publisher->session->lock);
    if (!publisher->shadow.lost && !*owner->broken)
        return true;
    leave(owner);
    return false;
}

/* Copies the block out of the shadow. */
static weft_status copy_block(const weft_rebuilder *r, uint64_t order, uint64_t unit, uint32_t shift, weft_image *image)
{
    weft_publisher *publisher = r->owner.publisher;
    if (!enter_calm(&r->owner))
        return WEFT_E_BUDGET;
    place_block(publisher, order, unit, shift, image);
    const weft_status status =
        weft_shadow_read(&publisher->shadow, &publisher->shadow.bridge_loads, image->unit, image->units, false,
                         weft_image_at(publisher->session->layout, image, image->unit));
    leave(&r->owner);
    return status;
}

/* ---- back from there */

/* Returns a word's place in the order of its dtype. The function is its own inverse (docs/WIRE_FORMAT.md). */
static inline uint64_t place_of(uint64_t bits, uint32_t width, bool is_float)
{
    uint64_t top = UINT64_C(1) << (8 * width - 1);
    return is_float && bits & top ? bits ^ (top - 1) : bits;
}

/* Steps back from the bits after an update to those before it. The decoder stepped on from the bits after it, and the
 * same steps the other way lead to those before. */
static inline void steps_back(const weft_changes *changes, uint8_t *dense, uint32_t width, bool is_float)
{
    const uint8_t *now = changes->before, *further = changes->after;
    const uint64_t mask = UINT64_MAX >> (64 - 8 * width);
    for (uint64_t i = 0; i < changes->count; i++) {
        uint64_t a = place_of(weft_bytes_get(now + i * width, width), width, is_float);
        uint64_t b = place_of(weft_bytes_get(further + i * width, width), width, is_float);
        weft_bytes_put(dense + (uint64_t)changes->position[i] * width, place_of((2 * a - b) & mask, width, is_float),
                       width);
    }
}

/* Steps back, in a loop for each width. */
static void step_back(const weft_view *view, const weft_changes *changes, uint8_t *dense)
{
    if (view->width == 1)
        steps_back(changes, dense, 1, view->is_float);
    else if (view->width == 2)
        steps_back(changes, dense, 2, view->is_float);
    else if (view->width == 4)
        steps_back(changes, dense, 4, view->is_float);
    else
        steps_back(changes, dense, 8, view->is_float);
}

static weft_status undo_frame(weft_rebuilder *r, weft_image *image, const weft_frame *frame)
{
    const weft_backend *backend = r->owner.backend;
    const weft_layout *layout = r->owner.publisher->session->layout;
    const uint64_t unit = frame->header.unit;
    weft_decode_job job = {.frame = *frame, .changes = &r->changes, .tensor_delta = r->discard};
    if (frame->header.level != WEFT_LEVEL_FAST && !weft_frame_has_full_steps(&frame->header))
        return WEFT_E_BUDGET; /* because new bits, which the journal never has, do not lead back */
    job.base = weft_binding_span(&image->bound, unit, frame->header.units);
    weft_status status = weft_backend_wait(backend, r->owner.device, backend->decode(r->owner.device, &job), &job);
    if (status == WEFT_OK)
        step_back(&job.base, &r->changes, weft_image_at(layout, image, unit));
    return status;
}

/* Copies the next frame of an update that lies in the block. `*bytes` 0: there is none. Returns false if the update has
 * no frames any more, or the work is broken off. */
static bool next_frame(weft_rebuilder *r, const weft_image *image, weft_cursor *cursor, bool *begun, uint32_t *bytes)
{
    weft_publisher *publisher = r->owner.publisher;
    if (!enter(&r->owner))
        return false;
    weft_update *update = weft_journal_at(&publisher->journal, image->order);
    bool there = update && !update->snapshot_only;
    if (there) {
        const weft_arena *arena = &publisher->journal.arena;
        if (!*begun)
            *cursor = weft_cursor_seek(arena, &update->chain[WEFT_LEVEL_FAST], image->unit);
        *begun = true;
        *bytes = weft_cursor_take(arena, cursor, image->unit + image->units, r->owner.frame);
    }
    leave(&r->owner);
    return there;
}

/* Takes back the update whose bits stand in the image, frame by frame. */
static weft_status undo_update(weft_rebuilder *r, weft_image *image)
{
    const weft_layout *layout = r->owner.publisher->session->layout;
    weft_cursor cursor;
    bool begun = false;
    for (;;) {
        weft_frame frame;
        uint32_t bytes = 0;
        if (!next_frame(r, image, &cursor, &begun, &bytes))
            return WEFT_E_BUDGET;
        if (bytes == 0)
            return WEFT_OK;
        weft_status status = weft_frame_admit(layout, r->owner.frame, bytes, &frame);
        if (status == WEFT_OK)
            status = undo_frame(r, image, &frame);
        if (status != WEFT_OK)
            return status;
    }
}

static weft_status rewind_to(weft_rebuilder *r, weft_image *image, uint64_t order)
{
    weft_status status = WEFT_OK;
    for (; status == WEFT_OK && image->order > order; image->order--)
        status = undo_update(r, image);
    if (status == WEFT_OK && image->order != order)
        status = WEFT_E_BUDGET;
    if (status != WEFT_OK)
        image->units = 0;
    return status;
}

/* ---- what is asked for */

weft_status weft_rebuild_target(weft_rebuilder *r, uint64_t order, uint64_t unit, uint32_t shift)
{
    weft_image *image = &r->target;
    if (holds(image, order, unit, weft_layout_run(r->owner.publisher->session->layout, unit, shift)))
        return WEFT_OK;
    weft_status status = copy_block(r, order, unit, shift, image);
    if (status == WEFT_OK)
        status = rewind_to(r, image, order);
    if (status != WEFT_OK)
        image->units = 0;
    return status == WEFT_AGAIN ? WEFT_E_BUDGET : status;
}

/* Places `base` on the block of `target`. Returns the block's bytes. */
static uint64_t place_base(weft_rebuilder *r)
{
    const weft_layout *layout = r->owner.publisher->session->layout;
    const weft_image *from = &r->target;
    r->base.unit = from->unit;
    r->base.units = from->units;
    r->base.order = from->order;
    place_runs(&r->base);
    return (uint64_t)weft_layout_count_units(layout, from->unit, from->units) * layout->units[from->unit].width;
}

weft_status weft_rebuild_base(weft_rebuilder *r, uint64_t order)
{
    const weft_image *from = &r->target;
    if (r->base.unit == from->unit && holds(&r->base, order, from->unit, from->units))
        return WEFT_OK;
    memcpy(r->base.dense, from->dense, place_base(r));
    return rewind_to(r, &r->base, order);
}

void weft_rebuild_zeros(weft_rebuilder *r)
{
    memset(r->base.dense, 0, place_base(r));
}

weft_status weft_rebuild_frame(weft_rebuilder *r, uint64_t order, uint64_t unit, uint32_t *bytes)
{
    const weft_layout *layout = r->owner.publisher->session->layout;
    const weft_unit *u = &layout->units[unit];
    uint32_t dense = u->count * u->width, payload = (uint32_t)weft_frame_pad(dense);
    weft_frame_header header = {(uint32_t)unit, 1, WEFT_LEVEL_FULL, payload, u->count, WEFT_FULL_BITS};
    uint8_t *frame = r->owner.frame; /* memory for the frames that are undone before this one is written */
    weft_status status = weft_rebuild_target(r, order, unit, 0);
    if (status != WEFT_OK)
        return status;
    weft_frame_write_header(frame, &header);
    memcpy(frame + WEFT_FRAME_HEADER_BYTES, weft_image_at(layout, &r->target, unit), dense);
    memset(frame + WEFT_FRAME_HEADER_BYTES + dense, 0, payload - dense);
    *bytes = WEFT_FRAME_HEADER_BYTES + payload;
    return WEFT_OK;
}
