/* status.h - deciding an error: its text is said once, where it is decided. */
#ifndef WEFT_CORE_STATUS_H
#define WEFT_CORE_STATUS_H

#include <stdbool.h>

#include "weft.h"

/* Decides an error: stores printf-style text as the thread's last error, logs it at `error` for session scope and
 * `warn` for the rest but the call's (which only the caller needs to see), where the thread works for a session, and
 * returns `status`.
 * Callers above pass the status on silently. */
weft_status weft_fail(weft_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same without a log line, for conditions that a caller above may well handle (a probe, a retry). */
weft_status weft_fail_quiet(weft_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__
/* The analyzer does not see into status.c: this tells it that the failure comes back. */
#define weft_fail(status, ...)       ((weft_fail)(status, __VA_ARGS__), (status))
#define weft_fail_quiet(status, ...) ((weft_fail_quiet)(status, __VA_ARGS__), (status))
#endif

/* Whether the thread's last error went to the log when it was decided: whoever tells it again says it twice. */
bool weft_fail_was_logged(void);
/* How often the thread said an error so far: whether what was called said one. */
uint64_t weft_fail_count(void);

/* Replaces the last error's text with "prefix: text", for a stage that knows which file or peer it was about, unless it
 * says so already. */
void weft_fail_about(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What another host is told of the last error instead of its text: without paths of this host, and other peers. It is
 * forgotten with that error. */
void weft_fail_outside(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* That; NULL: nothing else than the text was given. */
const char *weft_last_error_outside(void);

/* Whether a caller's struct that begins with `size` has it set; NULL is none. A size that was forgotten would pass for
 * a struct without fields, whose wishes nobody sees. Errors: WEFT_E_ARGUMENT. */
weft_status weft_size_check(const void *given, const char *type);

#endif
