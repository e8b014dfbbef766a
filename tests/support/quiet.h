/* quiet.h - a thread whose lines nobody hears, for tests of what is refused. */
#ifndef WEFT_TESTS_QUIET_H
#define WEFT_TESTS_QUIET_H

#include <stddef.h>

#include "base/log.h"

static inline void drop_line(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)level;
    (void)line;
}

static weft_log_sink quiet = {WEFT_LOG_ERROR, drop_line};

static inline int be_quiet(void **state)
{
    (void)state;
    weft_log_enter(&quiet);
    return 0;
}

static inline int be_heard(void **state)
{
    (void)state;
    weft_log_enter(NULL);
    return 0;
}

#endif
