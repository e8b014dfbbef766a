/* demo_process.h - the demo's child processes: started, watched, and ended whatever happens.
 *
 * A child dies with its parent (PR_SET_PDEATHSIG) and is the leader of its own process group, so that a terminal's
 * interrupt reaches the parent alone, which then ends the children in order. */
#ifndef WEFT_TOOLS_DEMO_PROCESS_H
#define WEFT_TOOLS_DEMO_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "weft.h"

typedef struct weft_process {
    char name[32];
    char out[PATH_MAX]; /* its standard output, unless it has a pipe */
    char log[PATH_MAX]; /* its standard error */
    pid_t pid;          /* 0: never started */
    bool running;
    int exit_code; /* once ended: its own, or 128 + the signal that killed it */
} weft_process;

/* Forks; the child runs `body(user)` and exits with what it returns. `out_fd` becomes its standard output, -1: the file
 * DIRECTORY/NAME.out; standard error is DIRECTORY/NAME.log. Errors: WEFT_E_SYSTEM. */
weft_status weft_process_start(weft_process *child, const char *directory, const char *name, int out_fd,
                               int (*body)(void *user), void *user);

/* Takes note of children that ended; returns how many still run. Never blocks. */
size_t weft_processes_reap(weft_process *children, size_t count);

/* Ends all: SIGTERM, SIGKILL after a grace of two seconds, and reaps them. */
void weft_processes_end(weft_process *children, size_t count);

/* Copies the last lines of the child's standard error to ours. */
void weft_process_print_tail(const weft_process *child);

#endif
