/* log_limit.h - a sink before another one, for lines that somebody else brings about: so many at once, then one a
 * second, which says how many were left out. Lines at debug pass, for who asked for those wants them all. */
#ifndef WEFT_CORE_LOG_LIMIT_H
#define WEFT_CORE_LOG_LIMIT_H

#include <stdint.h>

#include "base/log.h"

typedef struct weft_log_limit {
    weft_log_sink sink; /* to be entered */
    weft_log_sink *to;
    uint32_t burst, left; /* lines at once, and how many of them are not used up; one comes back each second */
    uint64_t since_ns;    /* up to when those that came back are counted */
    uint64_t held;        /* lines left out and not told yet */
    uint64_t held_ns;     /* since when */
} weft_log_limit;

/* Begins with `burst` lines at once, at least 1. `to` outlives it. */
void weft_log_limit_open(weft_log_limit *limit, weft_log_sink *to, uint32_t burst);

/* Tells what was left out once a second is over though no further line came. Call it each second or so. */
void weft_log_limit_tell(weft_log_limit *limit);

/* The same now, because no more lines will come. */
void weft_log_limit_end(weft_log_limit *limit);

#endif
