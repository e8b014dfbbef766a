/* The limit on descriptors is raised to the hard limit. The reserve serves when none is left, and is taken again. When
 * most are open, one line says so. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "tests/support/fabric_play.h"

#define LIMIT 200u

static int held[LIMIT];
static unsigned held_count, warnings;
static uint64_t time_ns = 1;

static uint64_t now_ns(void *user)
{
    (void)user;
    return time_ns;
}

static void count_warning(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    warnings += level == WEFT_LOG_WARN && strstr(line, "200") != NULL;
}

/* Opens at most so many; the number opened. */
static unsigned take(unsigned most)
{
    unsigned count = 0;
    for (int fd; count < most && held_count < LIMIT && (fd = eventfd(0, 0)) >= 0; count++)
        held[held_count++] = fd;
    return count;
}

static void give(unsigned count)
{
    for (; count > 0 && held_count > 0; count--)
        close(held[--held_count]);
}

/* The highest ones, so that no number below is free. */
static void give_highest(unsigned count)
{
    for (; count > 0; count--) {
        unsigned at = 0;
        for (unsigned i = 1; i < held_count; i++)
            at = held[i] > held[at] ? i : at;
        close(held[at]);
        held[at] = held[--held_count];
    }
}

static void look(void)
{
    time_ns += 2000 * WEFT_NS_PER_MS;
    weft_descriptors_watch();
}

static void raises(void)
{
    struct rlimit limit = {100, LIMIT};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    weft_descriptors_open();
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == LIMIT, "not raised");
    weft_descriptors_use use = weft_descriptors_now();
    CHECK(use.limit == LIMIT && use.kept == WEFT_DESCRIPTORS_KEPT && use.open >= use.kept, "use");
    weft_descriptors_open();
    weft_descriptors_close();
    CHECK(weft_descriptors_now().kept == WEFT_DESCRIPTORS_KEPT, "given back while a session is open");
    weft_descriptors_close();
    CHECK(weft_descriptors_now().kept == 0, "kept by nobody");
}

static void keeps(void)
{
    weft_descriptors_open();
    CHECK(!weft_descriptors_short(EMFILE + 1000) && !weft_descriptors_short(EAGAIN), "another error");
    take(LIMIT);
    CHECK(weft_descriptors_short(EMFILE), "nothing was kept");
    CHECK(!weft_descriptors_short(EMFILE), "given up twice");
    CHECK(take(LIMIT) == WEFT_DESCRIPTORS_KEPT, "not as many as were kept");
    look();
    CHECK(weft_descriptors_now().kept == 0, "taken back where there are none");
    give(3);
    look();
    CHECK(weft_descriptors_now().kept == 0 && take(3) == 3, "some of the last that are free are taken back");
    give_highest(WEFT_DESCRIPTORS_KEPT + 3);
    look();
    CHECK(weft_descriptors_now().kept == 0, "the last that are free are taken back");
    take(WEFT_DESCRIPTORS_KEPT + 3);
    give(100);
    look();
    CHECK(weft_descriptors_now().kept == WEFT_DESCRIPTORS_KEPT, "not taken back");
    const uint64_t open = weft_descriptors_now().open;
    weft_descriptors_need(10);
    CHECK(weft_descriptors_now().kept == WEFT_DESCRIPTORS_KEPT, "given up without need");
    CHECK(weft_descriptors_now().open == open, "not given back");
    take(LIMIT);
    give(5);
    weft_descriptors_need(10);
    CHECK(take(10) == 10, "no room was made");
    weft_descriptors_close();
}

static void warns(void)
{
    weft_log_sink sink = {WEFT_LOG_WARN, count_warning};
    weft_log_enter(&sink);
    weft_descriptors_open();
    look();
    take(LIMIT * 3 / 4 - (unsigned)weft_descriptors_now().open);
    look();
    CHECK(warnings == 0, "warned without reason");
    take(1);
    weft_descriptors_watch();
    CHECK(warnings == 0, "counted twice in a second");
    look();
    look();
    CHECK(warnings == 1, "%u warnings", warnings);
    give(20);
    look();
    take(20);
    look();
    CHECK(warnings == 1, "%u warnings, of a count that moves about its bound", warnings);
    give(LIMIT);
    look();
    take(LIMIT * 3 / 4);
    look();
    CHECK(warnings == 2, "%u warnings", warnings);
    weft_descriptors_close();
}

static void in_child(void (*part)(void))
{
    static const weft_clock own = {.now_ns = now_ns};
    int status = 0;
    fflush(NULL); /* else the child says it again */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {LIMIT, LIMIT};
        weft_clock_own = &own;
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
        part();
        give(LIMIT);
        exit(0); /* and not at once, because the lines that ran are noted at the end */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void the_limit_is_raised(void **state)
{
    (void)state;
    in_child(raises);
}

static void some_are_kept_for_need(void **state)
{
    (void)state;
    in_child(keeps);
}

static void most_of_them_open_is_said_once(void **state)
{
    (void)state;
    in_child(warns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_is_raised),
        cmocka_unit_test(some_are_kept_for_need),
        cmocka_unit_test(most_of_them_open_is_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
