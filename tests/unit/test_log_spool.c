/* Lines leave by a thread, so no caller waits for a reader. Dropped lines are counted in their place. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/log_spool.h"

#include "tests/support/full_pipe.h"

#define LINES      10000
#define STILL_MS   300   /* a pipe into which nothing came for so long is read empty */
#define PATIENT_MS 60000 /* what should come at once, on a busy machine */

static full_pipe outlet;

static int open_full(void **state)
{
    (void)state;
    full_pipe_open(&outlet, true);
    return 0;
}

static int open_empty(void **state)
{
    (void)state;
    full_pipe_open(&outlet, false);
    return 0;
}

static int close_outlet(void **state)
{
    (void)state;
    weft_log_drain(); /* the thread writes to the pipe no more */
    full_pipe_close(&outlet);
    return 0;
}

/* Numbers of "line N" in order from 0 on; where some are missing a line says how many. The lines and those lost. */
static void count_numbers(char *text, uint64_t *came, uint64_t *lost, unsigned *told)
{
    uint64_t next = 0;
    *came = *lost = *told = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        uint64_t number;
        if (sscanf(line, "weft warn: %" SCNu64 " line", &number) == 1) {
            assert_non_null(strstr(line, "lost"));
            next += number;
            *lost += number;
            (*told)++;
            continue;
        }
        assert_int_equal(sscanf(line, "line %" SCNu64, &number), 1);
        assert_int_equal(number, next);
        next++;
        (*came)++;
    }
}

static void nobody_waits_for_the_reader(void **state)
{
    (void)state;
    uint64_t came, lost;
    unsigned told;
    full_pipe_take(&outlet, STDERR_FILENO);
    for (int i = 0; i < LINES; i++)
        weft_log_print("line %d, of which a pipe of one page and what waits take some hundreds", i);
    weft_log_drain(); /* gives a reader that takes nothing up */
    char *text = full_pipe_read(&outlet, STILL_MS);
    full_pipe_give_back(&outlet);
    count_numbers(text, &came, &lost, &told);
    free(text);
    assert_int_equal(told, 1);
    assert_true(came > 100 && lost > 100);
    assert_int_equal(came + lost, LINES);
}

/* A reader that keeps up gets every line, and the drain waits for the last. */
static void the_end_waits_for_who_reads(void **state)
{
    (void)state;
    full_pipe_take(&outlet, STDERR_FILENO);
    weft_log_print("line %d", 0);
    weft_log(WEFT_LOG_INFO, "%s", "line 1");
    weft_log_print_level(WEFT_LOG_WARN, "line 2");
    weft_log_drain();
    full_pipe_give_back(&outlet);
    char *text = full_pipe_read(&outlet, 0);
    assert_string_equal(text, "line 0\nweft: info: line 1\nweft warn: line 2\n");
    free(text);
}

/* A reader that takes nothing is given up after the one time, and any after the other. */
static void the_end_waits_no_longer_than_asked(void **state)
{
    static const uint32_t waits[][2] = {{100, 10000}, {10000, 100}};
    static char memory[4096];
    static weft_spool spool = WEFT_SPOOL(-1, memory, sizeof memory, NULL);
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], memory, sizeof memory) > 0)
        ;
    fcntl(ends[1], F_SETFL, 0);
    spool.fd = ends[1];
    weft_spool_put(&spool, "line\n", 5);
    for (size_t i = 0; i < 2; i++) {
        const time_t begun = time(NULL);
        assert_int_equal(weft_spool_drain(&spool, waits[i][0], waits[i][1]), 1);
        assert_true(time(NULL) - begun < 8);
    }
}

static void a_long_line_is_cut(void **state)
{
    (void)state;
    static const int lengths[] = {WEFT_LOG_PRINTED - 2, WEFT_LOG_PRINTED - 1, WEFT_LOG_PRINTED,
                                  2 * WEFT_LOG_PRINTED - 1};
    char text[2 * WEFT_LOG_PRINTED];
    memset(text, 'a', sizeof text);
    fcntl(outlet.ends[1], F_SETPIPE_SZ, 65536);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        full_pipe_take(&outlet, STDERR_FILENO);
        weft_log_print("%.*s", lengths[i], text);
        weft_log_drain();
        full_pipe_give_back(&outlet);
        char *line = full_pipe_read(&outlet, 0);
        assert_int_equal(strlen(line), WEFT_LOG_PRINTED - 1);
        assert_string_equal(line + strlen(line) - 4, i > 0 ? "...\n" : "aaa\n");
        free(line);
    }
}

/* ---- a spool of the test's own, with small memory */

static _Atomic uint64_t drops, fails, takes, failure, dropped;

static void hear(weft_spool_news news, uint64_t number)
{
    if (news == WEFT_SPOOL_DROPS)
        atomic_fetch_add(&drops, 1);
    if (news == WEFT_SPOOL_FAILS) {
        atomic_store(&failure, number);
        atomic_fetch_add(&fails, 1);
    }
    if (news == WEFT_SPOOL_TAKES) {
        atomic_fetch_add(&dropped, number);
        atomic_fetch_add(&takes, 1);
    }
}

static char told_memory[1000];
static weft_spool told_spool = WEFT_SPOOL(-1, told_memory, 500, hear);

static void put(const char *format, int number)
{
    char line[64];
    int length = snprintf(line, sizeof line, format, number);
    weft_spool_put(&told_spool, line, (uint64_t)length);
}

/* Dropping is reported when it begins and when it ends. A line is whole or not there, wherever it lies in the ring. */
static void who_asked_is_told(void **state)
{
    (void)state;
    uint64_t came, lost;
    unsigned told;
    told_spool.fd = outlet.ends[1];
    for (int i = 0; i < 1000; i++)
        put("line %d\n", i);
    assert_true(weft_spool_drain(&told_spool, 1, 1) > 0);
    assert_int_equal(drops, 1);
    assert_int_equal(takes, 0);
    char *text = full_pipe_read(&outlet, STILL_MS);
    assert_int_equal(weft_spool_drain(&told_spool, PATIENT_MS, PATIENT_MS), 0);
    count_numbers(text, &came, &lost, &told);
    free(text);
    assert_int_equal(told, 0);
    assert_int_equal(takes, 1);
    assert_int_equal(came + dropped, 1000);
    /* and begins anew */
    put("line %d\n", 0);
    assert_int_equal(weft_spool_drain(&told_spool, PATIENT_MS, PATIENT_MS), 0);
    text = full_pipe_read(&outlet, 0);
    assert_string_equal(text, "line 0\n");
    free(text);
}

/* A line longer than what may wait goes alone; one longer than the memory never does, and is counted. */
static void long_lines_go_alone(void **state)
{
    (void)state;
    char line[1200];
    const uint64_t dropped_before = dropped;
    told_spool.fd = outlet.ends[1];
    memset(line, 'b', sizeof line);
    line[899] = line[1199] = '\n';
    weft_spool_put(&told_spool, line, 900);
    assert_int_equal(weft_spool_drain(&told_spool, PATIENT_MS, PATIENT_MS), 0);
    char *text = full_pipe_read(&outlet, 0);
    assert_int_equal(strlen(text), 900);
    free(text);
    weft_spool_put(&told_spool, line, 1200);
    assert_int_equal(weft_spool_drain(&told_spool, PATIENT_MS, PATIENT_MS), 0);
    assert_int_equal(dropped - dropped_before, 2); /* it has two ends of lines */
    put("line %d\n", 7);
    assert_int_equal(weft_spool_drain(&told_spool, PATIENT_MS, PATIENT_MS), 0);
    text = full_pipe_read(&outlet, 0);
    assert_string_equal(text, "line 7\n");
    free(text);
}

/* A reader that is gone is reported once, and the next reader gets what waited. */
static void a_closed_pipe_is_told_once(void **state)
{
    (void)state;
    const uint64_t fails_before = fails;
    full_pipe other;
    told_spool.fd = outlet.ends[1];
    close(outlet.ends[0]);
    outlet.ends[0] = -1;
    for (int i = 0; i < 3; i++) {
        put("line %d\n", i);
        assert_true(weft_spool_drain(&told_spool, PATIENT_MS, PATIENT_MS) > 0);
    }
    assert_int_equal(fails - fails_before, 1);
    assert_int_equal(failure, EPIPE);
    full_pipe_open(&other, false);
    assert_int_equal(dup2(other.ends[1], outlet.ends[1]), outlet.ends[1]);
    put("line %d\n", 3);
    assert_int_equal(weft_spool_drain(&told_spool, PATIENT_MS, PATIENT_MS), 0);
    char *text = full_pipe_read(&other, 0);
    assert_string_equal(text, "line 0\nline 1\nline 2\nline 3\n");
    free(text);
    full_pipe_close(&other);
}

/* Another process that shares the pipe may have made it non-blocking. */
static void a_pipe_that_does_not_block_loses_nothing(void **state)
{
    (void)state;
    const uint64_t fails_before = fails;
    fcntl(outlet.ends[1], F_SETFL, O_NONBLOCK);
    told_spool.fd = outlet.ends[1];
    for (int i = 0; i < 3; i++)
        put("line %d\n", i);
    assert_true(weft_spool_drain(&told_spool, 100, 100) > 0);
    char *text = full_pipe_read(&outlet, STILL_MS);
    assert_int_equal(weft_spool_drain(&told_spool, PATIENT_MS, PATIENT_MS), 0);
    assert_string_equal(text, "line 0\nline 1\nline 2\n");
    assert_int_equal(fails, fails_before);
    free(text);
}

static char own_memory[16384];
static weft_spool own_spool = WEFT_SPOOL(-1, own_memory, 12000, NULL); /* some parts */

/* Each write ends with a line, because others write to the same pipe. */
static void lines_of_several_processes_stay_apart(void **state)
{
    (void)state;
    static char lines[9000], part[8192];
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    memset(lines, 'c', sizeof lines);
    for (size_t at = 36; at < sizeof lines; at += 37)
        lines[at] = '\n';
    lines[sizeof lines - 1] = '\n';
    own_spool.fd = ends[1];
    weft_spool_put(&own_spool, lines, sizeof lines);
    for (size_t got = 0; got < sizeof lines;) {
        const ssize_t bytes = read(ends[0], part, sizeof part);
        assert_true(bytes > 0 && part[bytes - 1] == '\n');
        got += (size_t)bytes;
    }
    weft_spool_drain(&own_spool, PATIENT_MS, PATIENT_MS);
    close(ends[0]);
}

/* A reader that is slow: what is dropped is told in its place, before any later line. */
static void a_slow_reader_has_the_order(void **state)
{
    (void)state;
    static char text[200000];
    uint64_t came, lost;
    unsigned told;
    size_t used = 0;
    own_spool.fd = outlet.ends[1];
    for (int i = 0; i < 6000; i++) {
        char line[64];
        weft_spool_put(&own_spool, line, (uint64_t)snprintf(line, sizeof line, "line %d\n", i));
        if (i != 5000)
            continue;
        while (used < 4096) { /* a page, so that the thread goes on a little */
            const ssize_t got = read(outlet.ends[0], text + used, 4096 - used);
            used += got > 0 ? (size_t)got : 0;
        }
        assert_true(weft_spool_drain(&own_spool, 100, 100) > 0);
    }
    char *rest = full_pipe_read(&outlet, STILL_MS);
    assert_int_equal(weft_spool_drain(&own_spool, PATIENT_MS, PATIENT_MS), 0);
    snprintf(text + used, sizeof text - used, "%s", rest);
    free(rest);
    count_numbers(text, &came, &lost, &told);
    assert_true(told > 0);
    assert_int_equal(came + lost, 6000);
}

static _Atomic bool printing;

static void *print_lines(void *stop)
{
    while (!atomic_load((_Atomic bool *)stop)) {
        weft_log_print("noise");
        atomic_store(&printing, true);
    }
    return NULL;
}

/* While a thread starts, a sanitizer holds locks of its own, which a child would find taken for ever. */
static void await_threads(void)
{
    while (!atomic_load(&printing))
        usleep(1000);
    usleep(100000);
}

#if !defined(WEFT_SANITIZE_THREAD)
/* Waits until a pipe holds so many bytes, because on a busy machine a thread may get no time while a drain waits. */
static void await_bytes(int fd, int wanted)
{
    int there = 0;
    while (ioctl(fd, FIONREAD, &there) == 0 && there < wanted)
        usleep(1000);
}
#endif

/* A child of a process whose lines stand still has none of them, and is held up by no lock of its parent's. */
static void a_forked_child_is_not_held_up(void **state)
{
    (void)state;
    full_pipe childs;
    pthread_t thread;
    _Atomic bool stop = false;
    full_pipe_open(&childs, false);
    full_pipe_take(&outlet, STDERR_FILENO);
    assert_int_equal(pthread_create(&thread, NULL, print_lines, &stop), 0);
    await_threads();
    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            alarm(PATIENT_MS / 1000);
            dup2(childs.ends[1], STDERR_FILENO);
#if !defined(WEFT_SANITIZE_THREAD) /* it forbids threads in the child of a process that has some */
            weft_log_print("child %d", i);
            await_bytes(childs.ends[0], 8 * (i + 1) + (i > 9 ? i - 9 : 0)); /* alarm ends a wait for nothing */
#endif
            weft_log_drain();
            _exit(0);
        }
        int status = -1;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    char *text = full_pipe_read(&outlet, STILL_MS);
    assert_null(strstr(text, "child"));
    free(text);
    full_pipe_give_back(&outlet);
    text = full_pipe_read(&childs, 0);
#if !defined(WEFT_SANITIZE_THREAD)
    char *at = text;
    for (int i = 0; i < 50; i++) {
        char line[32];
        snprintf(line, sizeof line, "child %d\n", i);
        assert_memory_equal(at, line, strlen(line));
        at += strlen(line);
    }
    assert_string_equal(at, "");
#endif
    free(text);
    full_pipe_close(&childs);
}

#if !defined(WEFT_SANITIZE_THREAD) && !defined(WEFT_SANITIZE_ADDRESS)
/* Writes lines in a process that can have no more threads. Returns the number of the step that failed. */
static int say_without_a_thread(void)
{
    static const char want[] = "weft warn: 3 lines lost, because nobody read here\nline 4\n";
    full_pipe own;
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    if (pthread_attr_setstacksize(&huge, (size_t)1 << 46) != 0 || pthread_setattr_default_np(&huge) != 0)
        return 1;
    full_pipe_open(&own, false);
    full_pipe_take(&own, STDERR_FILENO);
    weft_log_print("line 0");
    if (weft_spool_start(&told_spool) || strcmp(full_pipe_read(&own, 0), "line 0\n") != 0)
        return 2;
    full_pipe_give_back(&own);
    full_pipe_open(&own, true);
    full_pipe_take(&own, STDERR_FILENO);
    for (int i = 1; i < 4; i++)
        weft_log_print("line %d", i);
    if (strcmp(full_pipe_read(&own, 0), "") != 0)
        return 3;
    fcntl(own.ends[1], F_SETPIPE_SZ, 65536); /* room for two */
    weft_log_print("line 4");
    if (strcmp(full_pipe_read(&own, 0), want) != 0)
        return 4;
    pid_t pid = fork(); /* takes the spool's lock once, however often its thread could not be had */
    if (pid == 0)
        _exit(0);
    return waitpid(pid, NULL, 0) == pid ? 0 : 5;
}

static void without_a_thread_lines_are_written_or_counted(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(PATIENT_MS / 1000);
        _exit(say_without_a_thread());
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_waits_for_the_reader, open_full, close_outlet),
        cmocka_unit_test(the_end_waits_no_longer_than_asked),
        cmocka_unit_test_setup_teardown(the_end_waits_for_who_reads, open_empty, close_outlet),
        cmocka_unit_test_setup_teardown(a_long_line_is_cut, open_empty, close_outlet),
        cmocka_unit_test_setup_teardown(who_asked_is_told, open_full, close_outlet),
        cmocka_unit_test_setup_teardown(long_lines_go_alone, open_empty, close_outlet),
        cmocka_unit_test_setup_teardown(a_closed_pipe_is_told_once, open_empty, close_outlet),
        cmocka_unit_test_setup_teardown(a_pipe_that_does_not_block_loses_nothing, open_full, close_outlet),
        cmocka_unit_test(lines_of_several_processes_stay_apart),
        cmocka_unit_test_setup_teardown(a_slow_reader_has_the_order, open_empty, close_outlet),
        cmocka_unit_test_setup_teardown(a_forked_child_is_not_held_up, open_full, close_outlet),
#if !defined(WEFT_SANITIZE_THREAD) && !defined(WEFT_SANITIZE_ADDRESS)
        cmocka_unit_test(without_a_thread_lines_are_written_or_counted),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
