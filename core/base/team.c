/* team.c - helpers that sleep until there is a task, and a caller that takes part in it. */
#include "base/team.h"

#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "base/thread.h"

#define WORKERS_AUTO 8u

struct weft_team_helper {
    weft_team *team;
    uint32_t worker;
    pthread_t thread;
};

static void *help(void *argument)
{
    struct weft_team_helper *helper = argument;
    weft_team *team = helper->team;
    uint64_t seen = 0;
    pthread_mutex_lock(&team->lock);
    for (;;) {
        while (team->round == seen && !team->ends)
            pthread_cond_wait(&team->begins, &team->lock);
        if (team->ends)
            break;
        seen = team->round;
        pthread_mutex_unlock(&team->lock);
        team->task(team->context, helper->worker);
        pthread_mutex_lock(&team->lock);
        if (--team->working == 0)
            pthread_cond_signal(&team->rests);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

static weft_status helper_start(weft_team *team, uint32_t worker)
{
    struct weft_team_helper *helper = &team->helpers[worker - 1];
    *helper = (struct weft_team_helper){.team = team, .worker = worker};
    int failed = weft_thread_start(&helper->thread, help, helper);
    if (failed)
        return weft_fail(WEFT_E_SYSTEM, "thread %u of %u: %s", worker, team->workers, strerror(failed));
    team->started++;
    return WEFT_OK;
}

weft_status weft_team_open(weft_team *team, uint32_t workers)
{
    weft_status status = WEFT_OK;
    *team = (weft_team){.workers = workers};
    team->helpers = weft_mem_take(workers, sizeof *team->helpers);
    if (!team->helpers)
        return weft_fail(WEFT_E_MEMORY, "no memory for %u threads", workers);
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->begins, NULL);
    pthread_cond_init(&team->rests, NULL);
    for (uint32_t worker = 1; status == WEFT_OK && worker < workers; worker++)
        status = helper_start(team, worker);
    if (status != WEFT_OK)
        weft_team_close(team);
    return status;
}

void weft_team_close(weft_team *team)
{
    if (!team->helpers)
        return;
    pthread_mutex_lock(&team->lock);
    team->ends = true;
    pthread_cond_broadcast(&team->begins);
    pthread_mutex_unlock(&team->lock);
    for (uint32_t i = 0; i < team->started; i++)
        pthread_join(team->helpers[i].thread, NULL);
    pthread_cond_destroy(&team->rests);
    pthread_cond_destroy(&team->begins);
    pthread_mutex_destroy(&team->lock);
    weft_mem_give(team->helpers);
    team->helpers = NULL;
}

void weft_team_run(weft_team *team, weft_team_task task, void *context)
{
    pthread_mutex_lock(&team->lock);
    team->task = task;
    team->context = context;
    team->working = team->workers - 1;
    team->round++;
    pthread_cond_broadcast(&team->begins);
    pthread_mutex_unlock(&team->lock);
    task(context, 0);
    pthread_mutex_lock(&team->lock);
    while (team->working > 0)
        pthread_cond_wait(&team->rests, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

uint32_t weft_team_workers(uint64_t wanted)
{
    cpu_set_t cpus;
    if (wanted > 0)
        return wanted < WEFT_TEAM_MAX ? (uint32_t)wanted : WEFT_TEAM_MAX;
    uint32_t half = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (uint32_t)CPU_COUNT(&cpus) / 2 : 1;
    return half < 1 ? 1 : half < WORKERS_AUTO ? half : WORKERS_AUTO;
}
