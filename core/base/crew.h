/* crew.h - threads that do one thing together: the caller and its helpers, numbered lanes. */
#ifndef WEFT_CORE_CREW_H
#define WEFT_CORE_CREW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "weft.h"

#define WEFT_CREW_MAX 64u

typedef void (*weft_crew_task)(void *context, uint32_t lane);

typedef struct weft_crew {
    uint32_t lanes; /* the caller is lane 0 */
    uint32_t started;
    struct weft_crew_helper *helpers;
    pthread_mutex_t lock;
    pthread_cond_t begins, rests;
    weft_crew_task task;
    void *context;
    uint64_t round;
    uint32_t working;
    bool ends;
} weft_crew;

/* Starts lanes - 1 threads (thread.h). Errors: WEFT_E_MEMORY, WEFT_E_SYSTEM. */
weft_status weft_crew_open(weft_crew *crew, uint32_t lanes);
void weft_crew_close(weft_crew *crew);
/* Runs the task once in every lane, and returns when all have returned. One caller at a time. */
void weft_crew_run(weft_crew *crew, weft_crew_task task, void *context);

/* How many lanes a site's `threads` asks for: 0 takes half of the CPUs this process may use, at most 8. */
uint32_t weft_crew_lanes(uint64_t wanted);

#endif
