/* Forks, reaps and joins the processes of a test. */
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
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

void play_start(play *p, const char *provider, play_role_fn lead, play_role_fn other, int others)
{
    static const int caught[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};
    memset(p, 0, sizeof *p);
    p->provider = provider;
    for (int i = 1; i <= others; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p->sockets[i]), 0);
    for (int i = others; i >= 0; i--) { /* the lead last: it knows all pids */
        fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            alarm(240);
            for (size_t k = 0; k < sizeof caught / sizeof caught[0]; k++)
                signal(caught[k], SIG_DFL); /* cmocka's handlers would go on with the next test here */
            for (int k = 1; k <= others; k++)
                close(p->sockets[k][i ? 0 : 1]);
            (i ? other : lead)(p, i);
            exit(0); /* the leak check runs here */
        }
        p->pids[i] = pid;
    }
    for (int i = 1; i <= others; i++) {
        close(p->sockets[i][0]);
        close(p->sockets[i][1]);
    }
}

/* libfabric's shm leaves its segments, named by process, where a process is killed. */
static void sweep(pid_t pid)
{
    char pattern[64];
    glob_t found;
    snprintf(pattern, sizeof pattern, "/dev/shm/%d:*", (int)pid);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        unlink(found.gl_pathv[i]);
    globfree(&found);
}

void play_finish(play *p, int others, unsigned killed)
{
    int status = 0;
    for (int i = 0; i <= others; i++) {
        assert_int_equal(waitpid(p->pids[i], &status, 0), p->pids[i]);
        bool good = killed & 1u << i ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                     : WIFEXITED(status) && WEXITSTATUS(status) == 0;
        sweep(p->pids[i]);
        if (good)
            continue;
        for (int k = i + 1; k <= others; k++) {
            kill(p->pids[k], SIGKILL);
            waitpid(p->pids[k], NULL, 0);
            sweep(p->pids[k]);
        }
        fail_msg("process %d of %s ended by signal %d or with exit code %d", i, p->provider,
                 WIFSIGNALED(status) ? WTERMSIG(status) : 0, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
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
