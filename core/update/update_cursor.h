/* update_cursor.h - the frames of an update file, one after the other, each copied and checked before it is looked at.
 *
 * Only the frame's own words are judged here: that it is no wider than its run and behind the one before. Its payload
 * is the admission's (weft_planes_admit). */
#ifndef WEFT_CORE_UPDATE_CURSOR_H
#define WEFT_CORE_UPDATE_CURSOR_H

#include "update/update_format.h"

typedef struct weft_update_cursor {
    const weft_update_file *file;
    const weft_layout *layout;
    uint8_t *memory; /* a window on the frames */
    uint64_t capacity, begin, end;
    uint64_t at;    /* of the next frame, among the frames' bytes */
    uint64_t frame; /* its number */
    uint64_t unit;  /* the least it may have */
} weft_update_cursor;

weft_status weft_update_cursor_open(weft_update_cursor *cursor, const weft_update_file *file,
                                    const weft_layout *layout);
void weft_update_cursor_close(weft_update_cursor *cursor);
void weft_update_cursor_begin(weft_update_cursor *cursor);

/* The next frame if it begins below `unit_limit`, in memory that stays until the next call; *bytes 0: none, or the end
 * of the file. Errors: WEFT_E_CORRUPT, WEFT_E_CHECK, the source's. */
weft_status weft_update_cursor_next(weft_update_cursor *cursor, uint64_t unit_limit, const uint8_t **frame,
                                    uint64_t *bytes);
/* At the end: whether the trailer told the truth. Errors: WEFT_E_CORRUPT. */
weft_status weft_update_cursor_finish(const weft_update_cursor *cursor);

#endif
