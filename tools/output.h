/* output.h - how the command speaks: JSON objects on stdout, lines for people, errors with their exit code.
 *
 * 64-bit hashes are strings of 16 hex digits, other integers plain, times float milliseconds, what is absent null. */
#ifndef WEFT_TOOLS_OUTPUT_H
#define WEFT_TOOLS_OUTPUT_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

#include "weft.h"

enum {
    WEFT_EXIT_DONE = 0,
    WEFT_EXIT_FAILED = 1,   /* while working */
    WEFT_EXIT_USAGE = 2,    /* wrong use, bad configuration, bad input */
    WEFT_EXIT_DIFFERENT = 3 /* verification failed */
};

/* Up to where a verb has come: what is wrong with its input is the user's to mend (2), what happens later is not (1).
 */
typedef enum weft_tool_phase { WEFT_TOOL_INPUT, WEFT_TOOL_WORK } weft_tool_phase;

/* Tells the calling thread's last error, to be called before another weft call replaces its text: on stderr, and with
 * `json` as one object {"error": {"status", "scope", "text"}} on stdout. Returns the exit code. */
int weft_output_error(bool json, weft_tool_phase phase, weft_status status);

/* Prints one object as one line on stdout and flushes; takes the reference. */
void weft_output_object(json_t *object);

/* As printf; what ends with a newline is flushed. */
void weft_output_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Lines at once, where they are to come together. */
void weft_output_page(bool on_stderr, const char *text, size_t bytes);

/* One line on stderr, given without its newline, after what the library's log has there. Waits for nobody. */
void weft_output_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For a verb that serves others: from now on nobody waits for who reads stdout. What is printed by the functions here
 * leaves by a thread, whole lines that are dropped and counted while too much waits; stderr says so. */
void weft_output_serve(void);

/* Before the process ends: what was printed leaves, or stderr says that it did not. Returns the exit code: `code`, and
 * WEFT_EXIT_FAILED for a verb that was to print and could not. */
int weft_output_end(int code);

/* A text that may be anybody's, such as a path: JSON is UTF-8, so each byte that is not becomes U+FFFD. */
json_t *weft_json_text(const char *text);
json_t *weft_json_error(weft_status status, const char *text);
json_t *weft_json_hash(uint64_t hash);
json_t *weft_json_count(uint64_t count);
/* null unless finite and above 0: the library's "unknown" is 0. */
json_t *weft_json_known(double value);
json_t *weft_json_bits_per_change(uint64_t bytes, uint64_t changed);
json_t *weft_json_update(const weft_update_info *info);
json_t *weft_json_peer(const weft_peer_info *peer);

typedef struct weft_size_text {
    char text[32];
} weft_size_text;

/* "1.50 MiB" */
weft_size_text weft_output_size(double bytes);

typedef struct weft_plain_text {
    char text[PATH_MAX];
} weft_plain_text;

/* A text that may be anybody's, such as a path, for people: what steers a terminal becomes spaces, as in errors. */
weft_plain_text weft_output_plain(const char *text);

/* One line for people about one update. */
void weft_output_update(const weft_update_info *info);

/* A duration of the site file ("500ms", "2s", "1min") in milliseconds; `fallback` if it is none. */
uint32_t weft_output_duration_ms(const char *text, uint32_t fallback);

typedef struct weft_version_text {
    char text[32];
} weft_version_text;

/* "version 7"; of bits whose label has not come yet (run 0) "bits of no version yet". JSON has null for that. */
weft_version_text weft_output_version(const weft_version *version);
json_t *weft_json_label(const weft_version *version);

double weft_now_ms(void); /* monotonic */

#endif
