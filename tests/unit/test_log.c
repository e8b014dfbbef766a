/* A line goes to its thread's sink, if the sink wants its level. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

typedef struct probe {
    weft_log_sink sink;
    unsigned lines;
    weft_log_level level;
    char line[WEFT_LOG_LINE];
} probe;

static void probe_write(weft_log_sink *sink, weft_log_level level, const char *line)
{
    probe *self = (probe *)sink;
    self->lines++;
    self->level = level;
    strcpy(self->line, line);
    errno = EBADF;
}

static void lines_above_the_threshold_are_dropped(void **state)
{
    (void)state;
    probe log = {.sink = {WEFT_LOG_WARN, probe_write}};
    weft_log_enter(&log.sink);
    assert_true(weft_log_wants(WEFT_LOG_ERROR));
    assert_true(weft_log_wants(WEFT_LOG_WARN));
    assert_false(weft_log_wants(WEFT_LOG_INFO));
    weft_log(WEFT_LOG_INFO, "dropped");
    assert_int_equal(log.lines, 0);
    errno = ENOENT;
    weft_log(WEFT_LOG_WARN, "kept %d", 3);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(log.lines, 1);
    assert_int_equal(log.level, WEFT_LOG_WARN);
    assert_string_equal(log.line, "kept 3");
    weft_log_enter(NULL);
}

/* A control character becomes a space for each byte. Other characters stay whole, at the end of the text too. */
static void control_characters_are_spaces(void **state)
{
    (void)state;
    probe log = {.sink = {WEFT_LOG_WARN, probe_write}};
    weft_log_enter(&log.sink);
    weft_log(WEFT_LOG_WARN, "%s",
             "a\x1b[2J\x7f \xc2\x9b"
             "2J\xc2\x80\xc2\xa0\xc3\x9b\n\xc2");
    assert_string_equal(log.line, "a [2J    2J  \xc2\xa0\xc3\x9b \xc2");
    weft_log_enter(NULL);
}

static void entering_returns_the_sink_before(void **state)
{
    (void)state;
    probe outer = {.sink = {WEFT_LOG_DEBUG, probe_write}};
    probe inner = {.sink = {WEFT_LOG_DEBUG, probe_write}};
    assert_null(weft_log_enter(&outer.sink));
    assert_ptr_equal(weft_log_enter(&inner.sink), &outer.sink);
    weft_log(WEFT_LOG_DEBUG, "in");
    assert_ptr_equal(weft_log_enter(&outer.sink), &inner.sink);
    weft_log(WEFT_LOG_DEBUG, "out");
    assert_string_equal(inner.line, "in");
    assert_string_equal(outer.line, "out");
    weft_log_enter(NULL);
}

static void *other_thread(void *nothing)
{
    (void)nothing;
    return weft_log_enter(NULL);
}

static void a_sink_belongs_to_one_thread(void **state)
{
    (void)state;
    probe log = {.sink = {WEFT_LOG_DEBUG, probe_write}};
    weft_log_enter(&log.sink);
    pthread_t thread;
    void *theirs = &log;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &theirs), 0);
    assert_null(theirs);
    weft_log_enter(NULL);
}

/* Three of the four places where a line of this capacity may be cut lie within a character. */
static void a_line_too_long_is_cut_between_characters(void **state)
{
    (void)state;
    probe log = {.sink = {WEFT_LOG_WARN, probe_write}};
    char text[WEFT_LOG_LINE + 8];
    weft_log_enter(&log.sink);
    for (size_t before = 0; before < 4; before++) {
        memset(text, 'a', before);
        for (size_t at = before; at + 4 < sizeof text; at += 4)
            memcpy(text + at, "\xf0\x9f\xa7\xb6", 5);
        weft_log(WEFT_LOG_WARN, "%s", text);
        size_t length = strlen(log.line);
        assert_true(length < WEFT_LOG_LINE && length + 4 >= WEFT_LOG_LINE);
        assert_int_equal((length - 3 - before) % 4, 0);
        assert_memory_equal(log.line, text, length - 3);
        assert_string_equal(log.line + length - 3, "...");
    }
    weft_log_enter(NULL);
}

static void without_a_sink_lines_go_to_standard_error_at_info(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    weft_log(WEFT_LOG_DEBUG, "dropped");
    weft_log(WEFT_LOG_INFO, "shown");
    weft_log_drain();
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);
    char text[128] = {0};
    ssize_t length = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    assert_true(length > 0);
    assert_string_equal(text, "weft: info: shown\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_above_the_threshold_are_dropped),
        cmocka_unit_test(control_characters_are_spaces),
        cmocka_unit_test(entering_returns_the_sink_before),
        cmocka_unit_test(a_sink_belongs_to_one_thread),
        cmocka_unit_test(a_line_too_long_is_cut_between_characters),
        cmocka_unit_test(without_a_sink_lines_go_to_standard_error_at_info),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
