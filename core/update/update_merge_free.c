/* update_merge_free.c - merges update files without their base: steps and new bits are added up frame by frame. No
 * weight is read and no digest made, so the target is proved when the new file is applied. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "encode/merge.h"
#include "update/update_chain.h"
#include "update/update_fit.h"
#include "update/update_work.h"

typedef struct weft_update_free_merge {
    weft_update_chain chain;
    const weft_work *work;
    bool named; /* the layout has its true names */
    const weft_backend *backend;
    weft_backend_state *device;
    weft_merger merger;
    weft_merge_source *sources;
    weft_merge_pass pass;
} free_merge;

/* ---- open */

static weft_status frame_next(void *user, uint64_t unit_limit, const uint8_t **frame, uint64_t *bytes)
{
    return weft_update_cursor_next(user, unit_limit, frame, bytes);
}

/* Finds the layout that an update carries, one with names if there is one. */
static weft_status layout_find(free_merge *m, weft_update_file *const *updates, size_t count,
                               const weft_layout **layout)
{
    weft_status status = WEFT_OK;
    int named = 0;
    for (size_t i = 0; i < count && status == WEFT_OK && !named; i++)
        status = weft_update_layout(updates[i], layout, &named);
    m->named = named;
    return status;
}

static uint32_t longest_run(const free_merge *m)
{
    uint32_t shift = m->pass.run_shift;
    for (size_t i = 0; i < m->pass.count; i++)
        shift = m->sources[i].run_shift > shift ? m->sources[i].run_shift : shift;
    return shift;
}

static weft_status sources_make(free_merge *m, const char *level)
{
    const weft_update_chain *chain = &m->chain;
    m->sources = weft_mem_take(chain->count, sizeof *m->sources);
    if (!m->sources)
        return weft_fail(WEFT_E_MEMORY, "no memory to merge %zu updates", chain->count);
    for (size_t i = 0; i < chain->count; i++) {
        const weft_wire_update *header = &chain->updates[i]->header;
        m->sources[i] =
            (weft_merge_source){&chain->cursors[i], frame_next, header->level, header->parameters.run_shift, 0};
    }
    m->pass.sources = m->sources;
    m->pass.count = chain->count;
    weft_status status = weft_merge_level(m->sources, chain->count, &m->pass.level);
    if (status == WEFT_OK && level)
        status = weft_level_by_name(level, &m->pass.level);
    if (status == WEFT_OK && m->pass.level == WEFT_LEVEL_TIGHT)
        status = weft_fail(WEFT_E_ARGUMENT, "level tight cannot be written without the base; give the base");
    m->pass.run_shift = m->pass.level == WEFT_LEVEL_FAST ? weft_merge_shift(m->sources, chain->count) : 0;
    return status;
}

static weft_status merge_open(free_merge *m, weft_update_file *const *updates, size_t count, const weft_layout *layout,
                              const char *level)
{
    static const weft_backend_options options = {-1, "auto", 0, 0};
    weft_status status = layout ? weft_update_layout_fits(updates[0], layout) : layout_find(m, updates, count, &layout);
    if (status == WEFT_OK)
        status = weft_update_chain_open(&m->chain, updates, count, layout);
    if (status == WEFT_OK)
        status = weft_update_chain_read(&m->chain);
    if (status == WEFT_OK)
        status = sources_make(m, level);
    m->backend = weft_backend_find("host");
    if (status == WEFT_OK)
        status = m->backend->open(&options, &m->device);
    return status == WEFT_OK ? weft_merger_open(&m->merger, m->backend, m->device, layout, longest_run(m)) : status;
}

static void merge_close(free_merge *m)
{
    weft_merger_close(&m->merger);
    if (m->device)
        m->backend->close(m->device);
    weft_mem_give(m->sources);
    weft_update_chain_close(&m->chain);
}

/* ---- work */

static weft_status frames_write(void *user, const uint8_t *frames, uint64_t bytes)
{
    free_merge *m = user;
    weft_status status = WEFT_OK;
    for (uint64_t at = 0, length; at < bytes && status == WEFT_OK; at += length) {
        length = weft_frame_measure(frames + at, bytes - at);
        status = weft_update_writer_frame(&m->chain.writer, m->chain.layout, frames + at, (uint32_t)length);
    }
    return status;
}

static weft_status moved(void *user, uint64_t unit)
{
    const free_merge *m = user;
    return weft_update_progress(m->work, unit, m->chain.layout->unit_count);
}

static weft_status write_file(free_merge *m, const weft_sink *sink)
{
    m->chain.header.level = m->pass.level;
    m->chain.header.parameters.run_shift = m->pass.run_shift;
    m->pass.emit = frames_write;
    m->pass.moved = moved;
    m->pass.user = m;
    weft_status status = weft_update_chain_begin(&m->chain, sink);
    if (status == WEFT_OK)
        status = weft_merger_run(&m->merger, &m->pass);
    if (status == WEFT_OK)
        status = weft_update_chain_end(&m->chain);
    return status == WEFT_OK ? weft_update_chain_finish(&m->chain, m->named, m->pass.changed) : status;
}

weft_status weft_update_merge_free(weft_update_file *const *updates, size_t count, const weft_layout *layout,
                                   const char *level, const weft_work *work, const weft_sink *sink,
                                   weft_update_info *info)
{
    free_merge m = {.work = work, .named = layout != NULL};
    uint64_t begun = weft_clock_ns();
    weft_status status = merge_open(&m, updates, count, layout, level);
    if (status == WEFT_OK)
        status = write_file(&m, sink);
    if (status == WEFT_OK && info)
        weft_update_chain_report(&m.chain, m.pass.changed, 0, weft_clock_ms(begun, weft_clock_ns()), info);
    merge_close(&m);
    return status;
}
