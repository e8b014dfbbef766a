/* The two ends of a measurement find each other, and an end that never comes is reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/bench/fabric/meet.h"

typedef struct meeting {
    int listener, grave;
    char bound[64];
    pid_t other;
} meeting;

/* The other end: comes, and waits to be let go, or says `words` and ends. */
static int live(const meeting *m, bool comes, const char *words, int grave)
{
    int fd;
    char end;
    if (comes)
        return weft_bench_meet_dial(m->bound, &fd) != WEFT_OK || read(fd, &end, 1) != 0;
    return write(grave, words, strlen(words)) != (ssize_t)strlen(words);
}

static meeting begin(bool comes, const char *words)
{
    meeting m;
    int ends[2];
    assert_int_equal(weft_bench_meet_listen("127.0.0.1:0", &m.listener, m.bound), WEFT_OK);
    assert_int_equal(pipe(ends), 0);
    m.grave = ends[0];
    m.other = fork();
    assert_true(m.other >= 0);
    if (m.other == 0) {
        alarm(300);
        _exit(live(&m, comes, words, ends[1]));
    }
    close(ends[1]);
    return m;
}

static void finish(const meeting *m)
{
    int code;
    close(m->listener);
    close(m->grave);
    assert_int_equal(waitpid(m->other, &code, 0), m->other);
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 0);
}

static void one_that_comes_is_met(void **state)
{
    (void)state;
    char local[64];
    int fd = -1;
    meeting m = begin(true, "");
    assert_int_equal(weft_bench_meet_accept(m.listener, m.grave, &fd), WEFT_OK);
    assert_int_equal(weft_bench_meet_local(fd, local, sizeof local), WEFT_OK);
    assert_string_equal(local, "127.0.0.1");
    close(fd);
    finish(&m);
}

static void one_that_ends_first_is_told_with_its_last_words(void **state)
{
    (void)state;
    int fd = -1;
    meeting m = begin(false, "no sockets are left");
    assert_int_equal(weft_bench_meet_accept(m.listener, m.grave, &fd), WEFT_E_UNREACHABLE);
    assert_string_equal(weft_last_error(), "the other end ended before it came: no sockets are left");
    assert_int_equal(fd, -1);
    finish(&m);
}

static void one_that_is_silent_is_told_too(void **state)
{
    (void)state;
    int fd = -1;
    meeting m = begin(false, "");
    assert_int_equal(weft_bench_meet_accept(m.listener, m.grave, &fd), WEFT_E_UNREACHABLE);
    assert_string_equal(weft_last_error(), "the other end ended before it came");
    finish(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_comes_is_met),
        cmocka_unit_test(one_that_ends_first_is_told_with_its_last_words),
        cmocka_unit_test(one_that_is_silent_is_told_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
