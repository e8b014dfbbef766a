/* log.h - lines with a level, written to a sink. Each session has its own sink and threshold; the process has none. */
#ifndef WEFT_CORE_LOG_H
#define WEFT_CORE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "weft.h"

#define WEFT_LOG_LINE    1024 /* bytes of the longest line, terminator included */
#define WEFT_LOG_PRINTED 8192 /* bytes of the longest line that is printed uncut, which may hold a path or two */

/* ---- standard error, for the whole process
 *
 * Lines for it go through a spool (log_spool.h) with a thread of its own, because who reads it may stop doing so: no
 * call waits for that, and the order is kept. What is not taken in time is dropped, and "weft warn: 17 lines lost, ..."
 * comes in its place. */

/* Starts that thread unless it runs, so that the first line need not start it. */
void weft_log_start(void);

/* Writes lines to standard error; all of them leave, or all are dropped. Any thread, under any lock. */
void weft_log_put(const char *text, size_t bytes);

/* Writes one line to standard error. The format has no newline. */
void weft_log_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes a session's line to standard error: "weft warn: LINE". */
void weft_log_print_level(weft_log_level level, const char *line);

/* Waits until all lines are written: at most half a second for a reader that takes nothing, two seconds for a slow one.
 * Call it before the process ends, outside every lock. */
void weft_log_drain(void);

/* ---- sinks */

/* The destination of lines: the callback ring of a session, or standard error. An error outside a session is not
 * logged, because its caller has the text (status.h). */
typedef struct weft_log_sink {
    weft_log_level level; /* threshold: lines above this level are dropped */
    void (*write)(struct weft_log_sink *sink, weft_log_level level, const char *line);
} weft_log_sink;

/* Makes `sink` the calling thread's sink and returns the previous one; NULL is standard error at `info`. A session sets
 * its sink at the start of each public call and in its thread, so that several sessions keep their lines apart. */
weft_log_sink *weft_log_enter(weft_log_sink *sink);

/* Makes a sink that drops every line the calling thread's sink, and returns the previous one. For work whose lines
 * would repeat what is logged elsewhere. */
weft_log_sink *weft_log_quiet(void);

/* True if the calling thread has a sink, because it works for a session. */
bool weft_log_entered(void);

/* True if a line of this level would be written now. */
bool weft_log_wants(weft_log_level level);

void weft_log(weft_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "..." at the end of a line that fills its `capacity` bytes (at least 4). No character is cut in two. */
void weft_log_cut(char *line, size_t capacity);

/* Replaces control characters by spaces. */
void weft_log_clean(char *line);

/* Formats one line into `capacity` bytes (at least 4). A longer line ends in "...". Control characters become spaces,
 * because texts may come from another host. Always terminated. */
void weft_log_compose(char *line, size_t capacity, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

#endif
