#include "harness/process.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"

enum { TICK_MS = 10 };

static void redirect(const char *path, int fd)
{
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || dup2(file, fd) < 0)
        _exit(1);
    close(file);
}

static _Noreturn void run(const fleet_process *process, const fleet_spawn *start, pid_t parent, int line)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    if (start->folder) {
        redirect("/dev/null", STDIN_FILENO);
        redirect(process->log, STDERR_FILENO);
        if (!start->talks)
            redirect(process->out, STDOUT_FILENO);
        else if (dup2(line, STDOUT_FILENO) < 0)
            _exit(1);
    }
    exit(start->body(start->user, line));
}

static void name_files(fleet_process *process, const fleet_spawn *start)
{
    *process = (fleet_process){.line = -1};
    snprintf(process->name, sizeof process->name, "%s", start->name);
    if (!start->folder)
        return;
    snprintf(process->out, sizeof process->out, "%.4000s/%s.out", start->folder, start->name);
    snprintf(process->log, sizeof process->log, "%.4000s/%s.log", start->folder, start->name);
}

weft_status fleet_process_start(fleet_process *process, const fleet_spawn *start)
{
    int line[2] = {-1, -1};
    const pid_t parent = getpid();
    name_files(process, start);
    if (start->talks && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) != 0)
        return weft_fail_quiet(WEFT_E_SYSTEM, "no line to process %s: %s", start->name, strerror(errno));
    fflush(NULL); /* or the child would write what is buffered once more */
    const pid_t pid = fork();
    if (pid == 0) {
        if (line[0] >= 0)
            close(line[0]);
        run(process, start, parent, line[1]);
    }
    const int failed = errno;
    if (line[1] >= 0)
        close(line[1]);
    process->line = line[0];
    if (pid < 0)
        return weft_fail_quiet(WEFT_E_SYSTEM, "process %s cannot be started: %s", start->name, strerror(failed));
    process->pid = pid;
    process->running = true;
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

static void reap(fleet_process *process)
{
    int status = 0;
    const pid_t pid = waitpid(process->pid, &status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR))
        return;
    process->running = false;
    sweep_segments(process->pid);
    process->exit_code = pid < 0 ? 1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

size_t fleet_processes_reap(fleet_process *processes, size_t count)
{
    size_t running = 0;
    for (size_t i = 0; i < count; i++) {
        if (processes[i].running)
            reap(&processes[i]);
        running += processes[i].running;
    }
    return running;
}

static void signal_all(const fleet_process *processes, size_t count, int number)
{
    for (size_t i = 0; i < count; i++)
        if (processes[i].running)
            kill(processes[i].pid, number);
}

void fleet_processes_end(fleet_process *processes, size_t count, unsigned grace_ms)
{
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
    if (grace_ms > 0)
        signal_all(processes, count, SIGTERM);
    for (unsigned ms = 0; fleet_processes_reap(processes, count) && ms < grace_ms; ms += TICK_MS)
        nanosleep(&tick, NULL);
    signal_all(processes, count, SIGKILL);
    while (fleet_processes_reap(processes, count)) /* SIGKILL is not refused */
        nanosleep(&tick, NULL);
    for (size_t i = 0; i < count; i++) {
        if (processes[i].pid && processes[i].line >= 0)
            close(processes[i].line);
        processes[i].line = -1;
    }
}

const fleet_process *fleet_processes_failed(const fleet_process *processes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (processes[i].pid && !processes[i].running && processes[i].exit_code != 0)
            return &processes[i];
    return NULL;
}

bool fleet_line_put(int line, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t sent = send(line, at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return false;
        at += sent > 0 ? sent : 0;
        bytes -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

bool fleet_line_get(int line, void *data, size_t bytes)
{
    char *at = data;
    while (bytes > 0) {
        const ssize_t got = read(line, at, bytes);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        at += got > 0 ? got : 0;
        bytes -= got > 0 ? (size_t)got : 0;
    }
    return true;
}
