/* update_file.c - opens an update file: reads and proves both ends, and leaves the frames where they are. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/status.h"
#include "journal/journal.h"
#include "shard/holding.h"
#include "update/update_format.h"
#include "update/update_grid.h"
#include "update/update_names.h"
#include "update/update_pack.h"
#include "update/update_work.h"

typedef unsigned long long ull;

#define LAST_BYTES (WEFT_TAIL_BYTES + WEFT_UPDATE_TRAILER_BYTES)
#define MARK_BYTES 4u
#define MARK       UINT32_C(0x50554657) /* "WFUP" */
#define MARK_END   UINT32_C(0x52544657) /* "WFTR" */

/* The beginning of a layout that is packed, and of one that is serialised; the short form begins with neither. */
#define PACKED     UINT32_C(0xfd2fb528) /* zstd's */
#define SERIALISED UINT32_C(0x594c4657) /* "WFLY" */

/* Places of the words from which the sections' sizes follow. */
#define PROTOCOL_AT    4u   /* in the header and the trailer */
#define PARAMETERS_AT  110u /* their number, in the header */
#define FRAMES_AT      40u  /* in the trailer */
#define FRAME_BYTES_AT 48u

static weft_status read_at(const weft_update_file *file, uint64_t offset, void *data, uint64_t bytes)
{
    return weft_update_read(&file->source, offset, data, bytes);
}

static weft_status cut_short(const weft_update_file *file)
{
    return weft_fail(WEFT_E_CORRUPT, "%s: its %llu bytes are not what its trailer says: cut short, or no update file",
                     weft_update_name(file), (ull)file->source.bytes);
}

/* ---- both ends, as bytes: what they say is looked at when they are proved */

/* A file too short for both ends is told apart from other files by its mark. */
static weft_status mark_read(const weft_update_file *file, uint8_t head[WEFT_HEAD_MAX])
{
    const bool whole = file->source.bytes >= WEFT_UPDATE_HEADER_BYTES + LAST_BYTES;
    if (file->source.bytes < MARK_BYTES)
        return cut_short(file);
    weft_status status = read_at(file, 0, head, whole ? WEFT_UPDATE_HEADER_BYTES : MARK_BYTES);
    if (status == WEFT_OK && weft_bytes_get(head, MARK_BYTES) != MARK)
        return weft_fail(WEFT_E_FILE, "no update file: it does not begin with WFUP");
    return status == WEFT_OK && !whole ? cut_short(file) : status;
}

static weft_status ends_read(const weft_update_file *file, uint8_t head[WEFT_HEAD_MAX], uint8_t last[LAST_BYTES])
{
    weft_status status = mark_read(file, head);
    if (status == WEFT_OK)
        status = read_at(file, file->source.bytes - LAST_BYTES, last, LAST_BYTES);
    if (status == WEFT_OK && weft_bytes_get(last + WEFT_TAIL_BYTES, 4) != MARK_END)
        return weft_fail(WEFT_E_CORRUPT, "%s: no trailer at the end of its %llu bytes: it is cut short",
                         weft_update_name(file), (ull)file->source.bytes);
    return status;
}

static weft_status protocol_check(const weft_update_file *file, const uint8_t *head, const uint8_t *last)
{
    unsigned first = (unsigned)weft_bytes_get(head + PROTOCOL_AT, 2);
    unsigned second = (unsigned)weft_bytes_get(last + WEFT_TAIL_BYTES + PROTOCOL_AT, 2);
    if (first != second)
        return weft_fail(WEFT_E_CORRUPT, "%s: damaged: protocol %u in its header, %u in its trailer",
                         weft_update_name(file), first, second);
    if (first != WEFT_FORMAT)
        return weft_fail(WEFT_E_PROTOCOL, "%s: of protocol %u, this weft knows only %u; read it with another",
                         weft_update_name(file), first, WEFT_FORMAT);
    return WEFT_OK;
}

/* Checks the sections' sizes against the file's. No memory is taken before they agree. */
static weft_status sections_measure(weft_update_file *file, const uint8_t *head, const uint8_t *last)
{
    const weft_update_tail *tail = &file->tail;
    const uint8_t *trailer = last + WEFT_TAIL_BYTES;
    uint64_t words = weft_bytes_get(head + PARAMETERS_AT, 2), frames = weft_bytes_get(trailer + FRAMES_AT, 8);
    if (words > WEFT_PARAMETER_WORDS_MAX)
        return weft_fail(WEFT_E_CORRUPT, "%s: damaged: %llu parameter words in its header, at most %u",
                         weft_update_name(file), (ull)words, WEFT_PARAMETER_WORDS_MAX);
    weft_update_tail_get(last, &file->tail);
    file->frames_at = weft_frame_pad(WEFT_UPDATE_HEADER_BYTES + 2 * words);
    uint64_t rest = (uint64_t)tail->shape_bytes + tail->packed_bytes, left = file->source.bytes - LAST_BYTES;
    uint64_t frame_bytes = weft_bytes_get(trailer + FRAME_BYTES_AT, 8), cells;
    if (file->frames_at > left || tail->shape_bytes > WEFT_SHAPE_MAX || tail->packed_bytes > WEFT_ATTACHMENT_MAX)
        return cut_short(file);
    left -= file->frames_at;
    if (rest > left || frame_bytes > left - rest || frame_bytes % WEFT_FRAME_ALIGN ||
        frames > (left - rest - frame_bytes) / 8)
        return cut_short(file);
    cells = left - rest - frame_bytes - 8 * frames;
    if (tail->divided ? cells == 0 || cells > WEFT_SHAPE_MAX : cells > 0)
        return cut_short(file);
    file->cells_bytes = cells;
    file->trailer.frames = frames;
    file->trailer.frame_bytes = frame_bytes;
    file->end_bytes = file->source.bytes - file->frames_at - frame_bytes;
    return WEFT_OK;
}

/* Reads the rest of the header and all bytes after the frames. What gave the sizes is not read again, because the check
 * must cover the same bytes. */
static weft_status sections_take(weft_update_file *file, uint8_t head[WEFT_HEAD_MAX], const uint8_t last[LAST_BYTES])
{
    uint64_t at = file->frames_at + file->trailer.frame_bytes, before = file->end_bytes - LAST_BYTES;
    file->end = weft_mem_take(file->end_bytes, 1);
    if (!file->end)
        return weft_fail(WEFT_E_MEMORY, "no memory for the %llu bytes after the frames", (ull)file->end_bytes);
    file->shape = file->end;
    file->cells = file->shape + file->tail.shape_bytes;
    file->packed = file->cells + file->cells_bytes;
    file->checks = file->packed + file->tail.packed_bytes;
    memcpy(file->end + before, last, LAST_BYTES);
    weft_status status = read_at(file, WEFT_UPDATE_HEADER_BYTES, head + WEFT_UPDATE_HEADER_BYTES,
                                 file->frames_at - WEFT_UPDATE_HEADER_BYTES);
    return status == WEFT_OK ? read_at(file, at, file->end, before) : status;
}

static weft_status prove(const weft_update_file *file, const uint8_t *head)
{
    weft_update_sections sections = {.head = head,
                                     .head_bytes = file->frames_at,
                                     .shape = file->shape,
                                     .shape_bytes = file->tail.shape_bytes,
                                     .cells = file->cells,
                                     .cells_bytes = file->cells_bytes,
                                     .packed = file->packed,
                                     .packed_bytes = file->tail.packed_bytes,
                                     .checks = file->checks,
                                     .checks_bytes = 8 * file->trailer.frames,
                                     .tail = file->checks + 8 * file->trailer.frames};
    sections.trailer = sections.tail + WEFT_TAIL_BYTES;
    if (weft_update_check(&sections) != file->tail.check)
        return weft_fail(WEFT_E_CHECK, "%s: damaged before or after its frames", weft_update_name(file));
    return WEFT_OK;
}

/* ---- what they say */

static weft_status words_read(weft_update_file *file, const uint8_t *head, const uint8_t *last)
{
    uint64_t bytes = WEFT_UPDATE_HEADER_BYTES + 2 * weft_bytes_get(head + PARAMETERS_AT, 2);
    weft_status status = weft_wire_get_update(head, bytes, &file->header);
    if (status == WEFT_OK)
        status = weft_wire_get_trailer(last + WEFT_TAIL_BYTES, WEFT_UPDATE_TRAILER_BYTES, &file->trailer);
    if (status != WEFT_OK)
        weft_fail_about("%s: it is whole, but not for this weft, which knows only protocol %u", weft_update_name(file),
                        WEFT_FORMAT);
    for (uint64_t at = bytes; status == WEFT_OK && at < file->frames_at; at++)
        if (head[at])
            status = weft_fail(WEFT_E_CORRUPT, "%s: byte %llu is not zero", weft_update_name(file), (ull)at);
    return status;
}

static weft_status words_check(const weft_update_file *file)
{
    const char *name = weft_update_name(file);
    const weft_wire_update *header = &file->header;
    const weft_wire_trailer *trailer = &file->trailer;
    uint32_t packed = file->tail.packed_bytes;
    if (header->snapshot || header->base.root || header->target.root)
        return weft_fail(WEFT_E_PROTOCOL, "%s: a %s in its header: not known to protocol %u", name,
                         header->snapshot ? "snapshot" : "root", WEFT_FORMAT);
    if (header->target.run != trailer->target.run || header->target.number != trailer->target.number)
        return weft_fail(WEFT_E_PROTOCOL, "%s: header and trailer name different versions", name);
    if (trailer->buckets)
        return weft_fail(WEFT_E_CORRUPT, "%s: %llu buckets in its trailer", name, (ull)trailer->buckets);
    if (file->tail.divided && !file->tail.whole)
        return weft_fail(WEFT_E_CORRUPT, "%s: cells of a model without its layout", name);
    if (packed > header->attachment_bytes || !packed != !header->attachment_bytes)
        return weft_fail(WEFT_E_CORRUPT, "%s: an attachment of %llu bytes in %u", name, (ull)header->attachment_bytes,
                         packed);
    return WEFT_OK;
}

static weft_status file_read(weft_update_file *file)
{
    uint8_t head[WEFT_HEAD_MAX], last[LAST_BYTES];
    weft_status status = ends_read(file, head, last);
    if (status == WEFT_OK)
        status = protocol_check(file, head, last);
    if (status == WEFT_OK)
        status = sections_measure(file, head, last);
    if (status == WEFT_OK)
        status = sections_take(file, head, last);
    if (status == WEFT_OK)
        status = prove(file, head);
    if (status == WEFT_OK)
        status = words_read(file, head, last);
    if (status == WEFT_OK)
        status = words_check(file);
    file->header.base.root = file->tail.base_root;
    file->header.target.root = file->trailer.target.root;
    return status;
}

static weft_status opened(weft_update_file *file, weft_status status, weft_update_file **update)
{
    if (status == WEFT_OK)
        status = file_read(file);
    if (status == WEFT_OK)
        *update = file;
    else
        weft_update_close(file);
    return status;
}

static weft_update_file *file_take(void)
{
    weft_update_file *file = weft_mem_take(1, sizeof *file);
    if (file)
        file->descriptor = -1;
    else
        weft_fail(WEFT_E_MEMORY, "no memory for an update file");
    return file;
}

static weft_status descriptor_read(void *user, uint64_t offset, void *data, uint64_t bytes)
{
    const weft_update_file *file = user;
    weft_status status = weft_file_read(file->descriptor, data, bytes, offset);
    if (status != WEFT_OK)
        weft_fail_about("%s", file->path);
    return status;
}

static weft_status descriptor_open(weft_update_file *file, const char *path)
{
    struct stat facts;
    file->path = weft_mem_take(strlen(path) + 1, 1);
    if (!file->path)
        return weft_fail(WEFT_E_MEMORY, "no memory for a name");
    memcpy(file->path, path, strlen(path) + 1);
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is to be refused, not waited for */
    if (file->descriptor < 0 || fstat(file->descriptor, &facts) != 0)
        return weft_fail(WEFT_E_FILE, "cannot be opened: %s", strerror(errno));
    if (!S_ISREG(facts.st_mode))
        return weft_fail(WEFT_E_FILE, "not a regular file");
    file->source = (weft_source){file, descriptor_read, (uint64_t)facts.st_size};
    return WEFT_OK;
}

weft_status weft_update_open(const char *path, const weft_source *source, weft_update_file **update)
{
    if (!path == !source)
        return weft_fail(WEFT_E_ARGUMENT, "weft_update_open: give a path or a source, and the other as NULL");
    weft_update_file *file = file_take();
    if (!file)
        return WEFT_E_MEMORY;
    if (source)
        file->source = *source;
    weft_status status = opened(file, path ? descriptor_open(file, path) : WEFT_OK, update);
    if (status != WEFT_OK && path)
        weft_fail_about("%s", path);
    return status;
}

void weft_update_close(weft_update_file *update)
{
    if (!update)
        return;
    weft_alone_last(&update->alone_in, "weft_update_close");
    if (update->descriptor >= 0)
        close(update->descriptor);
    if (update->release)
        update->release(update->source.user);
    weft_update_cells_free(&update->division);
    weft_layout_free(update->layout);
    weft_mem_give(update->end);
    weft_mem_give(update->path);
    weft_mem_give(update);
}

/* ---- what it carries */

weft_status weft_update_attachment(const weft_update_file *update, void *data, uint64_t capacity, uint64_t *bytes)
{
    WEFT_ALONE(update, "weft_update_attachment");
    uint64_t length = update->header.attachment_bytes;
    *bytes = length;
    if (capacity < length || length == 0)
        return WEFT_OK;
    uint8_t *plain;
    weft_status status = weft_update_unpack(update->packed, update->tail.packed_bytes, length, &plain);
    if (status != WEFT_OK)
        return status;
    if (weft_blob_hash(plain, length) != update->header.attachment)
        status = weft_fail(WEFT_E_CHECK, "%s: damaged: its attachment has another hash than its header says",
                           weft_update_name(update));
    else
        memcpy(data, plain, length);
    weft_mem_give(plain);
    return status;
}

/* Turns *plain into the serialised layout, if it is in short form. */
static weft_status layout_expand(uint8_t **plain, uint64_t *bytes)
{
    uint8_t *brief = *plain;
    if (*bytes >= 4 && weft_bytes_get(brief, 4) == SERIALISED)
        return WEFT_OK;
    *plain = NULL;
    weft_status status = weft_update_names_read(brief, *bytes, plain, bytes);
    weft_mem_give(brief);
    return status;
}

static weft_status layout_unpack(weft_update_file *update)
{
    const uint8_t *shape = update->shape;
    uint64_t bytes = update->tail.shape_bytes;
    uint8_t *plain = NULL;
    weft_status status = WEFT_OK;
    if (bytes >= 4 && weft_bytes_get(shape, 4) == PACKED)
        status = weft_update_unpacked(shape, update->tail.shape_bytes, WEFT_LAYOUT_MAX, &bytes);
    if (status == WEFT_OK)
        status = weft_update_unpack(shape, update->tail.shape_bytes, bytes, &plain);
    if (status == WEFT_OK)
        status = layout_expand(&plain, &bytes);
    if (status == WEFT_OK)
        status = weft_layout_parse(plain, bytes, &update->layout);
    weft_mem_give(plain);
    return status;
}

/* Checks that roots, frames and bytes of the keys add up to those of the file. */
static weft_status shares_check(const weft_update_file *update)
{
    const weft_update_cells *cells = &update->division;
    const weft_wire_trailer *trailer = &update->trailer;
    weft_key_share all = {0};
    for (uint32_t i = 0; i < cells->share_count; i++) {
        const weft_key_share *share = &cells->shares[i];
        if (share->frames > trailer->frames - all.frames || share->bytes > trailer->frame_bytes - all.bytes)
            return weft_fail(WEFT_E_CORRUPT, "%s: its keys have more frames than it has", weft_update_name(update));
        all.base += share->base;
        all.target += share->target;
        all.frames += share->frames;
        all.bytes += share->bytes;
    }
    const bool same = all.base == update->header.base.root && all.target == update->header.target.root &&
                      all.frames == trailer->frames && all.bytes == trailer->frame_bytes;
    return same ? WEFT_OK
                : weft_fail(WEFT_E_CORRUPT, "%s: its keys do not add up to its frames and roots",
                            weft_update_name(update));
}

/* Turns the layout of the model into that of the cells. */
static weft_status divide(weft_update_file *update)
{
    weft_layout *model = update->layout;
    update->layout = NULL;
    weft_status status = weft_update_cells_read(update->cells, update->cells_bytes, model, &update->division);
    weft_layout_free(model);
    if (status == WEFT_OK)
        status = shares_check(update);
    if (status == WEFT_OK)
        status = weft_holding_layout(update->division.model, update->division.cells.cells, update->division.cells.count,
                                     &update->layout);
    return status;
}

static weft_status layout_make(weft_update_file *update)
{
    weft_status status = layout_unpack(update);
    if (status == WEFT_OK && update->tail.divided)
        status = divide(update);
    if (status == WEFT_OK && memcmp(update->layout->hash, update->header.layout, sizeof update->header.layout) != 0)
        status =
            weft_fail(WEFT_E_CORRUPT, "%s: its layout has another hash than its header says", weft_update_name(update));
    return status;
}

weft_status weft_update_layout(weft_update_file *update, const weft_layout **layout, int *named)
{
    WEFT_ALONE(update, "weft_update_layout");
    weft_status status = WEFT_OK;
    if (!update->layout && update->tail.whole)
        status = layout_make(update);
    else if (!update->layout)
        status = weft_update_grid_read(update->shape, update->tail.shape_bytes, &update->layout);
    if (status != WEFT_OK) {
        weft_update_cells_free(&update->division);
        weft_layout_free(update->layout);
        update->layout = NULL;
        return status;
    }
    *layout = update->layout;
    *named = update->tail.whole;
    return WEFT_OK;
}

weft_status weft_update_division(weft_update_file *update, const weft_update_cells **cells)
{
    const weft_layout *layout;
    int named;
    const weft_status status = weft_update_layout(update, &layout, &named);
    if (status == WEFT_OK)
        *cells = update->division.model ? &update->division : NULL;
    return status;
}
