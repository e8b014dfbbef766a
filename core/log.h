/* log.h - leveled lines to a sink; one process-wide threshold is not kept: the sink belongs to the thread's session. */
#ifndef WEFT_CORE_LOG_H
#define WEFT_CORE_LOG_H

#include <stdbool.h>

#include "weft.h"

/* Where lines go: the callback ring of a session, or standard error. */
typedef struct weft_log_sink {
    weft_log_level level; /* lines above it are dropped */
    void (*write)(struct weft_log_sink *sink, weft_log_level level, const char *line);
} weft_log_sink;

/* Makes `sink` the calling thread's sink and returns the one before; NULL is standard error at `info`. A session sets
 * its own on entry of each public call and in its thread, so that several sessions keep their lines apart. */
weft_log_sink *weft_log_enter(weft_log_sink *sink);

/* Whether a line of this level would be written now. */
bool weft_log_wants(weft_log_level level);

void weft_log(weft_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
