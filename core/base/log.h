/* log.h - leveled lines to a sink; one process-wide threshold is not kept: the sink belongs to the thread's session. */
#ifndef WEFT_CORE_LOG_H
#define WEFT_CORE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "weft.h"

#define WEFT_LOG_LINE    1024 /* bytes of the longest line, terminator included */
#define WEFT_LOG_PRINTED 8192 /* of the longest that is printed as it is: it may have a path or two */

/* ---- standard error, for the whole process
 *
 * Lines for it go through a spool (log_spool.h) with a thread of its own, because who reads it may stop doing so: no
 * call waits for that, and the order is kept. What is not taken in time is dropped, and "weft warn: 17 lines lost, ..."
 * comes in its place. */

/* Starts that thread where there is none, so that the first line need not. */
void weft_log_start(void);

/* Puts lines there, which leave or are dropped as one. Any thread, under any lock. */
void weft_log_put(const char *text, size_t bytes);

/* The same for one line, given without its newline. */
void weft_log_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for a session's: "weft warn: LINE". */
void weft_log_print_level(weft_log_level level, const char *line);

/* Before an end: waits until all is written, half a second at most for a reader that takes nothing, two for a slow one.
 * Outside every lock. */
void weft_log_drain(void);

/* ---- sinks */

/* Where lines go: the callback ring of a session, or standard error. Errors without a session are in no log: whoever
 * called has them (status.h). */
typedef struct weft_log_sink {
    weft_log_level level; /* lines above it are dropped */
    void (*write)(struct weft_log_sink *sink, weft_log_level level, const char *line);
} weft_log_sink;

/* Makes `sink` the calling thread's sink and returns the one before; NULL is standard error at `info`. A session sets
 * its own on entry of each public call and in its thread, so that several sessions keep their lines apart. */
weft_log_sink *weft_log_enter(weft_log_sink *sink);

/* Makes one that writes nothing the calling thread's sink and returns the one before: what is said until that one is
 * entered again is said by somebody else too, or is nothing new. */
weft_log_sink *weft_log_quiet(void);

/* Whether the calling thread has a sink, that is works for a session. */
bool weft_log_entered(void);

/* Whether a line of this level would be written now. */
bool weft_log_wants(weft_log_level level);

void weft_log(weft_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends a line that fills its `capacity` bytes (at least 4) in "...", before the first character that would be cut in
 * two. */
void weft_log_cut(char *line, size_t capacity);

/* Makes spaces of control characters. */
void weft_log_clean(char *line);

/* Formats one line into `capacity` bytes (at least 4): what does not fit ends in "...", and control characters become
 * spaces, for texts may come from the other end of a wire. Always terminated. */
void weft_log_compose(char *line, size_t capacity, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

#endif
