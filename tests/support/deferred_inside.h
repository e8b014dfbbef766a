/* deferred_inside.h - between the files of the deferred backend. */
#ifndef WEFT_TESTS_DEFERRED_INSIDE_H
#define WEFT_TESTS_DEFERRED_INSIDE_H

#include <stdbool.h>

#include "port/port_backend.h"

typedef enum deferred_kind {
    DEFERRED_ENCODE,
    DEFERRED_DECODE,
    DEFERRED_SURVEY,
    DEFERRED_APPLY,
    DEFERRED_UNDO,
    DEFERRED_DIGEST,
    DEFERRED_LOAD,
    DEFERRED_STORE
} deferred_kind;

/* Reports what the port forbids, and ends the process. */
void deferred_refuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- deferred_memory.c */
weft_status deferred_memory_take(weft_backend_state *state, uint64_t bytes, weft_memory_kind kind, void **memory);
void deferred_memory_give(weft_backend_state *state, void *memory, uint64_t bytes, weft_memory_kind kind);
const char *deferred_memory_check(weft_backend_state *state, const void *data, uint64_t bytes);
/* Returns where the bytes of an address are that jobs may name; `any_host`: any host memory is allowed. */
void *deferred_reach(const void *address, bool any_host);
/* Ends the process if memory was not given back. */
void deferred_memory_none(void);

/* ---- deferred_commit.c */
weft_status deferred_queue(weft_backend_state *state, weft_queued_commit *commit);
weft_status deferred_queued(weft_backend_state *state, weft_queued_commit *commit);
/* Returns true while a commit of the state is queued: no job may come then. */
bool deferred_queue_open(const weft_backend_state *state);

/* ---- deferred_jobs.c */
/* Does a job with the state of the host backend. */
weft_status deferred_do(weft_backend_state *host, deferred_kind kind, void *job);

#endif
