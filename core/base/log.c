/* log.c - lines go to the calling thread's sink, or to standard error. */
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log_spool.h"

/* Lines of standard error that may wait for who reads it: hundreds. */
#define ERROR_BYTES (64u << 10)
/* A reader of it that takes nothing for so long is not waited for at an end, nor one that is slow for longer. */
#define STILL_MS 500u
#define MOST_MS  2000u

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static char error_memory[ERROR_BYTES];
static weft_spool error_spool = WEFT_SPOOL(STDERR_FILENO, error_memory, ERROR_BYTES, NULL);

void weft_log_start(void)
{
    weft_spool_start(&error_spool);
}

void weft_log_drain(void)
{
    weft_spool_drain(&error_spool, STILL_MS, MOST_MS);
}

void weft_log_put(const char *text, size_t bytes)
{
    weft_spool_put(&error_spool, text, bytes);
}

void weft_log_print(const char *format, ...)
{
    char text[WEFT_LOG_PRINTED];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text - 1, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length >= sizeof text - 1)
        weft_log_cut(text, sizeof text - 1);
    size_t end = strlen(text);
    text[end] = '\n';
    weft_log_put(text, end + 1);
}

void weft_log_print_level(weft_log_level level, const char *line)
{
    weft_log_print("weft %s: %s", level_names[level], line);
}

static void log_to_standard_error(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    weft_log_print("weft: %s: %s", level_names[level], line);
}

static weft_log_sink standard_error = {WEFT_LOG_INFO, log_to_standard_error};
static _Thread_local weft_log_sink *current; /* NULL: standard_error */

weft_log_sink *weft_log_enter(weft_log_sink *sink)
{
    weft_log_sink *before = current;
    current = sink;
    return before;
}

static void write_nothing(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)level;
    (void)line;
}

weft_log_sink *weft_log_quiet(void)
{
    static weft_log_sink quiet = {WEFT_LOG_ERROR, write_nothing};
    return weft_log_enter(&quiet);
}

static weft_log_sink *log_sink(void)
{
    return current ? current : &standard_error;
}

bool weft_log_entered(void)
{
    return current != NULL;
}

bool weft_log_wants(weft_log_level level)
{
    return level <= log_sink()->level && level <= WEFT_LOG_DEBUG;
}

void weft_log_cut(char *line, size_t capacity)
{
    size_t end = capacity - 4;
    for (int i = 0; i < 3 && end > 0 && ((unsigned char)line[end] & 0xc0) == 0x80; i++)
        end--;
    memcpy(line + end, "...", 4);
}

void weft_log_clean(char *line)
{
    for (char *end = line + strlen(line); line < end; line++)
        for (uint32_t bytes = weft_bytes_control(line, (uint64_t)(end - line)); bytes > 0; bytes--)
            line[bytes - 1] = ' ';
}

void weft_log_compose(char *line, size_t capacity, const char *format, va_list arguments)
{
    int length = vsnprintf(line, capacity, format, arguments);
    if (length < 0)
        line[0] = '\0';
    else if ((size_t)length >= capacity)
        weft_log_cut(line, capacity);
    weft_log_clean(line);
}

void weft_log(weft_log_level level, const char *format, ...)
{
    if (!weft_log_wants(level))
        return;
    int saved = errno;
    char line[WEFT_LOG_LINE];
    va_list arguments;
    va_start(arguments, format);
    weft_log_compose(line, sizeof line, format, arguments);
    va_end(arguments);
    weft_log_sink *sink = log_sink();
    sink->write(sink, level, line);
    errno = saved;
}
