#include "encode/merge.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

typedef unsigned long long ull;

/* ---- level and parameters */

weft_status weft_merge_level(const weft_merge_source *sources, size_t count, weft_level *level)
{
    *level = WEFT_LEVEL_FULL;
    for (size_t i = 0; i < count; i++) {
        if (sources[i].level == WEFT_LEVEL_TIGHT)
            return weft_fail(WEFT_E_ARGUMENT,
                             "update %zu of %zu has level tight, which says nothing without the base; give the base",
                             i + 1, count);
        *level = sources[i].level > *level ? sources[i].level : *level;
    }
    return WEFT_OK;
}

uint32_t weft_merge_shift(const weft_merge_source *sources, size_t count)
{
    uint32_t shift = UINT32_MAX;
    for (size_t i = 0; i < count; i++)
        if (sources[i].level == WEFT_LEVEL_FAST && sources[i].run_shift < shift)
            shift = sources[i].run_shift;
    return shift <= WEFT_RUN_SHIFT_MAX ? shift : 0;
}

/* ---- open */

/* Measures the memory for the largest run, and for the frames of its units. */
static void measure(weft_merger *merger, const weft_layout *layout, uint32_t shift)
{
    uint64_t *room = &merger->room.capacity, *frames = &merger->sink.capacity;
    uint32_t units;
    *room = *frames = 8;
    for (uint64_t unit = 0; unit < layout->unit_count; unit += units) {
        units = weft_layout_run(layout, unit, shift);
        uint64_t bytes = weft_merge_room_bytes(weft_layout_count_units(layout, unit, units), layout->units[unit].width);
        *room = bytes > *room ? bytes : *room;
        *frames = (uint64_t)units * layout->largest_frame > *frames ? (uint64_t)units * layout->largest_frame : *frames;
    }
}

static weft_mem_list memory_of(weft_merger *merger)
{
    return (weft_mem_list){{WEFT_MEM_PAGES(merger->room.data, merger->room.capacity),
                            WEFT_MEM_PAGES(merger->sink.data, merger->sink.capacity)}};
}

uint64_t weft_merger_need(const weft_layout *layout, uint32_t shift)
{
    weft_merger none = {0};
    measure(&none, layout, shift);
    return weft_mem_list_bytes(memory_of(&none)) + weft_unpacker_need();
}

weft_status weft_merger_open(weft_merger *merger, const weft_backend *backend, weft_backend_state *device,
                             const weft_layout *layout, uint32_t shift)
{
    *merger = (weft_merger){.backend = backend, .device = device, .layout = layout, .shift = shift};
    measure(merger, layout, shift);
    weft_status status = weft_mem_list_take(memory_of(merger), "to merge runs of %u units", 1u << shift);
    if (status == WEFT_OK)
        status = weft_unpacker_open(&merger->unpacker);
    if (status != WEFT_OK)
        weft_merger_close(merger);
    return status;
}

void weft_merger_close(weft_merger *merger)
{
    weft_unpacker_close(&merger->unpacker);
    weft_mem_list_give(memory_of(merger));
    *merger = (weft_merger){0};
}

/* ---- a run of units */

typedef struct region {
    uint64_t unit;
    uint32_t units;
} region;

/* One frame into the room. */
static weft_status frame_add(weft_merger *merger, const weft_merge_source *source, const region *where,
                             const uint8_t *bytes, uint64_t length)
{
    weft_merge_job job = {.layout = merger->layout, .unit = where->unit, .units = where->units, .room = &merger->room};
    const weft_frame_header *header = &job.frame.header;
    uint64_t used;
    weft_status status = weft_planes_admit(&merger->unpacker, merger->layout, bytes, length, &job.frame, &used);
    if (status != WEFT_OK)
        return status;
    if ((uint64_t)header->unit - where->unit >= where->units ||
        header->units > weft_layout_run(merger->layout, header->unit, source->run_shift))
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u and %u more: not in its place among runs of %u units",
                         header->unit, header->units - 1, 1u << source->run_shift);
    job.kept = header->units;
    if (source->unit_limit > 0 && source->unit_limit - header->unit < header->units)
        job.kept = (uint32_t)(source->unit_limit - header->unit);
    return weft_backend_wait(merger->backend, merger->device, merger->backend->merge(merger->device, &job), &job);
}

/* All frames of the region, update by update. */
static weft_status region_add(weft_merger *merger, const weft_merge_pass *pass, const region *where)
{
    const uint8_t *frame = NULL;
    uint64_t bytes;
    for (size_t i = 0; i < pass->count; i++) {
        const weft_merge_source *source = &pass->sources[i];
        do {
            uint64_t limit = where->unit + where->units;
            if (source->unit_limit > 0 && source->unit_limit < limit)
                limit = source->unit_limit;
            weft_status status = source->next(source->user, limit, &frame, &bytes);
            if (status == WEFT_OK && bytes > 0)
                status = frame_add(merger, source, where, frame, bytes);
            if (status != WEFT_OK)
                return status;
        } while (bytes > 0);
    }
    return WEFT_OK;
}

static weft_status region_write(weft_merger *merger, weft_merge_pass *pass, const region *where)
{
    weft_drain_job job = {.layout = merger->layout,
                          .unit = where->unit,
                          .units = where->units,
                          .room = &merger->room,
                          .level = pass->level,
                          .run_shift = pass->run_shift,
                          .sink = &merger->sink,
                          .changed = pass->changed};
    merger->sink.used = 0;
    weft_status status =
        weft_backend_wait(merger->backend, merger->device, merger->backend->drain(merger->device, &job), &job);
    pass->changed = job.changed;
    if (status == WEFT_OK && job.needs_base)
        return weft_fail(
            WEFT_E_ARGUMENT,
            "what the updates make of unit %llu cannot be said at level %s without the base; give the base",
            (ull)job.stuck, weft_level_name(pass->level));
    if (status == WEFT_OK && merger->sink.used > 0)
        status = pass->emit(pass->user, merger->sink.data, merger->sink.used);
    return status;
}

/* ---- a pass */

static uint32_t longest_shift(const weft_merge_pass *pass)
{
    uint32_t most = pass->run_shift;
    for (size_t i = 0; i < pass->count; i++)
        most = pass->sources[i].run_shift > most ? pass->sources[i].run_shift : most;
    return most;
}

weft_status weft_merger_run(weft_merger *merger, weft_merge_pass *pass)
{
    const weft_layout *layout = merger->layout;
    uint32_t shift = longest_shift(pass);
    weft_status status = WEFT_OK;
    if (shift > merger->shift)
        return weft_fail(WEFT_E_ARGUMENT, "runs of %u units, memory was taken for %u", 1u << shift,
                         1u << merger->shift);
    pass->changed = 0;
    pass->end = pass->unit;
    for (region at = {pass->unit, 0}; at.unit < layout->unit_count && status == WEFT_OK; at.unit += at.units) {
        at.units = weft_layout_run(layout, at.unit, shift);
        status = region_add(merger, pass, &at);
        if (status == WEFT_OK)
            status = region_write(merger, pass, &at);
        if (status == WEFT_OK)
            pass->end = at.unit + at.units;
        if (status == WEFT_OK && pass->moved)
            status = pass->moved(pass->user, at.unit + at.units);
    }
    if (status != WEFT_OK) { /* some of a run may be left in it */
        memset(merger->room.data, 0, merger->room.capacity);
        merger->room.absolute = false;
    }
    return status;
}
