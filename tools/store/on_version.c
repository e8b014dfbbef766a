#include "tools/store/on_version.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/output.h"
#include "tools/signals.h"

enum { LONGEST_MS = 600000, LEAVE_MS = 5000, LOOK_MS = 20 };

extern char **environ;

enum { TOLD = 4, TOLD_ROOM = PATH_MAX + 16 };

static bool is_told(const char *variable, char told[TOLD][TOLD_ROOM])
{
    bool found = false;
    for (int i = 0; i < TOLD; i++)
        found = found || strncmp(variable, told[i], strcspn(told[i], "=") + 1) == 0;
    return found;
}

/* The process's environment and what the command is told of, in an array that is to be freed. It is not set in the
 * process itself, whose other threads may be reading theirs. */
static char **environment_make(char told[TOLD][TOLD_ROOM])
{
    size_t count = 0, used = 0;
    while (environ[count])
        count++;
    char **made = calloc(count + TOLD + 1, sizeof *made);
    for (int i = 0; made && i < TOLD; i++)
        made[used++] = told[i];
    for (size_t i = 0; made && i < count; i++)
        if (!is_told(environ[i], told))
            made[used++] = environ[i];
    return made;
}

/* In a group of its own, so that all of it can be ended, and with the system's own way of signals. */
static int command_spawn(const char *command, char **environment, pid_t *process)
{
    char *words[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    const int error = posix_spawn(process, "/bin/sh", &files, &how, words, environment);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Waits so long for the end. Returns false if there is none yet, or a signal came that `stops` counts. */
static bool ended(pid_t process, uint32_t ms, bool stops, int *result)
{
    for (const double until = weft_now_ms() + ms; weft_now_ms() < until && !(stops && weft_signals_stopping());) {
        const pid_t found = waitpid(process, result, WNOHANG);
        if (found == process)
            return true;
        weft_clock_pass(LOOK_MS * WEFT_NS_PER_MS);
    }
    return false;
}

static void command_end(pid_t process, int *result)
{
    kill(-process, SIGTERM);
    if (ended(process, LEAVE_MS, false, result))
        return;
    kill(-process, SIGKILL);
    while (waitpid(process, result, 0) < 0 && errno == EINTR)
        ;
}

void weft_on_version(const char *command, const char *path, const weft_version *version)
{
    pid_t process;
    int result = 0;
    char told[TOLD][TOLD_ROOM];
    snprintf(told[0], TOLD_ROOM, "WEFT_PATH=%s", path);
    snprintf(told[1], TOLD_ROOM, "WEFT_VERSION=%" PRIu64, version->number);
    snprintf(told[2], TOLD_ROOM, "WEFT_RUN=%016" PRIx64, version->run);
    snprintf(told[3], TOLD_ROOM, "WEFT_DIGEST=%016" PRIx64, version->root);
    char **environment = environment_make(told);
    const int error = environment ? command_spawn(command, environment, &process) : ENOMEM;
    free(environment);
    if (error) {
        weft_output_say("weft: warn: --on-version: no shell can be started: %s", strerror(error));
        return;
    }
    if (!ended(process, LONGEST_MS, true, &result)) {
        command_end(process, &result);
        weft_output_say("weft: warn: --on-version: the command was ended for version %" PRIu64 ", because %s",
                        version->number,
                        weft_signals_stopping() ? "the rollout ends" : "it did not end within ten minutes");
    } else if (WIFSIGNALED(result)) {
        weft_output_say("weft: warn: --on-version: the command for version %" PRIu64 " ended by signal %d; the rollout "
                        "goes on",
                        version->number, WTERMSIG(result));
    } else if (WEXITSTATUS(result)) {
        weft_output_say("weft: warn: --on-version: the command for version %" PRIu64
                        " ended with exit code %d; the rollout goes on",
                        version->number, WEXITSTATUS(result));
    }
}
