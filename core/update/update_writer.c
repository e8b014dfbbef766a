#include "update/update_writer.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "journal/journal.h"
#include "update/update_grid.h"
#include "update/update_names.h"
#include "update/update_pack.h"
#include "update/update_work.h"

typedef unsigned long long ull;

static weft_status put(weft_update_writer *writer, const void *data, uint64_t bytes)
{
    weft_status status = weft_update_write(writer->sink, data, bytes);
    if (status == WEFT_OK)
        writer->bytes += bytes;
    return status;
}

/* ---- head */

static void head_make(weft_update_writer *writer, const weft_wire_update *header)
{
    weft_out out = {writer->head, sizeof writer->head, 0, false};
    weft_wire_put_update(&out, header);
    while (out.used % WEFT_FRAME_ALIGN)
        weft_out_word(&out, 0, 1);
    writer->head_bytes = (uint32_t)out.used;
}

weft_status weft_update_writer_begin(weft_update_writer *writer, const weft_sink *sink, const weft_wire_update *header,
                                     const void *attachment, uint64_t bytes)
{
    weft_wire_update own = *header;
    own.base.root = own.target.root = 0;
    *writer = (weft_update_writer){.sink = sink};
    own.attachment_bytes = bytes;
    own.attachment = bytes ? weft_blob_hash(attachment, bytes) : 0;
    head_make(writer, &own);
    uint64_t begun = weft_clock_ns();
    weft_status status = bytes ? weft_update_pack(attachment, bytes, &writer->packed, &writer->packed_bytes) : WEFT_OK;
    writer->pack_ms += weft_clock_ms(begun, weft_clock_ns());
    return status == WEFT_OK ? put(writer, writer->head, writer->head_bytes) : status;
}

void weft_update_writer_divide(weft_update_writer *writer, const weft_layout *layout, weft_update_cells *cells)
{
    writer->layout = layout;
    writer->cells = cells;
    writer->share = 0;
    weft_update_cells_begin(cells);
}

/* ---- frames */

static void share_note(weft_update_writer *writer, const uint8_t *frame, uint64_t length)
{
    const uint64_t unit = weft_bytes_get(frame, 4);
    const weft_layout *layout = writer->layout;
    if (writer->cells && unit < layout->unit_count)
        weft_update_cells_note(writer->cells, &writer->share, layout->entries[layout->units[unit].tensor].key, length);
}

static weft_status check_note(weft_update_writer *writer, uint64_t check)
{
    uint64_t at = 8 * writer->trailer.frames;
    if (at == writer->checks_capacity) {
        uint64_t capacity = at ? 2 * at : 4096;
        uint8_t *grown = weft_mem_grow(writer->checks, at, capacity, 1);
        if (!grown)
            return weft_fail(WEFT_E_MEMORY, "no memory for the checks of %llu frames", (ull)writer->trailer.frames);
        writer->checks = grown;
        writer->checks_capacity = capacity;
    }
    weft_bytes_put(writer->checks + at, check, 8);
    writer->trailer.frames++;
    return WEFT_OK;
}

weft_status weft_update_writer_frames(weft_update_writer *writer, const uint8_t *frames, uint64_t bytes)
{
    weft_status status = WEFT_OK;
    for (uint64_t at = 0, length; at < bytes && status == WEFT_OK; at += length) {
        length = weft_frame_measure(frames + at, bytes - at);
        if (length == 0)
            return weft_fail(WEFT_E_CORRUPT, "no whole frame at byte %llu of %llu", (ull)at, (ull)bytes);
        status = check_note(writer, weft_frame_check(frames + at, length));
        share_note(writer, frames + at, length);
    }
    writer->trailer.frame_bytes += bytes;
    return status == WEFT_OK ? put(writer, frames, bytes) : status;
}

static weft_status packer_need(weft_update_writer *writer, const weft_layout *layout)
{
    if (writer->frame)
        return WEFT_OK;
    weft_status status = weft_packer_open(&writer->packer);
    if (status != WEFT_OK)
        return status;
    writer->frame = weft_mem_take(layout->largest_frame, 1);
    return writer->frame ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for a frame");
}

weft_status weft_update_writer_frame(weft_update_writer *writer, const weft_layout *layout, const uint8_t *frame,
                                     uint32_t bytes)
{
    if ((frame[7] & 0x0f) != WEFT_LEVEL_FULL) /* as the header has it: a frame names its own coding */
        return weft_update_writer_frames(writer, frame, bytes);
    weft_status status = packer_need(writer, layout);
    if (status != WEFT_OK)
        return status;
    uint64_t begun = weft_clock_ns(), unit = weft_bytes_get(frame, 4);
    memcpy(writer->frame, frame, bytes);
    bytes = weft_planes_pack(&writer->packer, &layout->units[unit], writer->frame);
    writer->pack_ms += weft_clock_ms(begun, weft_clock_ns());
    return weft_update_writer_frames(writer, writer->frame, bytes);
}

/* ---- what is after them */

/* Makes the short form of the layout, packed if that is shorter. *shape comes from weft_mem_take. */
static weft_status names_make(weft_update_writer *writer, const weft_layout *layout, uint8_t **shape, uint64_t *used)
{
    uint8_t *brief;
    uint64_t length, begun = weft_clock_ns();
    weft_status status = weft_update_names_write(layout, &brief, &length);
    if (status != WEFT_OK)
        return status;
    status = weft_update_pack(brief, length, shape, used);
    writer->pack_ms += weft_clock_ms(begun, weft_clock_ns());
    weft_mem_give(brief);
    return status;
}

/* Makes the shape: with the names, unless they are unknown or not wanted. *shape comes from weft_mem_take. */
static weft_status shape_make(weft_update_writer *writer, const weft_layout *layout, bool named, uint8_t **shape,
                              weft_update_tail *tail)
{
    uint64_t used = 0;
    weft_status status = WEFT_OK;
    if (named && weft_layout_wire_bytes(layout) <= WEFT_LAYOUT_MAX) {
        status = names_make(writer, layout, shape, &used);
        tail->whole = status == WEFT_OK && used <= WEFT_SHAPE_MAX;
    }
    if (status == WEFT_OK && !tail->whole) {
        weft_mem_give(*shape);
        *shape = NULL;
        status = weft_update_grid_write(layout, shape, &used);
    }
    tail->shape_bytes = (uint32_t)used;
    return status;
}

/* Makes the list of cells. *cells comes from weft_mem_take. */
static weft_status cells_make(const weft_update_writer *writer, weft_update_tail *tail, uint8_t **cells, uint64_t *used)
{
    if (!writer->cells)
        return WEFT_OK;
    if (!tail->whole)
        return weft_fail(WEFT_E_LAYOUT, "the names of the model take too much room in an update of its cells");
    tail->divided = true;
    weft_status status = weft_update_cells_write(writer->cells, cells, used);
    if (status == WEFT_OK && *used > WEFT_SHAPE_MAX)
        status = weft_fail(WEFT_E_LAYOUT, "a list of cells of %llu bytes, at most %u", (ull)*used, WEFT_SHAPE_MAX);
    return status;
}

typedef struct middle {
    uint8_t *shape, *cells;
    uint64_t cells_bytes;
} middle;

static weft_status sections_put(weft_update_writer *writer, const middle *made, weft_update_tail *tail)
{
    uint8_t trailer[WEFT_UPDATE_TRAILER_BYTES], end[WEFT_TAIL_BYTES];
    weft_out out = {trailer, sizeof trailer, 0, false};
    weft_wire_put_trailer(&out, &writer->trailer);
    weft_update_tail_put(end, tail);
    weft_update_sections sections = {.head = writer->head,
                                     .head_bytes = writer->head_bytes,
                                     .shape = made->shape,
                                     .shape_bytes = tail->shape_bytes,
                                     .cells = made->cells,
                                     .cells_bytes = made->cells_bytes,
                                     .packed = writer->packed,
                                     .packed_bytes = writer->packed_bytes,
                                     .checks = writer->checks,
                                     .checks_bytes = 8 * writer->trailer.frames,
                                     .tail = end,
                                     .trailer = trailer};
    tail->check = weft_update_check(&sections);
    weft_update_tail_put(end, tail);
    weft_status status = put(writer, made->shape, tail->shape_bytes);
    if (status == WEFT_OK)
        status = put(writer, made->cells, made->cells_bytes);
    if (status == WEFT_OK)
        status = put(writer, writer->packed, writer->packed_bytes);
    if (status == WEFT_OK)
        status = put(writer, writer->checks, sections.checks_bytes);
    if (status == WEFT_OK)
        status = put(writer, end, sizeof end);
    return status == WEFT_OK ? put(writer, trailer, sizeof trailer) : status;
}

weft_status weft_update_writer_finish(weft_update_writer *writer, const weft_layout *layout, bool named,
                                      uint64_t base_root, const weft_version *target, uint64_t changed)
{
    weft_update_tail tail = {.base_root = base_root, .packed_bytes = (uint32_t)writer->packed_bytes};
    middle made = {0};
    writer->trailer.target = *target;
    writer->trailer.changed = changed;
    weft_status status = shape_make(writer, writer->cells ? writer->cells->model : layout, named, &made.shape, &tail);
    if (status == WEFT_OK)
        status = cells_make(writer, &tail, &made.cells, &made.cells_bytes);
    if (status == WEFT_OK)
        status = sections_put(writer, &made, &tail);
    weft_mem_give(made.cells);
    weft_mem_give(made.shape);
    return status;
}

void weft_update_writer_close(weft_update_writer *writer)
{
    weft_packer_close(&writer->packer);
    weft_mem_give(writer->frame);
    weft_mem_give(writer->packed);
    weft_mem_give(writer->checks);
    *writer = (weft_update_writer){0};
}
