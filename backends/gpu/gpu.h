/* gpu.h - the device backends' state: jobs are collected in slabs, a slab of jobs goes to the device as one batch.
 *
 * A slab has a stream and room of three sorts, handed out from the front while its batch is put together and all free
 * again when it is done. A thread has up to WEFT_GPU_SLABS_OF_THREAD of them under way: one is computed while another's
 * results are copied and a third one's frames are written by the host. A slab belongs to the thread whose jobs it took,
 * and is only touched by that thread's calls. What a kind of job does with a slab stands in gpu_KIND.c. */
#ifndef WEFT_BACKENDS_GPU_H
#define WEFT_BACKENDS_GPU_H

#include <pthread.h>
#include <stdatomic.h>

#include "backends/gpu/gpu_driver.h"
#include "port/port_backend.h"

#define WEFT_GPU_JOBS  64u /* of a slab */
#define WEFT_GPU_SLABS 4u
/* Bytes of host memory for each slab: pinned, and not. */
#define WEFT_GPU_PINNED_BYTES    (UINT64_C(80) << 20)
#define WEFT_GPU_PLAIN_BYTES     (UINT64_C(32) << 20)
#define WEFT_GPU_SLABS_OF_THREAD 3u
#define WEFT_GPU_DEPTH           (2 * WEFT_GPU_JOBS)  /* of the backends: jobs of a thread */
#define WEFT_GPU_TAKEN           (4 * WEFT_GPU_DEPTH) /* jobs of all threads */
#define WEFT_GPU_TROUBLES        16u                  /* texts of failed jobs that are kept */
#define WEFT_GPU_ALIGN           256u
#define WEFT_GPU_RUN_BYTES       128u /* of device and of pinned memory, for each run that a job's view has */
#define WEFT_GPU_JOB_BYTES       (UINT64_C(15) << 20) /* for the largest job without its runs */

typedef struct weft_gpu weft_gpu;
typedef struct weft_gpu_slab weft_gpu_slab;

/* What a job asks of its slab, at most. WEFT_GPU_ALIGN for every single take is to be counted in. */
typedef struct weft_gpu_need {
    uint64_t device; /* bytes of device memory */
    uint64_t pinned; /* of host memory that the device reaches */
    uint64_t plain;  /* of ordinary memory */
} weft_gpu_need;

/* How one kind of job is done in batches. */
typedef struct weft_gpu_kind {
    const char *name; /* "encode" */

    /* What a slab is asked for whatever its jobs are (job NULL), and what each job adds. */
    weft_gpu_need (*need)(const weft_gpu *gpu, const void *job);

    /* The stream of the job's caller; the batch begins when the device has done what is on it. `*ordered` false: none.
     * NULL: no job of this kind has one. */
    void *(*stream)(weft_gpu *gpu, const void *job, bool *ordered);

    /* begin: puts the first work of slab->jobs on slab->stream. advance: called when all that is done; takes the next
     * step. Both return WEFT_AGAIN while there is work on the stream, WEFT_OK when every job has its result (its
     * status, if it is no success, was told by weft_gpu_job_fail), anything else when the whole batch failed. They
     * never wait. */
    weft_status (*begin)(weft_gpu *gpu, weft_gpu_slab *slab);
    weft_status (*advance)(weft_gpu *gpu, weft_gpu_slab *slab);
} weft_gpu_kind;

/* Memory handed out from the front. */
typedef struct weft_gpu_room {
    uint8_t *host;    /* NULL: device memory */
    uint64_t address; /* for the device; 0: ordinary memory */
    uint64_t bytes;
    uint64_t used;
} weft_gpu_room;

/* ORDERED: nothing of it is on the device yet; what was on its jobs' caller's stream has to come to its end first. */
typedef enum weft_gpu_stage { WEFT_GPU_FREE, WEFT_GPU_FILLING, WEFT_GPU_ORDERED, WEFT_GPU_RUNNING } weft_gpu_stage;

/* How long something was waited for. A long while in which nobody asked (a process that was stopped, say) counts for
 * little: what is waited for may have stood still too. */
typedef struct weft_gpu_wait {
    uint64_t asked_ns;
    uint64_t waited_ns;
} weft_gpu_wait;

struct weft_gpu_slab {
    const weft_gpu_kind *kind;
    void *stream;
    weft_gpu_room device;
    weft_gpu_room pinned;
    weft_gpu_room plain;
    void *jobs[WEFT_GPU_JOBS];
    uint32_t count;
    uint32_t step; /* the kind's own; 0 at begin */
    void *plan;    /* the kind's own; NULL at begin */
    /* The rest is the queue's. */
    weft_status status[WEFT_GPU_JOBS];
    char trouble[256]; /* what the first job that failed said */
    weft_gpu_stage stage;
    pthread_t owner;
    weft_gpu_need promised;
    bool ordered; /* its jobs come after what is on `caller` */
    void *caller;
    void *fence; /* mark on the caller's stream */
    bool fenced; /* it was set */
    void *mark;  /* behind what is on the slab's stream */
    weft_gpu_wait wait;
};

/* A job that is done and was not asked for yet. */
typedef struct weft_gpu_result {
    void *job;
    weft_status status;
    uint32_t trouble; /* number of its text, if it failed */
} weft_gpu_result;

/* Memory that was taken for core. */
typedef struct weft_gpu_block {
    struct weft_gpu_block *next;
    void *memory;     /* as core knows it */
    uint64_t address; /* as the driver does; 0: pinned */
    uint64_t bytes;
} weft_gpu_block;

struct weft_gpu {
    const weft_gpu_driver *driver;
    weft_gpu_device *device;
    weft_backend_state *host; /* the host backend's, for frames in host memory */
    uint64_t budget;          /* bytes of device memory; UINT64_MAX: none was set */
    uint64_t patience_ns;     /* the longest wait for work on the device */
    uint64_t caller_ns;       /* the longest wait for what a caller has on its stream */
    pthread_mutex_t mutex;    /* guards what follows, and whose a slab is */
    uint64_t device_bytes;    /* taken */
    weft_gpu_block *blocks;
    weft_gpu_result results[WEFT_GPU_TAKEN];
    uint32_t result_count;
    uint32_t taken; /* jobs taken and not asked for yet */
    char troubles[WEFT_GPU_TROUBLES][256];
    uint32_t trouble_count;
    char why_lost[256];
    atomic_bool lost; /* no more jobs */
    atomic_bool hung; /* and no more calls: work is on the device that does not end */
    weft_gpu_slab slabs[WEFT_GPU_SLABS];
};

/* The device backends: one table for each vendor over the same slots (gpu_backend.c). */
extern const weft_backend weft_backend_cuda, weft_backend_hip;

/* The kinds. */
extern const weft_gpu_kind weft_gpu_encode, weft_gpu_survey, weft_gpu_digest;
extern const weft_gpu_kind weft_gpu_decode, weft_gpu_apply, weft_gpu_undo, weft_gpu_load, weft_gpu_store;

/* For kinds: the next `bytes` of a slab's room, aligned to WEFT_GPU_ALIGN. The job's need covered it: there is always
 * room (NULL and 0 otherwise). */
uint64_t weft_gpu_take_device(weft_gpu_slab *slab, uint64_t bytes);
void *weft_gpu_take_pinned(weft_gpu_slab *slab, uint64_t bytes, uint64_t *address); /* address may be NULL */
void *weft_gpu_take_plain(weft_gpu_slab *slab, uint64_t bytes);

/* For kinds: ends job number `job` of a slab with an error that was just decided on this thread. */
void weft_gpu_job_fail(weft_gpu_slab *slab, uint32_t job, weft_status status);

/* For kinds: on the slab's stream. Nothing happens for 0 blocks or bytes. */
weft_status weft_gpu_launch(weft_gpu *gpu, weft_gpu_slab *slab, enum weft_gpu_kernel kernel, uint32_t blocks,
                            uint64_t rows);
weft_status weft_gpu_copy(weft_gpu *gpu, weft_gpu_slab *slab, uint64_t to, uint64_t from, uint64_t bytes);
weft_status weft_gpu_clear(weft_gpu *gpu, weft_gpu_slab *slab, uint64_t address, uint64_t bytes);

/* The caller's stream for a job on `view`. Not ordered is what lies in memory that weft took: only weft writes there,
 * and its progress must not stand behind what a framework has queued; nor may the stream be one that is no more. */
void *weft_gpu_order(weft_gpu *gpu, const weft_view *view, void *stream, bool *ordered);

/* Slots of weft_backend over a driver. Errors of open: the driver's, WEFT_E_MEMORY, WEFT_E_CONFIG (the budget). */
weft_status weft_gpu_open(const weft_gpu_driver *driver, const weft_backend_options *options, weft_gpu **gpu);
void weft_gpu_close(weft_gpu *gpu);
weft_status weft_gpu_memory_take(weft_gpu *gpu, uint64_t bytes, bool pinned, void **memory);
void weft_gpu_memory_give(weft_gpu *gpu, void *memory);

/* The most runs of a view for which a slab has room, whatever else the job is. */
uint64_t weft_gpu_runs(const weft_gpu *gpu);
weft_status weft_gpu_flush(weft_gpu *gpu);

/* Takes a job: WEFT_AGAIN, or an error. */
weft_status weft_gpu_submit(weft_gpu *gpu, const weft_gpu_kind *kind, void *job);
/* How a job came out, once; WEFT_AGAIN while it is not done, after a pause if nothing moved. */
weft_status weft_gpu_poll(weft_gpu *gpu, void *job);

/* Keeps the results of a slab's jobs; those that failed share a text. Called with the mutex held. */
void weft_gpu_results_put(weft_gpu *gpu, const weft_gpu_slab *slab);
/* What became of a job, once; WEFT_AGAIN if it is not done. */
weft_status weft_gpu_result_take(weft_gpu *gpu, const void *job);

/* Waits until nothing is under way on a slab's stream, or the device is lost. */
void weft_gpu_quiet(weft_gpu *gpu, weft_gpu_slab *slab);

#endif
