/* log.c - lines go to the calling thread's sink, or to standard error. */
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bytes.h"

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static void log_to_standard_error(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    fprintf(stderr, "weft: %s: %s\n", level_names[level], line);
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
