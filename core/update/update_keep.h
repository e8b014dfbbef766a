/* update_keep.h - an update file's source, of which frames that were read once stay in memory. A way that was proved is
 * then written without the disk or the server, which may fail in between. */
#ifndef WEFT_CORE_UPDATE_KEEP_H
#define WEFT_CORE_UPDATE_KEEP_H

#include "shard/excerpt.h"
#include "update/update_format.h"

/* Bytes that follow each other in the file. */
typedef struct weft_kept_range {
    uint64_t offset, bytes; /* in the file */
    uint64_t at;            /* in the memory */
} weft_kept_range;

typedef struct weft_update_keep {
    weft_update_file *file;
    weft_source source; /* the file's own */
    uint8_t *memory;
    uint64_t capacity, used;
    weft_kept_range range[WEFT_EXCERPT_RANGES];
    uint32_t count;
} weft_update_keep;

/* Puts itself before the file's source. What does not fit `capacity` bytes, or no range, is read anew each time.
 * Errors: WEFT_E_MEMORY. */
weft_status weft_update_keep_open(weft_update_keep *keep, weft_update_file *file, uint64_t capacity);
/* Gives the file its own source back. */
void weft_update_keep_close(weft_update_keep *keep);

#endif
