/* update_invert.c - turns an update file round: from its target back to its base.
 *
 * Without the base each frame is inverted by itself, and no weight is read. A frame of new bits, or of level tight, has
 * no opposite by itself. With the base the merger of update_merge.c codes the way back. */
#include "update/update_invert.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "codec/planes.h"
#include "journal/journal.h"
#include "update/update_chain.h"
#include "update/update_fit.h"
#include "update/update_work.h"

typedef unsigned long long ull;

typedef struct weft_update_inverter {
    weft_update_chain chain;
    const weft_work *work;
    int named; /* 1: the layout has its true names */
    const weft_backend *backend;
    weft_backend_state *device;
    weft_unpacker unpacker;
    uint8_t *frame; /* room for the largest frame */
    uint64_t changed;
} inverter;

/* ---- what goes along */

void weft_update_turn(weft_update_chain *chain)
{
    const weft_version base = chain->header.base;
    chain->header.base = chain->header.target;
    chain->header.target = base;
    for (uint32_t i = 0; i < chain->cells.share_count; i++) {
        weft_key_share *share = &chain->cells.shares[i];
        const uint64_t before = share->base;
        share->base = share->target;
        share->target = before;
    }
}

/* An update without an attachment leaves the attachment as it is, and so does its opposite. */
static weft_status attachment_check(weft_update_file *update, const void *attachment, uint64_t bytes)
{
    weft_status status = weft_blob_check("invert", attachment, bytes);
    if (status == WEFT_OK && update->header.attachment_bytes && !bytes)
        return weft_fail(WEFT_E_ARGUMENT,
                         "%s brings an attachment of %llu bytes, which takes the place of the base's: give the base's",
                         weft_update_name(update), (ull)update->header.attachment_bytes);
    return status;
}

/* ---- without the base */

static weft_status inverter_open(inverter *v, weft_update_file *const *update, const weft_layout *layout)
{
    static const weft_backend_options options = {-1, "auto", 0, 0};
    v->named = 1;
    weft_status status =
        layout ? weft_update_layout_fits(*update, layout) : weft_update_layout(*update, &layout, &v->named);
    if (status == WEFT_OK)
        status = weft_update_chain_open(&v->chain, update, 1, layout);
    if (status == WEFT_OK)
        status = weft_update_chain_read(&v->chain);
    if (status != WEFT_OK)
        return status;
    v->chain.header.level = (*update)->header.level;
    v->chain.header.parameters = (*update)->header.parameters;
    weft_update_turn(&v->chain);
    v->frame = weft_mem_take(layout->largest_frame, 1);
    if (!v->frame)
        return weft_fail(WEFT_E_MEMORY, "no memory for a frame");
    status = weft_unpacker_open(&v->unpacker);
    v->backend = weft_backend_find("host");
    return status == WEFT_OK ? v->backend->open(&options, &v->device) : status;
}

static void inverter_close(inverter *v)
{
    if (v->device)
        v->backend->close(v->device);
    weft_unpacker_close(&v->unpacker);
    weft_mem_give(v->frame);
    weft_update_chain_close(&v->chain);
}

static weft_status frame_invert(inverter *v, const uint8_t *bytes, uint64_t length)
{
    const weft_layout *layout = v->chain.layout;
    weft_invert_job job = {.layout = layout, .bytes = v->frame};
    uint64_t used;
    weft_status status = weft_planes_admit(&v->unpacker, layout, bytes, length, &job.frame, &used);
    if (status == WEFT_OK)
        status = weft_backend_wait(v->backend, v->device, v->backend->invert(v->device, &job), &job);
    if (status == WEFT_E_ARGUMENT)
        weft_fail_about("%s needs its base at hand", weft_update_name(v->chain.updates[0]));
    if (status != WEFT_OK)
        return status;
    v->changed += job.frame.header.changed;
    return weft_update_writer_frame(&v->chain.writer, layout, v->frame,
                                    WEFT_FRAME_HEADER_BYTES + job.frame.header.payload_bytes);
}

static weft_status frames_invert(inverter *v)
{
    weft_update_cursor *cursor = &v->chain.cursors[0];
    const uint64_t units = v->chain.layout->unit_count;
    const uint8_t *frame;
    uint64_t bytes;
    for (;;) {
        weft_status status = weft_update_cursor_next(cursor, units, &frame, &bytes);
        if (status == WEFT_OK && bytes > 0)
            status = frame_invert(v, frame, bytes);
        if (status == WEFT_OK)
            status = weft_update_progress(v->work, bytes > 0 ? cursor->unit : units, units);
        if (status != WEFT_OK || bytes == 0)
            return status;
    }
}

static weft_status file_write(inverter *v, const weft_sink *sink)
{
    weft_status status = weft_update_chain_begin(&v->chain, sink);
    if (status == WEFT_OK)
        status = frames_invert(v);
    if (status == WEFT_OK)
        status = weft_update_chain_end(&v->chain);
    return status == WEFT_OK ? weft_update_chain_finish(&v->chain, v->named, v->changed) : status;
}

static weft_status invert_free(weft_update_file *const *update, const weft_layout *layout,
                               const weft_update_attachment_of *attachment, const weft_work *work,
                               const weft_sink *sink, weft_update_info *info)
{
    inverter v = {.work = work};
    uint64_t begun = weft_clock_ns();
    weft_status status = inverter_open(&v, update, layout);
    v.chain.attachment = attachment;
    if (status == WEFT_OK)
        status = file_write(&v, sink);
    if (status == WEFT_OK && info)
        weft_update_chain_report(&v.chain, v.changed, 0, weft_clock_ms(begun, weft_clock_ns()), info);
    inverter_close(&v);
    return status;
}

/* ---- the call */

weft_status weft_update_invert(weft_update_file *update, const weft_layout *layout, const weft_piece *base,
                               uint64_t base_count, const char *level, const void *attachment,
                               uint64_t attachment_bytes, const weft_work *work, const weft_sink *sink,
                               weft_update_info *info)
{
    WEFT_ALONE(update, "weft_update_invert");
    const weft_update_attachment_of of_base = {attachment, attachment_bytes};
    weft_work own;
    weft_level wanted = WEFT_LEVEL_TIGHT;
    weft_status status = weft_update_sizes_check(work, info, "weft_update_info");
    if (status == WEFT_OK)
        status = attachment_check(update, attachment, attachment_bytes);
    if (status == WEFT_OK && level)
        status = weft_level_by_name(level, &wanted);
    if (status == WEFT_OK && !base && level && wanted != update->header.level)
        status = weft_fail(WEFT_E_ARGUMENT, "%s is of level %s, which stays without the base; give the base",
                           weft_update_name(update), weft_level_name(update->header.level));
    if (status != WEFT_OK)
        return status;
    work = weft_update_work_take(work, &own);
    return base ? weft_update_invert_bound(update, layout, base, base_count, wanted, &of_base, work, sink, info)
                : invert_free(&update, layout, &of_base, work, sink, info);
}
