/* Forks, reaps and joins the processes of a test. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

#include "tests/support/fabric_play.h"

double play_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void play_nap(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

typedef struct role {
    play *play;
    int self;
    play_role_fn fn;
} role;

/* The lead is forked last: it has the lines to all. */
static int perform(void *user, int line)
{
    static const int caught[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};
    const role *r = user;
    play *p = r->play;
    alarm(240);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
        signal(caught[i], SIG_DFL); /* cmocka's handlers would go on with the next test here */
    for (int i = 1; i < PLAY_CAST_MAX; i++)
        if (r->self > 0 && p->processes[i].line >= 0)
            close(p->processes[i].line);
    p->line = line;
    r->fn(p);
    return 0; /* the leak check runs at the exit */
}

void play_start(play *p, const char *provider, play_role_fn lead, play_role_fn other, int others)
{
    *p = (play){.provider = provider, .line = -1};
    for (int i = 0; i < PLAY_CAST_MAX; i++)
        p->processes[i].line = -1;
    for (int i = others; i >= 0; i--) {
        role r = {p, i, i ? other : lead};
        const fleet_spawn start = {.name = "play", .talks = i > 0, .body = perform, .user = &r};
        assert_int_equal(fleet_process_start(&p->processes[i], &start), WEFT_OK);
    }
    for (int i = 1; i <= others; i++) {
        close(p->processes[i].line);
        p->processes[i].line = -1;
    }
}

void play_finish(play *p, int others, unsigned killed)
{
    for (int i = 0; i <= others; i++) {
        while (fleet_processes_reap(&p->processes[i], 1) > 0)
            play_nap(0.005);
        const int code = p->processes[i].exit_code;
        if (code == (killed & 1u << i ? 128 + SIGKILL : 0))
            continue;
        fleet_processes_end(p->processes, (size_t)others + 1, 0);
        fail_msg("process %d of %s ended with exit code %d", i, p->provider, code);
    }
}

void play_tell(int fd, const void *bytes, size_t count)
{
    CHECK(send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count, "send: %s", strerror(errno));
}

void play_hear(int fd, void *bytes, size_t count)
{
    CHECK(recv(fd, bytes, count, MSG_WAITALL) == (ssize_t)count, "recv: %s", strerror(errno));
}

bool play_heard(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}
