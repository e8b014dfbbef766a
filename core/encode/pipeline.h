/* window.h - the jobs that a thread has with a backend at once: one where that completes inline, `depth` elsewhere.
 *
 * A ring, taken at open: jobs are begun in order and ended in order. One thread at a time. */
#ifndef WEFT_CORE_PIPELINE_H
#define WEFT_CORE_PIPELINE_H

#include "port/port_backend.h"

typedef enum weft_job_kind {
    WEFT_JOB_ENCODE,
    WEFT_JOB_DECODE,
    WEFT_JOB_SURVEY,
    WEFT_JOB_APPLY,
    WEFT_JOB_UNDO,
    WEFT_JOB_DIGEST,
    WEFT_JOB_LOAD,
    WEFT_JOB_STORE
} weft_job_kind;

typedef struct weft_job {
    union {
        weft_encode_job encode;
        weft_decode_job decode;
        weft_survey_job survey;
        weft_apply_job apply;
        weft_undo_job undo;
        weft_digest_job digest;
        weft_load_job load;
        weft_store_job store;
    };
    weft_job_kind kind;
    weft_status status; /* WEFT_AGAIN: it is with the backend */
} weft_job;

typedef struct weft_pipeline {
    const weft_backend *backend;
    weft_backend_state *device; /* borrowed */
    weft_job *jobs;
    uint32_t depth;
    uint64_t begun, ended; /* jobs so far: those between are in the ring */
} weft_pipeline;

/* Errors: WEFT_E_MEMORY. */
weft_status weft_pipeline_open(weft_pipeline *window, const weft_backend *backend, weft_backend_state *device);
void weft_pipeline_close(weft_pipeline *window);

/* Where the next job is to be filled in; NULL: there are `depth` of them, one must be ended first. */
weft_job *weft_pipeline_next(weft_pipeline *window);
/* Begins the job that was filled in there. */
void weft_pipeline_begin(weft_pipeline *window, weft_job_kind kind);
/* Takes the oldest job, completed, out of the ring; its status is in it, and it stays until the next
 * weft_pipeline_next. NULL: there is none. */
weft_job *weft_pipeline_end(weft_pipeline *window);
/* Returns true if weft_pipeline_end takes a job and waits for nothing. Asks no device. */
bool weft_pipeline_is_over(const weft_pipeline *window);
/* Gives back what a job that ended was lent. */
void weft_pipeline_give(const weft_pipeline *window, weft_job *job);
/* Waits until none is with the backend any more; they stay in the ring. */
void weft_pipeline_settle(weft_pipeline *window);
/* After a failure: the same, and forgets them. What they have to say is not heard: the last error stays. */
void weft_pipeline_drop(weft_pipeline *window);

/* The same to be done for many items in turn. */
typedef struct weft_chore {
    weft_job_kind kind;
    void (*fill)(void *user, uint64_t item, weft_job *job);
    /* Told of each job that was begun, in order, whatever its status; NULL: the status is all. The first status other
     * than WEFT_OK that it returns is the chore's, and no more jobs are begun. */
    weft_status (*done)(void *user, uint64_t item, const weft_job *job);
    void *user;
} weft_chore;

/* Does it for the items from `first` to `end`, in an empty window, which is empty again afterwards. */
weft_status weft_pipeline_run(weft_pipeline *window, const weft_chore *chore, uint64_t first, uint64_t end);

#endif
