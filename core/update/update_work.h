/* update_work.h - how a caller wants long work done, as far as it knows the struct. */
#ifndef WEFT_CORE_UPDATE_WORK_H
#define WEFT_CORE_UPDATE_WORK_H

#include <string.h>

#include "weft.h"

/* Copies what the caller's struct has; fields it does not know are 0. NULL stays NULL. */
static inline const weft_work *weft_update_work_take(const weft_work *given, weft_work *own)
{
    if (!given)
        return NULL;
    memset(own, 0, sizeof *own);
    memcpy(own, given, given->size < sizeof *own ? given->size : sizeof *own);
    return own;
}

/* Whether the caller's structs say their size: how work is done, and what receives its figures. */
weft_status weft_update_sizes_check(const weft_work *work, const void *info, const char *info_type);

/* Tells the caller how far it is, if it wants to know; reads and writes by the caller's functions, nothing for no
 * bytes. A status that the caller's function gives is passed on, with a text where it set none. */
weft_status weft_update_tell(const weft_work *work, uint64_t done, uint64_t total);
weft_status weft_update_read(const weft_source *source, uint64_t offset, void *data, uint64_t bytes);
weft_status weft_update_write(const weft_sink *sink, const void *data, uint64_t bytes);

#endif
