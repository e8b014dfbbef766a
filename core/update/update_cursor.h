/* update_cursor.h - a cursor over the frames of an update file, each copied and checked before it is read.
 *
 * Only the frame's own header is judged here: it is no wider than its run, and comes after the frame before. Admission
 * judges the payload (weft_planes_admit). */
#ifndef WEFT_CORE_UPDATE_CURSOR_H
#define WEFT_CORE_UPDATE_CURSOR_H

#include "update/update_format.h"

typedef struct weft_update_cursor {
    const weft_update_file *file;
    const weft_layout *layout;
    uint8_t *memory; /* memory of a window on the frames */
    uint64_t capacity, begin, end;
    uint64_t at;    /* offset of the next frame, among the frames' bytes */
    uint64_t frame; /* number of the next frame */
    uint64_t unit;  /* least unit that the next frame may have */
} weft_update_cursor;

weft_status weft_update_cursor_open(weft_update_cursor *cursor, const weft_update_file *file,
                                    const weft_layout *layout);
void weft_update_cursor_close(weft_update_cursor *cursor);
void weft_update_cursor_begin(weft_update_cursor *cursor);
/* Moves to a frame that is known to begin there: number, offset among the frames' bytes, and the least unit that the
 * frame may have. */
void weft_update_cursor_seek(weft_update_cursor *cursor, uint64_t frame, uint64_t at, uint64_t unit);

/* Returns the next frame if it begins below `unit_limit`, in memory that stays until the next call. *bytes 0: no such
 * frame, or the end of the file. Errors: WEFT_E_CORRUPT, WEFT_E_CHECK, the source's. */
weft_status weft_update_cursor_next(weft_update_cursor *cursor, uint64_t unit_limit, const uint8_t **frame,
                                    uint64_t *bytes);
/* Checks the trailer's figures after the last frame. Errors: WEFT_E_CORRUPT. */
weft_status weft_update_cursor_finish(const weft_update_cursor *cursor);

#endif
