/* Lines that other hosts cause: a burst at once, then one a second with a count of the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log_limit.h"

static uint64_t time_ns = WEFT_NS_PER_MS;

static uint64_t test_now(void *user)
{
    (void)user;
    return time_ns;
}

static const weft_clock test_clock = {.now_ns = test_now};

typedef struct probe {
    weft_log_sink sink;
    unsigned lines;
    char line[WEFT_LOG_LINE];
} probe;

static void probe_write(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)level;
    probe *self = (probe *)sink;
    self->lines++;
    snprintf(self->line, sizeof self->line, "%s", line);
}

static probe heard;
static weft_log_limit limit;

static int setup(void **state)
{
    (void)state;
    weft_clock_own = &test_clock;
    heard = (probe){.sink = {WEFT_LOG_DEBUG, probe_write}};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    weft_log_enter(NULL);
    weft_clock_own = NULL;
    return 0;
}

static void begin(uint32_t burst)
{
    weft_log_limit_open(&limit, &heard.sink, burst);
    weft_log_enter(&limit.sink);
}

static void one_a_second_with_a_count(void **state)
{
    (void)state;
    begin(1);
    for (int i = 0; i < 42; i++)
        weft_log(WEFT_LOG_WARN, "stranger %d", i);
    assert_int_equal(heard.lines, 1);
    assert_string_equal(heard.line, "stranger 0");
    weft_log_limit_tell(&limit);
    assert_int_equal(heard.lines, 1);
    time_ns += 1000 * WEFT_NS_PER_MS;
    weft_log(WEFT_LOG_WARN, "stranger 42");
    assert_string_equal(heard.line, "stranger 42 (and 41 more like it in 1.0 s)");
    weft_log(WEFT_LOG_ERROR, "stranger 43");
    assert_int_equal(heard.lines, 2);
    time_ns += 1500 * WEFT_NS_PER_MS;
    weft_log_limit_tell(&limit);
    assert_int_equal(heard.lines, 3);
    assert_string_equal(heard.line, "1 more line like the last of this kind in 1.5 s");
    weft_log_limit_tell(&limit);
    assert_int_equal(heard.lines, 3);
    weft_log(WEFT_LOG_WARN, "stranger 44");
    weft_log_limit_end(&limit);
    assert_string_equal(heard.line, "1 more line like the last of this kind in 0.0 s");
    time_ns += 10000 * WEFT_NS_PER_MS;
    weft_log(WEFT_LOG_WARN, "stranger 45");
    assert_string_equal(heard.line, "stranger 45");
}

static void a_burst_comes_back_by_the_second(void **state)
{
    (void)state;
    begin(3);
    for (int i = 0; i < 5; i++)
        weft_log(WEFT_LOG_INFO, "peer %d", i);
    assert_int_equal(heard.lines, 3);
    time_ns += 2900 * WEFT_NS_PER_MS;
    for (int i = 0; i < 5; i++)
        weft_log(WEFT_LOG_INFO, "peer %d", i);
    assert_int_equal(heard.lines, 5);
    time_ns += 100 * WEFT_NS_PER_MS; /* the rest of the second was kept */
    weft_log(WEFT_LOG_INFO, "peer again");
    assert_int_equal(heard.lines, 6);
    assert_non_null(strstr(heard.line, "peer again (and 3 more like it"));
    time_ns += 100000 * WEFT_NS_PER_MS;
    for (int i = 0; i < 5; i++)
        weft_log(WEFT_LOG_INFO, "peer %d", i);
    assert_int_equal(heard.lines, 9);
}

static void debug_passes(void **state)
{
    (void)state;
    begin(1);
    for (int i = 0; i < 10; i++)
        weft_log(WEFT_LOG_DEBUG, "held");
    assert_int_equal(heard.lines, 10);
    weft_log(WEFT_LOG_WARN, "first");
    assert_string_equal(heard.line, "first");
    weft_log(WEFT_LOG_DEBUG, "passes still");
    assert_string_equal(heard.line, "passes still");
}

/* The count has its place in a line as long as any. */
static void a_long_line_gives_way_to_the_count(void **state)
{
    (void)state;
    char text[WEFT_LOG_LINE];
    begin(1);
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    weft_log(WEFT_LOG_WARN, "%s", text);
    assert_string_equal(heard.line, text);
    weft_log(WEFT_LOG_WARN, "%s", text);
    time_ns += 1000 * WEFT_NS_PER_MS;
    weft_log(WEFT_LOG_WARN, "%s", text);
    assert_int_equal(heard.lines, 2);
    assert_string_equal(strstr(heard.line, "..."), "... (and 1 more like it in 1.0 s)");
    assert_int_equal(strlen(heard.line), WEFT_LOG_LINE - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_a_second_with_a_count, setup, teardown),
        cmocka_unit_test_setup_teardown(a_burst_comes_back_by_the_second, setup, teardown),
        cmocka_unit_test_setup_teardown(debug_passes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_line_gives_way_to_the_count, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
