/* process.h - ends that are processes: started, watched, and ended whatever happens.
 *
 * A process dies with its parent (PR_SET_PDEATHSIG) and is the leader of its own process group, so that a terminal's
 * interrupt reaches the parent alone, which then ends the others in order. */
#ifndef WEFT_HARNESS_PROCESS_H
#define WEFT_HARNESS_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "weft.h"

typedef struct fleet_process {
    char name[32];
    char out[PATH_MAX]; /* its standard output, and its standard error; empty: they are ours */
    char log[PATH_MAX];
    int line;  /* a socket to a process that talks; else -1 */
    pid_t pid; /* 0: never started */
    bool running;
    int exit_code; /* once ended: its own, or 128 + the signal that killed it */
} fleet_process;

typedef struct fleet_spawn {
    const char *name;
    const char *folder; /* gets NAME.out and NAME.log, its standard output and error; NULL: they are ours */
    bool talks;         /* it has a line to us, which takes the place of NAME.out */
    /* The process runs this, and exits with what this returns. `line` -1: the process does not talk. */
    int (*body)(void *user, int line);
    void *user;
} fleet_spawn;

/* Forks. Errors: WEFT_E_SYSTEM. */
weft_status fleet_process_start(fleet_process *process, const fleet_spawn *start);

/* Takes note of processes that ended; returns how many still run. Never blocks. */
size_t fleet_processes_reap(fleet_process *processes, size_t count);
/* Ends all that still run: SIGTERM, after a grace SIGKILL, or that at once, and reaps them. */
void fleet_processes_end(fleet_process *processes, size_t count, unsigned grace_ms);
/* The first that failed; NULL: none. */
const fleet_process *fleet_processes_failed(const fleet_process *processes, size_t count);

/* Whole messages by a line. False: the other end is gone. */
bool fleet_line_put(int line, const void *data, size_t bytes);
bool fleet_line_get(int line, void *data, size_t bytes);

#endif
