/* The team: every lane runs a task once, again and again, and a fault in a helper meets the application's handler. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/team.h"
#include "base/thread.h"

enum { LANES = 5, ROUNDS = 200, PAGE = 4096 };

typedef struct tally {
    _Atomic uint32_t runs[LANES];
} tally;

static void count(void *context, uint32_t lane)
{
    tally *t = context;
    atomic_fetch_add(&t->runs[lane], 1);
}

static void every_lane_runs_once(void **state)
{
    weft_team team;
    tally t = {0};
    (void)state;
    assert_int_equal(weft_team_open(&team, LANES), WEFT_OK);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        weft_team_run(&team, count, &t);
        for (int lane = 0; lane < LANES; lane++)
            assert_int_equal(atomic_load(&t.runs[lane]), round);
    }
    weft_team_close(&team);
    weft_team_close(&team); /* does no harm */
}

/* ---- faults */

static volatile uint8_t *page; /* of a file that has no such byte any more */

static void give_zeros(int number)
{
    (void)number;
    if (mmap((void *)(uintptr_t)page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        _exit(3);
}

static void read_page(void *context, uint32_t lane)
{
    uint8_t *seen = context;
    if (lane > 0)
        *seen = page[0];
}

static void *read_alone(void *context)
{
    read_page(context, 1);
    return NULL;
}

/* In a child: what goes wrong kills. */
static void meet_fault(bool in_crew)
{
    char name[] = "weft-team-XXXXXX";
    struct sigaction action = {.sa_handler = give_zeros};
    uint8_t seen = 1;
    weft_team team;
    pthread_t thread;
    int file = mkstemp(name);
    unlink(name);
    page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
    sigaction(SIGBUS, &action, NULL);
    if (in_crew) {
        if (weft_team_open(&team, 2) != WEFT_OK)
            _exit(2);
        weft_team_run(&team, read_page, &seen);
        weft_team_close(&team);
    } else if (weft_thread_start(&thread, read_alone, &seen) != 0 || pthread_join(thread, NULL) != 0) {
        _exit(2);
    }
    _exit(seen);
}

static void faults_meet_the_handler(void **state)
{
    (void)state;
    for (int in_crew = 0; in_crew < 2; in_crew++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            meet_fault(in_crew);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void *mask_tell(void *context)
{
    pthread_sigmask(SIG_SETMASK, NULL, context);
    return NULL;
}

/* Signals from other processes go to the application's own threads. */
static void other_signals_stay_away(void **state)
{
    static const int sent[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGUSR1, SIGCHLD, SIGPIPE};
    sigset_t mask, before, after;
    pthread_t thread;
    (void)state;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(weft_thread_start(&thread, mask_tell, &mask), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++)
        assert_int_equal(sigismember(&mask, sent[i]), 1);
    assert_int_equal(sigismember(&mask, SIGBUS), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < 32; number++)
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
}

/* As many workers as the site says, within the most there can be; auto is half of the CPUs, and eight at most. */
static void how_many_workers(void **state)
{
    cpu_set_t cpus;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    const uint32_t half = (uint32_t)CPU_COUNT(&cpus) / 2;
    assert_int_equal(weft_team_workers(3), 3);
    assert_int_equal(weft_team_workers(UINT64_MAX), WEFT_TEAM_MAX);
    assert_int_equal(weft_team_workers(0), half < 1 ? 1 : half < 8 ? half : 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_lane_runs_once),
        cmocka_unit_test(how_many_workers),
        cmocka_unit_test(faults_meet_the_handler),
        cmocka_unit_test(other_signals_stay_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
