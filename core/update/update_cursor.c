#include "update/update_cursor.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/part.h"
#include "update/update_work.h"

#define WINDOW (UINT64_C(1) << 20) /* bytes read at once, beyond the largest frame's */

typedef unsigned long long ull;

weft_status weft_update_cursor_open(weft_update_cursor *cursor, const weft_update_file *file, const weft_layout *layout)
{
    *cursor = (weft_update_cursor){.file = file, .layout = layout, .capacity = WINDOW + layout->largest_frame};
    cursor->memory = weft_mem_take(cursor->capacity, 1);
    return cursor->memory ? WEFT_OK
                          : weft_fail(WEFT_E_MEMORY, "no memory to read frames of %u bytes", layout->largest_frame);
}

void weft_update_cursor_close(weft_update_cursor *cursor)
{
    weft_mem_give(cursor->memory);
    cursor->memory = NULL;
}

void weft_update_cursor_begin(weft_update_cursor *cursor)
{
    cursor->begin = cursor->end = cursor->at = cursor->frame = cursor->unit = 0;
}

void weft_update_cursor_seek(weft_update_cursor *cursor, uint64_t frame, uint64_t at, uint64_t unit)
{
    cursor->frame = frame;
    cursor->unit = unit;
    if (at < cursor->at || at > cursor->end)
        cursor->begin = cursor->end = at; /* not in the window */
    cursor->at = at;
}

/* Brings `bytes` bytes from `at` on into the window, if the file has so many. */
static weft_status look(weft_update_cursor *cursor, uint64_t bytes)
{
    const weft_update_file *file = cursor->file;
    uint64_t left = file->trailer.frame_bytes - cursor->at;
    if (cursor->end - cursor->at >= (bytes < left ? bytes : left))
        return WEFT_OK;
    uint64_t kept = cursor->end - cursor->at, more = cursor->capacity - kept;
    memmove(cursor->memory, cursor->memory + (cursor->at - cursor->begin), kept);
    cursor->begin = cursor->at;
    more = more < left - kept ? more : left - kept;
    weft_status status = weft_update_read(&file->source, file->frames_at + cursor->end, cursor->memory + kept, more);
    cursor->end += status == WEFT_OK ? more : 0;
    return status;
}

/* Checks the units that the frame says it codes; admission judges the rest of its header. */
static weft_status place(weft_update_cursor *cursor, const uint8_t *frame, uint64_t *unit, uint64_t *units)
{
    uint32_t shift = cursor->file->header.parameters.run_shift;
    *unit = weft_bytes_get(frame, 4);
    *units = (weft_bytes_get(frame + 8, 4) >> 20) + 1;
    if (*unit >= cursor->layout->unit_count || *unit < cursor->unit)
        return weft_fail(WEFT_E_CORRUPT, "%s: frame %llu has unit %llu of %llu, after unit %llu",
                         weft_update_name(cursor->file), (ull)cursor->frame, (ull)*unit,
                         (ull)cursor->layout->unit_count, (ull)cursor->unit);
    if (*units > weft_layout_run(cursor->layout, *unit, shift))
        return weft_fail(WEFT_E_CORRUPT, "%s: frame %llu codes %llu units, a run has at most %u",
                         weft_update_name(cursor->file), (ull)cursor->frame, (ull)*units, 1u << shift);
    return WEFT_OK;
}

/* Writes which units the frame's header names, if it names any. */
static void name_frame(const weft_layout *layout, const uint8_t *frame, char name[WEFT_PART_TEXT])
{
    uint64_t unit = weft_bytes_get(frame, 4), units = (weft_bytes_get(frame + 8, 4) >> 20) + 1, last = unit + units - 1;
    if (last < layout->unit_count)
        weft_part_name_range(layout, weft_part_of_unit(layout, unit),
                             weft_part_of_unit(layout, last) + layout->units[last].tensor_count - 1, name);
    else
        snprintf(name, WEFT_PART_TEXT, "its header names no units of the layout");
}

static weft_status check(const weft_update_cursor *cursor, const uint8_t *frame, uint64_t bytes)
{
    const weft_update_file *file = cursor->file;
    if (cursor->frame >= file->trailer.frames)
        return weft_fail(WEFT_E_CORRUPT, "%s: more frames than the %llu of its trailer", weft_update_name(file),
                         (ull)file->trailer.frames);
    if (weft_frame_check(frame, bytes) == weft_bytes_get(file->checks + 8 * cursor->frame, 8))
        return WEFT_OK;
    char name[WEFT_PART_TEXT];
    name_frame(cursor->layout, frame, name);
    return weft_fail(WEFT_E_CHECK, "%s: frame %llu of %llu, at byte %llu, is damaged: %s", weft_update_name(file),
                     (ull)cursor->frame, (ull)file->trailer.frames, (ull)(file->frames_at + cursor->at), name);
}

weft_status weft_update_cursor_next(weft_update_cursor *cursor, uint64_t unit_limit, const uint8_t **frame,
                                    uint64_t *bytes)
{
    uint64_t unit, units, available;
    *bytes = 0;
    if (cursor->at == cursor->file->trailer.frame_bytes)
        return WEFT_OK;
    weft_status status = look(cursor, cursor->layout->largest_frame);
    if (status != WEFT_OK)
        return status;
    const uint8_t *at = cursor->memory + (cursor->at - cursor->begin);
    available = cursor->end - cursor->at;
    uint64_t length = weft_frame_measure(at, available);
    if (length == 0 || length > cursor->layout->largest_frame)
        return weft_fail(WEFT_E_CORRUPT, "%s: no frame at byte %llu", weft_update_name(cursor->file),
                         (ull)(cursor->file->frames_at + cursor->at));
    status = check(cursor, at, length);
    if (status == WEFT_OK)
        status = place(cursor, at, &unit, &units);
    if (status != WEFT_OK || unit >= unit_limit)
        return status;
    cursor->at += length;
    cursor->frame++;
    cursor->unit = unit + units;
    *frame = at;
    *bytes = length;
    return WEFT_OK;
}

weft_status weft_update_cursor_finish(const weft_update_cursor *cursor)
{
    const weft_wire_trailer *trailer = &cursor->file->trailer;
    if (cursor->at == trailer->frame_bytes && cursor->frame == trailer->frames)
        return WEFT_OK;
    return weft_fail(WEFT_E_CORRUPT, "%s: %llu frames of %llu bytes, its trailer says %llu of %llu",
                     weft_update_name(cursor->file), (ull)cursor->frame, (ull)cursor->at, (ull)trailer->frames,
                     (ull)trailer->frame_bytes);
}
