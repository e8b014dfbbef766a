/* crew.c - helpers that sleep until there is a task, and a caller that takes part in it. */
#include "base/crew.h"

#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "base/thread.h"

#define LANES_AUTO 8u

struct weft_crew_helper {
    weft_crew *crew;
    uint32_t lane;
    pthread_t thread;
};

static void *help(void *argument)
{
    struct weft_crew_helper *helper = argument;
    weft_crew *crew = helper->crew;
    uint64_t seen = 0;
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (crew->round == seen && !crew->ends)
            pthread_cond_wait(&crew->begins, &crew->lock);
        if (crew->ends)
            break;
        seen = crew->round;
        pthread_mutex_unlock(&crew->lock);
        crew->task(crew->context, helper->lane);
        pthread_mutex_lock(&crew->lock);
        if (--crew->working == 0)
            pthread_cond_signal(&crew->rests);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

static weft_status helper_start(weft_crew *crew, uint32_t lane)
{
    struct weft_crew_helper *helper = &crew->helpers[lane - 1];
    *helper = (struct weft_crew_helper){.crew = crew, .lane = lane};
    int failed = weft_thread_start(&helper->thread, help, helper);
    if (failed)
        return weft_fail(WEFT_E_SYSTEM, "thread %u of %u: %s", lane, crew->lanes, strerror(failed));
    crew->started++;
    return WEFT_OK;
}

weft_status weft_crew_open(weft_crew *crew, uint32_t lanes)
{
    weft_status status = WEFT_OK;
    *crew = (weft_crew){.lanes = lanes};
    crew->helpers = weft_mem_take(lanes, sizeof *crew->helpers);
    if (!crew->helpers)
        return weft_fail(WEFT_E_MEMORY, "no memory for %u threads", lanes);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->begins, NULL);
    pthread_cond_init(&crew->rests, NULL);
    for (uint32_t lane = 1; status == WEFT_OK && lane < lanes; lane++)
        status = helper_start(crew, lane);
    if (status != WEFT_OK)
        weft_crew_close(crew);
    return status;
}

void weft_crew_close(weft_crew *crew)
{
    if (!crew->helpers)
        return;
    pthread_mutex_lock(&crew->lock);
    crew->ends = true;
    pthread_cond_broadcast(&crew->begins);
    pthread_mutex_unlock(&crew->lock);
    for (uint32_t i = 0; i < crew->started; i++)
        pthread_join(crew->helpers[i].thread, NULL);
    pthread_cond_destroy(&crew->rests);
    pthread_cond_destroy(&crew->begins);
    pthread_mutex_destroy(&crew->lock);
    weft_mem_give(crew->helpers);
    crew->helpers = NULL;
}

void weft_crew_run(weft_crew *crew, weft_crew_task task, void *context)
{
    pthread_mutex_lock(&crew->lock);
    crew->task = task;
    crew->context = context;
    crew->working = crew->lanes - 1;
    crew->round++;
    pthread_cond_broadcast(&crew->begins);
    pthread_mutex_unlock(&crew->lock);
    task(context, 0);
    pthread_mutex_lock(&crew->lock);
    while (crew->working > 0)
        pthread_cond_wait(&crew->rests, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

uint32_t weft_crew_lanes(uint64_t wanted)
{
    cpu_set_t cpus;
    if (wanted > 0)
        return wanted < WEFT_CREW_MAX ? (uint32_t)wanted : WEFT_CREW_MAX;
    uint32_t half = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (uint32_t)CPU_COUNT(&cpus) / 2 : 1;
    return half < 1 ? 1 : half < LANES_AUTO ? half : LANES_AUTO;
}
