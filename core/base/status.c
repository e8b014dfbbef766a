/* status.c - one table of statuses, and the calling thread's last error. */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

typedef struct status_row {
    weft_status status;
    const char *name;
} status_row;

static const status_row rows[] = {
    {WEFT_OK, "ok"},
    {WEFT_AGAIN, "again"},
    {WEFT_E_ARGUMENT, "argument"},
    {WEFT_E_CONFIG, "config"},
    {WEFT_E_LAYOUT, "layout"},
    {WEFT_E_STATE, "state"},
    {WEFT_E_FILE, "file"},
    {WEFT_E_TIMEOUT, "timeout"},
    {WEFT_E_MISSING, "missing"},
    {WEFT_E_PEER_LOST, "peer_lost"},
    {WEFT_E_REFUSED, "refused"},
    {WEFT_E_PROTOCOL, "protocol"},
    {WEFT_E_UNREACHABLE, "unreachable"},
    {WEFT_E_CORRUPT, "corrupt"},
    {WEFT_E_CHECK, "check"},
    {WEFT_E_BASE, "base"},
    {WEFT_E_TARGET, "target"},
    {WEFT_E_BUDGET, "budget"},
    {WEFT_E_PASSED, "passed"},
    {WEFT_E_MEMORY, "memory"},
    {WEFT_E_SYSTEM, "system"},
    {WEFT_E_PROVIDER, "provider"},
    {WEFT_E_DEVICE, "device"},
};

static _Thread_local char last_error[WEFT_LOG_LINE];
static _Thread_local char outside[256]; /* empty: none */
static _Thread_local bool last_error_logged;
static _Thread_local uint64_t last_error_count;
static _Thread_local bool holds;
static _Thread_local weft_status held; /* of the last error, whose line is held back; WEFT_OK: none */

const char *weft_status_name(weft_status status)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status == status)
            return rows[i].name;
    return "unknown";
}

/* A status of no known group hurts the session: the widest scope is the safe one. */
weft_scope weft_status_scope(weft_status status)
{
    if (status == WEFT_OK || status == WEFT_AGAIN)
        return WEFT_SCOPE_NONE;
    int group = -((int)status / 10); /* in this order: there is no -INT_MIN */
    return group >= WEFT_SCOPE_CALL && group <= WEFT_SCOPE_SESSION ? (weft_scope)group : WEFT_SCOPE_SESSION;
}

const char *weft_last_error(void)
{
    return last_error;
}

uint64_t weft_fail_count(void)
{
    return last_error_count;
}

bool weft_fail_was_logged(void)
{
    return last_error_logged;
}

/* An error outside a session is not logged, because its caller has the text. */
static void last_error_log(weft_status status)
{
    weft_scope scope = weft_status_scope(status);
    weft_log_level level = scope == WEFT_SCOPE_SESSION ? WEFT_LOG_ERROR : WEFT_LOG_WARN;
    held = holds ? status : WEFT_OK;
    last_error_logged = !holds && scope >= WEFT_SCOPE_PEER && weft_log_entered() && weft_log_wants(level);
    if (last_error_logged)
        weft_log(level, "%s", last_error);
}

static void log_held(void)
{
    const bool before = holds;
    holds = false;
    if (held != WEFT_OK)
        last_error_log(held);
    holds = before;
}

void weft_fail_hold(void)
{
    holds = true;
    held = WEFT_OK;
}

void weft_fail_release(bool said)
{
    if (!said)
        log_held();
    holds = false;
    held = WEFT_OK;
}

/* The arguments may point into the last error itself, so the new text is made aside. */
static void last_error_set(const char *format, va_list arguments)
{
    char text[WEFT_LOG_LINE];
    weft_log_compose(text, sizeof text, format, arguments);
    log_held();
    memcpy(last_error, text, strlen(text) + 1);
    outside[0] = 0;
    last_error_count++;
}

/* In parentheses: the analyzer has a macro of this name (status.h). */
weft_status(weft_fail)(weft_status status, const char *format, ...)
{
    int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    last_error_set(format, arguments);
    va_end(arguments);
    last_error_log(status);
    errno = saved;
    return status;
}

weft_status(weft_fail_quiet)(weft_status status, const char *format, ...)
{
    int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    last_error_set(format, arguments);
    last_error_logged = false;
    va_end(arguments);
    errno = saved;
    return status;
}

void weft_fail_about(const char *format, ...)
{
    char prefix[WEFT_LOG_LINE / 2];
    char text[WEFT_LOG_LINE];
    va_list arguments;
    va_start(arguments, format);
    weft_log_compose(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    const size_t known = strlen(prefix);
    if (strncmp(last_error, prefix, known) == 0 && last_error[known] == ':')
        return;
    int length = snprintf(text, sizeof text, "%s: %s", prefix, last_error);
    if (length >= (int)sizeof text)
        weft_log_cut(text, sizeof text);
    memcpy(last_error, text, sizeof text);
}

void weft_fail_outside(const char *format, ...)
{
    char text[sizeof outside]; /* the arguments may point into the last one */
    va_list arguments;
    va_start(arguments, format);
    weft_log_compose(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(outside, text, sizeof outside);
}

const char *weft_last_error_outside(void)
{
    return outside[0] ? outside : NULL;
}

weft_status weft_size_check(const void *given, const char *type)
{
    size_t size = 1;
    if (given)
        memcpy(&size, given, sizeof size);
    return size ? WEFT_OK : weft_fail(WEFT_E_ARGUMENT, "%s has size 0: set it to sizeof(%s)", type, type);
}
