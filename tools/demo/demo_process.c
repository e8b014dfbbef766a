#include "tools/demo/demo_process.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "tools/output.h"
#include "tools/signals.h"

enum { GRACE_MS = 2000, TICK_MS = 10, TAIL_BYTES = 1200 };

static void redirect(const char *path, int fd)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, fd) < 0)
        _exit(1);
    close(file);
}

static _Noreturn void child_run(const weft_process *child, pid_t parent, int out_fd, int (*body)(void *user),
                                void *user)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    redirect("/dev/null", STDIN_FILENO);
    redirect(child->log, STDERR_FILENO);
    if (out_fd < 0)
        redirect(child->out, STDOUT_FILENO);
    else if (dup2(out_fd, STDOUT_FILENO) < 0)
        _exit(1);
    exit(weft_output_end(body(user)));
}

weft_status weft_process_start(weft_process *child, const char *directory, const char *name, int out_fd,
                               int (*body)(void *user), void *user)
{
    *child = (weft_process){0};
    snprintf(child->name, sizeof child->name, "%s", name);
    snprintf(child->out, sizeof child->out, "%.4000s/%s.out", directory, name);
    snprintf(child->log, sizeof child->log, "%.4000s/%s.log", directory, name);
    pid_t parent = getpid();
    fflush(NULL); /* or the child would write what is buffered once more */
    pid_t pid = fork();
    if (pid < 0)
        return weft_fail_quiet(WEFT_E_SYSTEM, "process %s cannot be started: %s", name, strerror(errno));
    if (pid == 0)
        child_run(child, parent, out_fd, body, user);
    child->pid = pid;
    child->running = true;
    return WEFT_OK;
}

/* libfabric's shm provider names its segments PID:...; a process that was killed leaves them behind. */
static void sweep_segments(pid_t pid)
{
    char pattern[64];
    glob_t found;
    snprintf(pattern, sizeof pattern, "/dev/shm/%ld:*", (long)pid);
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        unlink(found.gl_pathv[i]);
    globfree(&found);
}

static void reap(weft_process *child)
{
    int status = 0;
    pid_t pid = waitpid(child->pid, &status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR))
        return;
    child->running = false;
    sweep_segments(child->pid);
    child->exit_code = pid < 0 ? 1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

size_t weft_processes_reap(weft_process *children, size_t count)
{
    size_t running = 0;
    for (size_t i = 0; i < count; i++) {
        if (children[i].running)
            reap(&children[i]);
        running += children[i].running;
    }
    return running;
}

static void signal_all(const weft_process *children, size_t count, int number)
{
    for (size_t i = 0; i < count; i++)
        if (children[i].running)
            kill(children[i].pid, number);
}

void weft_processes_end(weft_process *children, size_t count)
{
    struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
    signal_all(children, count, SIGTERM);
    double until = weft_now_ms() + GRACE_MS;
    while (weft_processes_reap(children, count) && weft_now_ms() < until)
        nanosleep(&tick, NULL);
    signal_all(children, count, SIGKILL);
    while (weft_processes_reap(children, count)) /* SIGKILL is not refused */
        nanosleep(&tick, NULL);
}

void weft_process_print_tail(const weft_process *child)
{
    char text[TAIL_BYTES + 1];
    FILE *log = fopen(child->log, "re");
    if (!log)
        return;
    bool cut = fseek(log, -TAIL_BYTES, SEEK_END) == 0;
    size_t length = fread(text, 1, TAIL_BYTES, log);
    fclose(log);
    text[length] = '\0';
    char *line = cut && strchr(text, '\n') ? strchr(text, '\n') + 1 : text;
    for (char *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        weft_output_say("  %s: %s", child->name, line);
    }
}
