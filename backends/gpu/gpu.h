/* gpu.h - the state of a device backend: jobs are collected in slabs, and a slab of jobs goes to the device as one
 * batch.
 *
 * A slab has a stream and rooms of three kinds of memory. Its batch takes from them front to back, and all is free
 * again after the batch. A thread has up to WEFT_GPU_SLABS_OF_THREAD slabs under way: one computes while results of
 * another are copied and the host writes the frames of a third. A slab belongs to the thread whose jobs it took, and
 * only that thread's calls touch it. gpu_KIND.c has what a kind of job does with a slab. */
#ifndef WEFT_BACKENDS_GPU_H
#define WEFT_BACKENDS_GPU_H

#include <pthread.h>
#include <stdatomic.h>

#include "backends/gpu/gpu_driver.h"
#include "layout/box.h"
#include "port/port_backend.h"

#define WEFT_GPU_JOBS  2048u /* jobs of a slab: at 1 % changed, frames of level fast for a GiB of bf16 */
#define WEFT_GPU_SLABS 4u
/* Streams of a session: two of lowest priority, which its slabs share, and one of highest for kinds that are urgent. On
 * AMD's devices one more waits for the caller's. Such a device has four queues, and collectives need some of them. */
#define WEFT_GPU_STREAMS 3u
/* Bytes of device memory for each slab; less if the budget is small. */
#define WEFT_GPU_DEVICE_BYTES (UINT64_C(192) << 20)
/* Bytes of host memory for each slab: pinned, and not. */
#define WEFT_GPU_PINNED_BYTES    (UINT64_C(80) << 20)
#define WEFT_GPU_PLAIN_BYTES     (UINT64_C(32) << 20)
#define WEFT_GPU_SLABS_OF_THREAD 3u
#define WEFT_GPU_DEPTH           (2 * WEFT_GPU_JOBS) /* jobs of a thread, which is the backends' depth */
#define WEFT_GPU_TROUBLES        16u                 /* texts of failed jobs that are kept */
#define WEFT_GPU_ALIGN           256u
#define WEFT_GPU_RUN_BYTES       128u /* bytes of device memory and of pinned memory, for each run in a job's view */
#define WEFT_GPU_JOB_BYTES       (UINT64_C(15) << 20) /* bytes for the largest job without its runs */

typedef struct weft_gpu weft_gpu;
typedef struct weft_gpu_slab weft_gpu_slab;

/* The most memory that a job needs of its slab. Count WEFT_GPU_ALIGN for each take. */
typedef struct weft_gpu_need {
    uint64_t device; /* bytes of device memory */
    uint64_t later;  /* bytes of device memory that a batch takes for the job once it has seen it, as far as is known */
    uint64_t pinned; /* bytes of host memory that the device reaches */
    uint64_t plain;  /* bytes of ordinary memory */
} weft_gpu_need;

/* One kind of job, done in batches. */
typedef struct weft_gpu_kind {
    const char *name; /* "encode" */
    bool writes;      /* to weights or an image of them: what is late is waited for, because its end must be known */
    bool takes_back;  /* what others wrote, and is not given up before the device is lost */
    bool urgent;      /* the caller's engine stands still meanwhile: goes before the work of other streams */

    /* Returns the memory of a slab without jobs (job NULL), or the memory that `job` adds. */
    weft_gpu_need (*need)(const weft_gpu *gpu, const void *job);

    /* Returns the stream of the job's caller. The batch begins after the work on that stream. `*ordered` false: no such
     * stream. NULL: no job of this kind has one. */
    void *(*stream)(weft_gpu *gpu, const void *job, bool *ordered);

    /* Returns true if an earlier job of the same call waited for the caller's stream, and so came to the device: the
     * batch waits for neither, if no work is late. NULL: no job of this kind has one. */
    bool (*behind)(const void *job);

    /* Returns the job's view of weights, which has no strided runs while the job is on the device (gpu_boxes.h). NULL:
     * no job of this kind has a view. */
    weft_view *(*view)(void *job);

    /* begin puts the first work of slab->jobs on slab->stream. advance is called after all that work, and takes the
     * next step. Both return WEFT_AGAIN while there is work on the stream, and WEFT_OK when every job has its result. A
     * failed job was reported by weft_gpu_job_fail. Any other status means that the whole batch failed. They never
     * wait. */
    weft_status (*begin)(weft_gpu *gpu, weft_gpu_slab *slab);
    weft_status (*advance)(weft_gpu *gpu, weft_gpu_slab *slab);
} weft_gpu_kind;

/* Memory that is taken from front to back. */
typedef struct weft_gpu_room {
    uint8_t *host;    /* address for the host; NULL: device memory */
    uint64_t address; /* address for the device; 0: ordinary memory */
    uint64_t bytes;
    uint64_t used;
} weft_gpu_room;

/* ORDERED: nothing of the batch is on the device yet, because other work must end first: what is on the callers'
 * stream, what is late, and what a device with few queues does before it comes to the slab's stream. LATE: its jobs
 * were given up, and its work is still on the device. LENT: its jobs are done, and the caller reads frames in its
 * pinned memory. QUEUED: it has the rows of a commit on the caller's stream, and no jobs. */
typedef enum weft_gpu_stage {
    WEFT_GPU_FREE,
    WEFT_GPU_FILLING,
    WEFT_GPU_ORDERED,
    WEFT_GPU_RUNNING,
    WEFT_GPU_LATE,
    WEFT_GPU_LENT,
    WEFT_GPU_QUEUED
} weft_gpu_stage;

/* A wait, and how long it took. A long time without a question counts little, because the process may have been
 * stopped, and the device with it. */
typedef struct weft_gpu_wait {
    uint64_t asked_ns;
    uint64_t waited_ns;
} weft_gpu_wait;

struct weft_gpu_slab {
    const weft_gpu_kind *kind;
    void *stream; /* where its work goes */
    weft_gpu_room device;
    weft_gpu_room pinned;
    weft_gpu_room plain;
    void *jobs[WEFT_GPU_JOBS]; /* each begins with its ticket */
    uint32_t count;
    uint32_t lent;    /* jobs whose frames are lent */
    uint32_t follows; /* jobs that were given back for the shadow to follow */
    uint32_t step;    /* the kind's own; 0 at begin */
    void *plan;       /* the kind's own; NULL at begin */
    void *boxed;      /* of gpu_boxes.c; NULL: no job has strided runs */
    /* The fields below are the queue's. */
    weft_status status[WEFT_GPU_JOBS];
    char trouble[256]; /* error text of the first job that failed */
    weft_gpu_stage stage;
    pthread_t owner;
    weft_gpu_need promised;
    weft_gpu_need last; /* what the last job added */
    bool behind;        /* an earlier job waited for that, and for the device */
    bool ordered;       /* the jobs come after the work on `caller` */
    void *caller;
    void *fence; /* mark on the caller's stream */
    bool fenced; /* `fence` was set */
    void *mark;  /* mark after the work on the slab's stream */
    bool marked; /* `mark` was set before the batch's own work */
    weft_gpu_wait wait;
};

/* Memory that was taken for core. */
typedef struct weft_gpu_block {
    struct weft_gpu_block *next;
    void *memory;     /* address of the memory for core */
    uint64_t address; /* address of the memory for the driver; 0: pinned */
    uint64_t bytes;
} weft_gpu_block;

struct weft_gpu {
    const weft_gpu_driver *driver;
    weft_gpu_device *device;
    weft_backend_state *host; /* state of the host backend, for frames in host memory */
    uint64_t budget;          /* bytes of device memory; UINT64_MAX: none was set */
    uint32_t jobs_most;       /* jobs of a slab, at most: WEFT_GPU_JOBS, and less in tests */
    uint64_t patience_ns;     /* longest wait in ns of a job for work on the device */
    uint64_t caller_ns;       /* longest wait in ns for work on a caller's stream */
    uint64_t hang_ns;         /* longest wait in ns for work that cannot be given up */
    pthread_mutex_t mutex;    /* guards the fields below, and the owners of slabs */
    uint32_t late;            /* slabs of stage LATE */
    uint64_t device_bytes;    /* bytes of device memory taken */
    void *streams[WEFT_GPU_STREAMS];
    weft_gpu_block *blocks;
    char troubles[WEFT_GPU_TROUBLES][256];
    uint32_t trouble_count;
    char why_lost[256];
    atomic_bool lost; /* no job is taken any more */
    atomic_bool hung; /* the driver is not called any more, because work on the device does not end */
    weft_gpu_slab slabs[WEFT_GPU_SLABS];
};

/* Returns the stream of a slab's batch. */
static inline void *weft_gpu_stream_of(const weft_gpu *gpu, const weft_gpu_slab *slab, bool urgent)
{
    return gpu->streams[urgent ? WEFT_GPU_STREAMS - 1 : (uint32_t)(slab - gpu->slabs) % (WEFT_GPU_STREAMS - 1)];
}

/* The kinds of job. */
extern const weft_gpu_kind weft_gpu_encode, weft_gpu_survey, weft_gpu_digest;
extern const weft_gpu_kind weft_gpu_decode, weft_gpu_apply, weft_gpu_undo, weft_gpu_load, weft_gpu_store;
/* A batch of encode jobs goes on as this kind, without jobs, once all are given back (gpu_follow.c). */
extern const weft_gpu_kind weft_gpu_follow;

/* For kinds: take the next `bytes` of a slab's room, aligned to WEFT_GPU_ALIGN. There is always room, because the job's
 * need covered it (NULL and 0 otherwise). */
uint64_t weft_gpu_take_device(weft_gpu_slab *slab, uint64_t bytes);
void *weft_gpu_take_pinned(weft_gpu_slab *slab, uint64_t bytes, uint64_t *address); /* `address` may be NULL */
void *weft_gpu_take_plain(weft_gpu_slab *slab, uint64_t bytes);

/* For kinds: ends job `job` of a slab with the error that this thread just decided. */
void weft_gpu_job_fail(weft_gpu_slab *slab, uint32_t job, weft_status status);

/* For kinds: put work on the slab's stream; nothing for 0 blocks or bytes. */
weft_status weft_gpu_launch(weft_gpu *gpu, weft_gpu_slab *slab, enum weft_gpu_kernel kernel, uint32_t blocks,
                            uint64_t rows);
weft_status weft_gpu_copy(weft_gpu *gpu, weft_gpu_slab *slab, uint64_t to, uint64_t from, uint64_t bytes);
weft_status weft_gpu_clear(weft_gpu *gpu, weft_gpu_slab *slab, uint64_t address, uint64_t bytes);

/* Returns the one box of a run's tensor, if the box lies as the tensor does. NULL: the run has an address, or lies in
 * boxes with strides. */
static inline const weft_box *weft_gpu_flat_box(const weft_view *view, const weft_run *run)
{
    if (run->data)
        return NULL;
    const uint64_t *first = &view->boxes->first[run->tensor];
    const weft_box *box = &view->boxes->box[first[0]];
    return first[1] - first[0] == 1 && weft_box_is_flat(box) ? box : NULL;
}

/* Where the elements of a run lie. The run has an address, or lies in one flat box, which has a cast. */
typedef struct weft_gpu_place {
    uint64_t data;
    uint8_t width; /* bytes of an element in memory */
    weft_cast cast;
} weft_gpu_place;

static inline weft_gpu_place weft_gpu_place_of(const weft_view *view, const weft_run *run)
{
    if (run->data)
        return (weft_gpu_place){(uintptr_t)run->data, view->width, WEFT_CAST_NONE};
    const weft_box *box = weft_gpu_flat_box(view, run);
    return (weft_gpu_place){(uintptr_t)box->data + run->element * box->width, box->width, box->cast};
}

/* Returns the caller's stream for a job on `view`. A job on memory that weft took is not ordered: only weft writes
 * there, its progress must not wait for a framework's queue, and the stream may be gone. */
void *weft_gpu_order(weft_gpu *gpu, const weft_view *view, void *stream, bool *ordered);

/* Slots of weft_backend over a driver. Errors of open: the driver's, WEFT_E_MEMORY, WEFT_E_CONFIG (the budget). */
weft_status weft_gpu_open(const weft_gpu_driver *driver, const weft_backend_options *options, weft_gpu **gpu);
void weft_gpu_close(weft_gpu *gpu);
weft_status weft_gpu_memory_take(weft_gpu *gpu, uint64_t bytes, bool pinned, void **memory);
void weft_gpu_memory_give(weft_gpu *gpu, void *memory);
uint64_t weft_gpu_memory_left(weft_gpu *gpu);

/* Returns the most runs of a view for which a slab has room, whatever the job. */
uint64_t weft_gpu_runs(const weft_gpu *gpu);

/* Takes a job, which begins with its ticket. WEFT_AGAIN, or an error. */
weft_status weft_gpu_submit(weft_gpu *gpu, const weft_gpu_kind *kind, void *job);
/* Returns a job's result, once. WEFT_AGAIN if the job is not done, after a pause if nothing moved. */
weft_status weft_gpu_poll(weft_gpu *gpu, void *job);

/* gpu_commit.c: the slots `queue` and `queued`. */
weft_status weft_gpu_commit_queue(weft_gpu *gpu, weft_queued_commit *commit);
weft_status weft_gpu_commit_ask(weft_gpu *gpu, weft_queued_commit *commit);

/* Puts the results of a slab's jobs into their tickets; those that failed share one text. Call with the mutex held. */
void weft_gpu_results_put(weft_gpu *gpu, const weft_gpu_slab *slab);
/* Returns a job's result. WEFT_AGAIN if there is none yet. */
weft_status weft_gpu_result_of(weft_gpu *gpu, const weft_ticket *ticket);

/* Gives back what a job was lent. */
void weft_gpu_give(weft_gpu *gpu, weft_encode_job *job);
/* gpu_encode_lent.c: ends the loan to job `place` of a slab, whose shadow is to follow or not; and puts all that the
 * slab has lent into the sinks. */
void weft_gpu_lent_end(weft_gpu_slab *slab, uint32_t place, bool follow);
void weft_gpu_lent_settle(weft_gpu_slab *slab);
/* gpu_queue.c: frees a slab that has nothing lent any more, after `follow` if some of its jobs want it. */
void weft_gpu_slab_follow(weft_gpu *gpu, weft_gpu_slab *slab);
/* The slots of the same names. */
bool weft_gpu_ready(weft_gpu *gpu);
weft_status weft_gpu_followed(weft_gpu *gpu);

/* Waits until no work is left on a slab's stream, or the device is lost. */
void weft_gpu_quiet(weft_gpu *gpu, weft_gpu_slab *slab);

#endif
