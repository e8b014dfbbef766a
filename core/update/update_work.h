/* update_work.h - weft_work, the caller's wishes for long work, and the caller's functions. */
#ifndef WEFT_CORE_UPDATE_WORK_H
#define WEFT_CORE_UPDATE_WORK_H

#include <string.h>

#include "weft.h"

/* Copies the caller's struct. Fields beyond its size are 0. NULL stays NULL. */
static inline const weft_work *weft_update_work_take(const weft_work *given, weft_work *own)
{
    if (!given)
        return NULL;
    memset(own, 0, sizeof *own);
    memcpy(own, given, given->size < sizeof *own ? given->size : sizeof *own);
    return own;
}

/* Checks that `size` is set in the caller's structs. */
weft_status weft_update_sizes_check(const weft_work *work, const void *info, const char *info_type);

/* Call the caller's functions: progress, if there is one; read and write, unless there are no bytes. A status of these
 * functions is passed on, and gets a text if they set none. */
weft_status weft_update_progress(const weft_work *work, uint64_t done, uint64_t total);
weft_status weft_update_read(const weft_source *source, uint64_t offset, void *data, uint64_t bytes);
weft_status weft_update_write(const weft_sink *sink, const void *data, uint64_t bytes);

#endif
