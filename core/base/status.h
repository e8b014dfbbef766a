/* status.h - deciding an error. An error's text is set once, where the error is decided. */
#ifndef WEFT_CORE_STATUS_H
#define WEFT_CORE_STATUS_H

#include <stdbool.h>

#include "weft.h"

/* Decides an error: stores the text as the thread's last error, logs it, and returns `status`. The log has errors of
 * session scope at `error` and others at `warn`, if the thread works for a session. Errors of call scope are not
 * logged, because only the caller needs them. Callers pass the status on without a word. */
weft_status weft_fail(weft_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Decides an error without a log line, for conditions that a caller may handle (a probe, a retry). */
weft_status weft_fail_quiet(weft_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__
/* The analyzer does not see into status.c. These macros show it that the status is returned. */
#define weft_fail(status, ...)       ((weft_fail)(status, __VA_ARGS__), (status))
#define weft_fail_quiet(status, ...) ((weft_fail_quiet)(status, __VA_ARGS__), (status))
#endif

/* True if the thread's last error was logged when it was decided. Logging such an error again would repeat it. */
bool weft_fail_was_logged(void);
/* Counts the errors that the thread decided so far, so that a caller can see whether a call decided one. */
uint64_t weft_fail_count(void);

/* Holds back the line of an error that a call decides, for a caller that says the error itself if the call returns it.
 */
void weft_fail_hold(void);
/* Ends that. `said`: the caller says the error that was decided last; else its line is logged now. Errors before it,
 * with which the call went on, have their lines. */
void weft_fail_release(bool said);

/* Puts "prefix: " before the last error's text, unless the text begins so already. For a stage that knows the file or
 * the peer. */
void weft_fail_about(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sets the text that another host gets in place of the last error's: without paths of this host, and without other
 * peers. The next error clears it. */
void weft_fail_outside(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns the text of weft_fail_outside, or NULL if the last error has none. */
const char *weft_last_error_outside(void);

/* Checks that a caller's struct that begins with `size` has `size` set; NULL is allowed. A forgotten size would pass
 * for a struct without fields, and its settings would be ignored. Errors: WEFT_E_ARGUMENT. */
weft_status weft_size_check(const void *given, const char *type);

#endif
