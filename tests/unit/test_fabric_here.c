/* The tests of providers are passed over only where there is nothing to test: a probe that breaks, or one that misses
 * what must be there, fails them. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/fabric_ends.h"

static int end_of(int code, int by_signal)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (by_signal)
            kill(getpid(), by_signal);
        _exit(code);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void a_probe_that_breaks_is_a_failure(void **state)
{
    (void)state;
    static const char *const providers[] = {"tcp", "shm", "efa", "played-rxm"};
    for (size_t i = 0; i < sizeof providers / sizeof *providers; i++) {
        assert_int_equal(fabric_judge(providers[i], end_of(0, 0)), FABRIC_HERE);
        assert_int_equal(fabric_judge(providers[i], end_of(1, 0)), FABRIC_BROKEN);
        assert_int_equal(fabric_judge(providers[i], end_of(0, SIGKILL)), FABRIC_BROKEN);
    }
}

static void only_what_may_be_absent_is_passed_over(void **state)
{
    (void)state;
    const fabric_presence sure = fabric_is_sure("tcp") ? FABRIC_BROKEN : FABRIC_ABSENT;
    assert_int_equal(fabric_judge("shm", end_of(2, 0)), FABRIC_ABSENT);
    assert_int_equal(fabric_judge("tcp-rxm", end_of(2, 0)), FABRIC_ABSENT);
    assert_int_equal(fabric_judge("tcp", end_of(2, 0)), sure);
    assert_int_equal(fabric_judge("efa", end_of(2, 0)), sure);
    assert_int_equal(fabric_judge("played-rxm", end_of(2, 0)), sure);
}

/* A libfabric that is kept from its tcp provider. */
static void a_build_with_libfabric_has_tcp(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        setenv("FI_PROVIDER", "nothing", 1);
        _exit(fabric_is_here("tcp") ? 3 : 4);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), fabric_is_sure("tcp") ? 1 : 4);
}

static void nothing_run_is_skipped(void **state)
{
    (void)state;
    assert_int_equal(fabric_result(0), 77);
    assert_int_equal(fabric_result(2), 2);
    if (!fabric_is_sure("tcp"))
        return;
    assert_true(fabric_begins("tcp"));
    assert_int_equal(fabric_result(0), 0);
}

static void hear(int number)
{
    (void)number;
}

/* How many handlers are lost where libfabric is opened, for a library that it brings along may take them. */
static int handlers_lost(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGBUS, SIGILL};
    size_t count;
    int lost = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], hear);
    if (weft_providers(NULL, 0, &count, NULL) != WEFT_OK)
        return -1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        lost += signal(numbers[i], SIG_DFL) != hear;
    return lost;
}

/* In a child, where nobody has opened it yet. */
static void handlers_outlive_the_opening_of_libfabric(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(handlers_lost());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handlers_outlive_the_opening_of_libfabric),
        cmocka_unit_test(a_probe_that_breaks_is_a_failure),
        cmocka_unit_test(only_what_may_be_absent_is_passed_over),
        cmocka_unit_test(a_build_with_libfabric_has_tcp),
        cmocka_unit_test(nothing_run_is_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
