/* team.h - a team of threads that run one task together: the caller and its helpers. Each is a worker with a number. */
#ifndef WEFT_CORE_TEAM_H
#define WEFT_CORE_TEAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "weft.h"

#define WEFT_TEAM_MAX 64u

typedef void (*weft_team_task)(void *context, uint32_t worker);

typedef struct weft_team {
    uint32_t workers; /* workers in all; the caller is worker 0 */
    uint32_t started;
    struct weft_team_helper *helpers;
    pthread_mutex_t lock;
    pthread_cond_t begins, rests;
    weft_team_task task;
    void *context;
    uint64_t round;
    uint32_t working;
    bool ends;
} weft_team;

/* Starts `workers` - 1 threads (thread.h). Errors: WEFT_E_MEMORY, WEFT_E_SYSTEM. */
weft_status weft_team_open(weft_team *team, uint32_t workers);
void weft_team_close(weft_team *team);
/* Runs the task once on every worker, and returns after the last of them. One caller at a time. */
void weft_team_run(weft_team *team, weft_team_task task, void *context);

/* Returns the number of workers for a site's `threads`. 0 means half of the CPUs that this process may use, at most 8.
 */
uint32_t weft_team_workers(uint64_t wanted);

#endif
