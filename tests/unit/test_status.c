/* Statuses have names and scopes; the last error belongs to its thread. */
#include <errno.h>
#include <limits.h>
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
#include "base/status.h"

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
}

static void every_status_has_a_name_of_its_own(void **state)
{
    (void)state;
    const char *seen[64] = {0};
    size_t count = 0;
    for (int status = -43; status <= 1; status++) {
        const char *name = weft_status_name((weft_status)status);
        if (strcmp(name, "unknown") == 0)
            continue;
        for (size_t i = 0; i < count; i++)
            assert_string_not_equal(seen[i], name);
        seen[count++] = name;
    }
    assert_int_equal(count, 23); /* the enumerators of weft.h */
    assert_string_equal(weft_status_name(WEFT_E_PEER_LOST), "peer_lost");
    assert_string_equal(weft_status_name((weft_status)-999), "unknown");
}

static void a_scope_follows_from_the_group(void **state)
{
    (void)state;
    assert_int_equal(weft_status_scope(WEFT_OK), WEFT_SCOPE_NONE);
    assert_int_equal(weft_status_scope(WEFT_AGAIN), WEFT_SCOPE_NONE);
    assert_int_equal(weft_status_scope(WEFT_E_ARGUMENT), WEFT_SCOPE_CALL);
    assert_int_equal(weft_status_scope(WEFT_E_MISSING), WEFT_SCOPE_CALL);
    assert_int_equal(weft_status_scope(WEFT_E_PEER_LOST), WEFT_SCOPE_PEER);
    assert_int_equal(weft_status_scope(WEFT_E_BUDGET), WEFT_SCOPE_VERSION);
    assert_int_equal(weft_status_scope(WEFT_E_DEVICE), WEFT_SCOPE_SESSION);
    assert_int_equal(weft_status_scope((weft_status)-5), WEFT_SCOPE_SESSION);
    assert_int_equal(weft_status_scope((weft_status)-999), WEFT_SCOPE_SESSION);
    assert_int_equal(weft_status_scope((weft_status)INT_MIN), WEFT_SCOPE_SESSION);
    assert_int_equal(weft_status_scope((weft_status)INT_MAX), WEFT_SCOPE_SESSION);
    assert_int_equal(weft_status_scope((weft_status)2), WEFT_SCOPE_SESSION);
}

static void a_failure_keeps_its_text_and_errno(void **state)
{
    (void)state;
    errno = ENOSPC;
    assert_int_equal(weft_fail_quiet(WEFT_E_FILE, "cannot write %s: %d bytes", "x", 7), WEFT_E_FILE);
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(weft_last_error(), "cannot write x: 7 bytes");
    weft_fail_about("peer %c", 'a');
    weft_fail_about("peer %c", 'a'); /* the prefix comes once */
    assert_string_equal(weft_last_error(), "peer a: cannot write x: 7 bytes");
    assert_int_equal(weft_fail(WEFT_E_FILE, "loud"), WEFT_E_FILE);
    assert_int_equal(errno, ENOSPC);
}

/* The line of an error is held back for a caller that says the error itself; of errors before it there are lines. */
static void lines_are_held_back(void **state)
{
    static const struct {
        unsigned errors;
        bool said;
        unsigned lines;
    } rows[] = {{0, true, 0}, {0, false, 0}, {1, true, 0}, {1, false, 1}, {3, true, 2}, {3, false, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        probe log = {.sink = {WEFT_LOG_DEBUG, probe_write}};
        weft_log_sink *before = weft_log_enter(&log.sink);
        weft_fail_hold();
        for (unsigned n = 0; n < rows[i].errors; n++)
            weft_fail(WEFT_E_CHECK, "number %u", n);
        weft_fail_release(rows[i].said);
        assert_int_equal(log.lines, rows[i].lines);
        weft_fail(WEFT_E_CHECK, "afterwards");
        assert_int_equal(log.lines, rows[i].lines + 1);
        weft_log_enter(before);
    }
}

static void a_text_may_quote_the_last_error(void **state)
{
    (void)state;
    weft_fail_quiet(WEFT_E_FILE, "inner");
    weft_fail_quiet(WEFT_E_FILE, "outer (%s) end", weft_last_error());
    assert_string_equal(weft_last_error(), "outer (inner) end");
}

static void long_and_dirty_texts_are_cut_and_cleaned(void **state)
{
    (void)state;
    char big[3 * WEFT_LOG_LINE];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    weft_fail_quiet(WEFT_E_FILE, "%s", big);
    size_t length = strlen(weft_last_error());
    assert_int_equal(length, WEFT_LOG_LINE - 1);
    assert_string_equal(weft_last_error() + length - 3, "...");
    weft_fail_about("%s", big);
    length = strlen(weft_last_error());
    assert_int_equal(length, WEFT_LOG_LINE - 1);
    assert_string_equal(weft_last_error() + length - 3, "...");
    weft_fail_quiet(WEFT_E_REFUSED, "one\ntwo\x1b[2J\x7f\xc3\xa9");
    assert_string_equal(weft_last_error(), "one two [2J \xc3\xa9");
}

static void what_is_put_before_a_text_cuts_it_between_characters(void **state)
{
    (void)state;
    for (int before = 1; before <= 2; before++) {
        char text[WEFT_LOG_LINE] = {0};
        for (size_t at = 0; at + 3 < sizeof text; at += 2)
            memcpy(text + at, "\xc3\xa9", 2);
        weft_fail_quiet(WEFT_E_FILE, "%s", text);
        weft_fail_about("%.*s", before, "ab");
        size_t length = strlen(weft_last_error());
        assert_int_equal((length - strlen("...") - strlen(": ") - (size_t)before) % 2, 0);
        assert_string_equal(weft_last_error() + length - 3, "...");
    }
}

static void the_log_level_follows_the_scope(void **state)
{
    (void)state;
    probe log = {.sink = {WEFT_LOG_DEBUG, probe_write}};
    weft_log_sink *before = weft_log_enter(&log.sink);
    weft_fail(WEFT_E_ARGUMENT, "the caller sees it");
    assert_int_equal(log.lines, 0);
    weft_fail(WEFT_AGAIN, "nothing is wrong");
    assert_int_equal(log.lines, 0);
    weft_fail(WEFT_E_PEER_LOST, "peer %s", "b");
    assert_int_equal(log.lines, 1);
    assert_int_equal(log.level, WEFT_LOG_WARN);
    assert_string_equal(log.line, "peer b");
    weft_fail(WEFT_E_CHECK, "version");
    assert_int_equal(log.level, WEFT_LOG_WARN);
    weft_fail(WEFT_E_MEMORY, "100%% gone");
    assert_int_equal(log.level, WEFT_LOG_ERROR);
    assert_string_equal(log.line, "100% gone");
    weft_fail_quiet(WEFT_E_MEMORY, "quiet");
    assert_int_equal(log.lines, 3);
    weft_log_enter(before);
}

static void an_error_without_a_session_is_the_callers_alone(void **state)
{
    (void)state;
    int ends[2], saved = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    weft_fail(WEFT_E_CHECK, "an update");
    weft_fail(WEFT_E_MEMORY, "no memory");
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);
    char written;
    assert_int_equal(read(ends[0], &written, 1), 0);
    close(ends[0]);
    assert_false(weft_fail_was_logged());
    assert_string_equal(weft_last_error(), "no memory");
}

static void *other_thread(void *nothing)
{
    (void)nothing;
    int was_empty = weft_last_error()[0] == '\0';
    weft_fail_quiet(WEFT_E_FILE, "theirs");
    return (void *)(intptr_t)was_empty;
}

static void the_last_error_is_the_threads_own(void **state)
{
    (void)state;
    weft_fail_quiet(WEFT_E_FILE, "mine");
    pthread_t thread;
    void *was_empty = NULL;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &was_empty), 0);
    assert_non_null(was_empty);
    assert_string_equal(weft_last_error(), "mine");
}

static void the_version_string_is_the_headers(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
    assert_string_equal(weft_version_string(), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_of_its_own),
        cmocka_unit_test(a_scope_follows_from_the_group),
        cmocka_unit_test(a_failure_keeps_its_text_and_errno),
        cmocka_unit_test(lines_are_held_back),
        cmocka_unit_test(a_text_may_quote_the_last_error),
        cmocka_unit_test(long_and_dirty_texts_are_cut_and_cleaned),
        cmocka_unit_test(what_is_put_before_a_text_cuts_it_between_characters),
        cmocka_unit_test(the_log_level_follows_the_scope),
        cmocka_unit_test(an_error_without_a_session_is_the_callers_alone),
        cmocka_unit_test(the_last_error_is_the_threads_own),
        cmocka_unit_test(the_version_string_is_the_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
