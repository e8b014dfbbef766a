/* log_limit.h - a sink in front of another sink, for lines that other hosts cause: a burst of lines, then one line a
 * second, which says how many were left out. Lines at debug always pass, because whoever asked for debug wants them
 * all. */
#ifndef WEFT_CORE_LOG_LIMIT_H
#define WEFT_CORE_LOG_LIMIT_H

#include <stdint.h>

#include "base/log.h"

typedef struct weft_log_limit {
    weft_log_sink sink; /* the sink to enter */
    weft_log_sink *to;
    uint32_t burst, left; /* burst: lines that may pass at once; left: lines that may pass now, plus one each second */
    uint64_t since_ns;    /* time in ns up to which lines were given back to `left` */
    uint64_t held;        /* lines left out and not yet reported */
    uint64_t held_ns;     /* time in ns of the first of them */
} weft_log_limit;

/* Opens the limit with `burst` lines at once, at least 1. `to` must outlive the limit. */
void weft_log_limit_open(weft_log_limit *limit, weft_log_sink *to, uint32_t burst);

/* Reports the lines left out if a second has passed since the first of them. Call it about once a second. */
void weft_log_limit_tell(weft_log_limit *limit);

/* Reports the lines left out now, because no more lines will come. */
void weft_log_limit_end(weft_log_limit *limit);

#endif
