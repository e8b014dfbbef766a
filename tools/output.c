#include "tools/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_spool.h"
#include "base/status.h"
#include "tools/signals.h"

/* Bytes that may wait for stdout while a verb serves, and room for one object about thousands of peers. */
#define WAITING_BYTES (1u << 20)
#define LONGEST_BYTES (16u << 20)
/* At the end a reader that takes nothing is not waited for any longer; less so after a signal. */
enum { STILL_MS = 2000, STOPPED_MS = 300, SLOW_MS = 10000 };

static bool input_is_wrong(weft_status status)
{
    return status == WEFT_E_ARGUMENT || status == WEFT_E_CONFIG || status == WEFT_E_LAYOUT || status == WEFT_E_FILE ||
           status == WEFT_E_MISSING || status == WEFT_E_PROTOCOL;
}

static int exit_code(weft_tool_phase phase, weft_status status)
{
    if (status == WEFT_OK)
        return WEFT_EXIT_DONE;
    if (status == WEFT_E_BASE || status == WEFT_E_TARGET || status == WEFT_E_CHECK || status == WEFT_E_CORRUPT)
        return WEFT_EXIT_DIFFERENT;
    if (status == WEFT_E_CONFIG) /* of two ends that do not fit, too, which is found while working */
        return WEFT_EXIT_USAGE;
    return phase == WEFT_TOOL_INPUT && input_is_wrong(status) ? WEFT_EXIT_USAGE : WEFT_EXIT_FAILED;
}

/* Returns the bytes of the character that `text` begins with; 0: `text` begins with none. */
static size_t character_bytes(const char *text)
{
    for (size_t bytes = 1; bytes <= 4 && text[bytes - 1]; bytes++) {
        json_t *character = json_stringn(text, bytes);
        json_decref(character);
        if (character)
            return bytes;
    }
    return 0;
}

static json_t *text_repaired(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char *repaired = malloc((sizeof replacement - 1) * strlen(text) + 1);
    size_t used = 0;
    if (!repaired)
        return json_null();
    while (*text) {
        size_t bytes = character_bytes(text), put = bytes ? bytes : sizeof replacement - 1;
        memcpy(repaired + used, bytes ? text : replacement, put);
        used += put;
        text += bytes ? bytes : 1;
    }
    json_t *string = json_stringn(repaired, used);
    free(repaired);
    return string;
}

json_t *weft_json_text(const char *text)
{
    json_t *string = json_string(text);
    return string ? string : text_repaired(text);
}

json_t *weft_json_error(weft_status status, const char *text)
{
    static const char *const scopes[] = {"none", "call", "peer", "version", "session"};
    return json_pack("{s:{s:s,s:s,s:o}}", "error", "status", weft_status_name(status), "scope",
                     scopes[weft_status_scope(status)], "text", weft_json_text(text));
}

int weft_output_error(bool json, weft_tool_phase phase, weft_status status)
{
    const char *text = weft_last_error();
    if (!*text)
        text = weft_status_name(status);
    if (!weft_fail_was_logged())
        weft_output_say("weft: %s", text);
    if (json)
        weft_output_object(weft_json_error(status, text));
    return exit_code(phase, status);
}

/* ---- stdout of a verb that serves */

static void tell_of_stdout(weft_spool_news news, uint64_t number)
{
    if (news == WEFT_SPOOL_FAILS)
        weft_output_say("weft: warn: standard output cannot be written: %s; weft goes on serving the weights",
                        strerror((int)number));
    else if (news == WEFT_SPOOL_DROPS)
        weft_output_say(
            "weft: warn: nobody reads standard output, so its lines are dropped; weft goes on serving the weights");
    else
        weft_output_say("weft: warn: standard output is read again: %" PRIu64 " lines were dropped", number);
}

static bool serving;
static char stdout_memory[LONGEST_BYTES]; /* its pages are had when they are needed */
static weft_spool stdout_spool = WEFT_SPOOL(STDOUT_FILENO, stdout_memory, WAITING_BYTES, tell_of_stdout);

/* The line that is being printed. */
static char *line;
static size_t line_bytes;

void weft_output_serve(void)
{
    fflush(stdout);
    serving = true;
}

static void print_later(const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    char *longer = length >= 0 ? realloc(line, line_bytes + (size_t)length + 1) : NULL;
    if (longer) {
        line = longer;
        vsnprintf(line + line_bytes, (size_t)length + 1, format, again);
        line_bytes += (size_t)length;
    }
    va_end(again);
    if (line_bytes == 0 || line[line_bytes - 1] != '\n')
        return;
    weft_spool_put(&stdout_spool, line, line_bytes);
    line_bytes = 0;
}

void weft_output_print(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (serving)
        print_later(format, arguments);
    else
        vprintf(format, arguments);
    va_end(arguments);
    if (!serving && format[strlen(format) - 1] == '\n')
        fflush(stdout);
}

void weft_output_page(bool on_stderr, const char *text, size_t bytes)
{
    if (on_stderr)
        weft_log_put(text, bytes);
    else if (serving)
        weft_spool_put(&stdout_spool, text, bytes);
    else if (fwrite(text, 1, bytes, stdout) == bytes)
        fflush(stdout);
}

void weft_output_object(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    weft_output_print("%s\n", text ? text : "null");
    free(text);
}

void weft_output_say(const char *format, ...)
{
    char text[WEFT_LOG_PRINTED];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    weft_log_print("%s", text);
}

static void end_serving(void)
{
    uint64_t lost = weft_spool_drain(&stdout_spool, weft_signals_stopping() ? STOPPED_MS : STILL_MS, SLOW_MS);
    if (lost)
        weft_output_say("weft: warn: %" PRIu64 " lines for standard output were lost", lost);
    free(line);
    line = NULL;
}

int weft_output_end(int code)
{
    if (serving) {
        end_serving();
    } else if ((fflush(stdout) || ferror(stdout)) && code == WEFT_EXIT_DONE) {
        weft_output_say("weft: standard output cannot be written");
        code = WEFT_EXIT_FAILED;
    }
    weft_log_drain();
    return code;
}

json_t *weft_json_hash(uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_string(text);
}

json_t *weft_json_count(uint64_t count)
{
    return json_integer((json_int_t)count);
}

json_t *weft_json_label(const weft_version *version)
{
    return version->run ? weft_json_count(version->number) : json_null();
}

json_t *weft_json_known(double value)
{
    return isfinite(value) && value > 0 ? json_real(value) : json_null();
}

json_t *weft_json_bits_per_change(uint64_t bytes, uint64_t changed)
{
    return changed ? json_real(8.0 * (double)bytes / (double)changed) : json_null();
}

static bool version_is_nothing(const weft_version *version)
{
    return version->run == 0 && version->number == 0 && version->root == 0;
}

json_t *weft_json_update(const weft_update_info *info)
{
    json_t *base = version_is_nothing(&info->base) ? json_null() : weft_json_count(info->base.number);
    return json_pack(
        "{s:o,s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:f,s:f}", "base", base, "target", weft_json_count(info->target.number),
        "digest", weft_json_hash(info->target.root), "level", info->level ? info->level : "full", "elements",
        weft_json_count(info->elements), "changed", weft_json_count(info->changed), "dense_bytes",
        weft_json_count(info->dense_bytes), "bytes", weft_json_count(info->bytes), "bits_per_change",
        weft_json_bits_per_change(info->bytes, info->changed), "diff_ms", info->diff_ms, "encode_ms", info->encode_ms);
}

static json_t *rails_json(const weft_peer_info *peer)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < peer->rail_count; i++) {
        const weft_rail_info *rail = &peer->rails[i];
        json_array_append_new(list, json_pack("{s:s,s:i,s:i,s:o,s:o,s:o,s:o}", "address", rail->address, "connections",
                                              (int)rail->connections, "up", (int)rail->up, "writes",
                                              weft_json_count(rail->writes), "bytes", weft_json_count(rail->bytes),
                                              "resent_bytes", weft_json_count(rail->resent_bytes), "failures",
                                              weft_json_count(rail->failures)));
    }
    return list;
}

json_t *weft_json_peer(const weft_peer_info *peer)
{
    bool nothing = version_is_nothing(&peer->held);
    json_t *object = json_pack(
        "{s:s,s:s,s:s?,s:s,s:o,s:o,s:o,s:o,s:s?}", "name", peer->name, "state", weft_peer_state_name(peer->state),
        "provider", peer->provider, "backend", peer->backend, "held", weft_json_label(&peer->held), "digest",
        nothing ? json_null() : weft_json_hash(peer->held.root), "lag", weft_json_count(peer->lag), "bucket_bytes",
        weft_json_count(peer->bucket_bytes), "level", peer->level);
    json_t *figures = json_pack(
        "{s:f,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s?,s:i,s:s?}", "lag_ms", peer->lag_ms, "rate_bytes_s",
        weft_json_known(peer->rate_bytes_s), "rtt_ms", weft_json_known(peer->rtt_ms), "bytes",
        weft_json_count(peer->bytes), "snapshot_bytes", weft_json_count(peer->snapshot_bytes), "update_bytes",
        weft_json_count(peer->update_bytes), "send_ms", weft_json_known(peer->send_ms), "apply_ms",
        weft_json_known(peer->apply_ms), "commit_ms", weft_json_known(peer->commit_ms), "apply_bytes_s",
        weft_json_known(peer->apply_bytes_s), "bucket_cost_ms", weft_json_known(peer->bucket_cost_ms), "bucket_bound",
        peer->bucket_bound, "streams", (int)peer->streams, "via", peer->via[0] ? peer->via : NULL);
    json_object_update(object, figures);
    json_decref(figures);
    json_object_set_new(object, "rails", rails_json(peer));
    return object;
}

weft_size_text weft_output_size(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    weft_size_text size;
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1024;
    snprintf(size.text, sizeof size.text, unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
    return size;
}

weft_plain_text weft_output_plain(const char *text)
{
    weft_plain_text plain;
    snprintf(plain.text, sizeof plain.text, "%s", text);
    weft_log_clean(plain.text);
    return plain;
}

void weft_output_update(const weft_update_info *info)
{
    double changed = info->elements ? 100.0 * (double)info->changed / (double)info->elements : 0;
    double less = info->bytes ? (double)info->dense_bytes / (double)info->bytes : 0;
    double bits = info->changed ? 8.0 * (double)info->bytes / (double)info->changed : 0;
    weft_output_print("version %" PRIu64
                      ": %.3f %% changed, %s as %s (%.1f x less than dense, %.2f bits a change), diff %.1f ms, "
                      "encode %.1f ms\n",
                      info->target.number, changed, weft_output_size((double)info->bytes).text,
                      info->level ? info->level : "full", less, bits, info->diff_ms, info->encode_ms);
}

weft_version_text weft_output_version(const weft_version *version)
{
    weft_version_text label = {"bits without a version yet"};
    if (version->run)
        snprintf(label.text, sizeof label.text, "version %" PRIu64, version->number);
    return label;
}

uint32_t weft_output_duration_ms(const char *text, uint32_t fallback)
{
    char *end = NULL;
    double value = strtod(text, &end);
    double factor = strcmp(end, "ms") == 0 ? 1 : strcmp(end, "s") == 0 ? 1e3 : strcmp(end, "min") == 0 ? 6e4 : 0;
    if (end == text || factor <= 0 || !(value >= 0) || value * factor > UINT32_MAX)
        return fallback;
    return (uint32_t)(value * factor);
}

double weft_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}
