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

#endif
