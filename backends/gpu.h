/* gpu.h - the device backends' state: jobs are collected in slabs, a slab of jobs goes to the device as one batch.
 *
 * A slab has a stream and room of three sorts, handed out from the front while its batch is put together and all free
 * again when it is done. Two and more slabs are under way at once: one is computed while another's results are copied
 * and a third one's frames are written by the host. What a kind of job does with a slab stands in gpu_KIND.c. */
#ifndef WEFT_BACKENDS_GPU_H
#define WEFT_BACKENDS_GPU_H

#include "backends/gpu_driver.h"
#include "port_backend.h"

#define WEFT_GPU_JOBS  64u /* of a slab; the backends' depth */
#define WEFT_GPU_ALIGN 256u

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

    /* The stream of the job's caller after whose work the batch has to come; `*ordered` false: none. NULL: no job of
     * this kind has one. */
    void *(*stream)(const void *job, bool *ordered);

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

struct weft_gpu_slab {
    const weft_gpu_kind *kind; /* NULL: free */
    void *stream;
    weft_gpu_room device;
    weft_gpu_room pinned;
    weft_gpu_room plain;
    void *jobs[WEFT_GPU_JOBS];
    uint32_t count;
    uint32_t step; /* the kind's own; 0 at begin */
    void *plan;    /* the kind's own; NULL at begin */
    /* The rest is gpu.c's. */
    weft_status status[WEFT_GPU_JOBS];
    void *mark;
    bool launched;
    uint64_t order;    /* of launching */
    uint64_t begun_ns; /* when what is on the stream now was put there */
    char trouble[256]; /* what the first job that failed said */
};

struct weft_gpu {
    const weft_gpu_driver *driver;
    weft_gpu_device *device;
};

/* The kinds. */
extern const weft_gpu_kind weft_gpu_encode, weft_gpu_survey, weft_gpu_digest;
extern const weft_gpu_kind weft_gpu_decode, weft_gpu_apply, weft_gpu_undo, weft_gpu_load, weft_gpu_store;

/* The next `bytes` of a slab's room, aligned to WEFT_GPU_ALIGN. The job's need covered it: there is always room. */
uint64_t weft_gpu_take_device(weft_gpu_slab *slab, uint64_t bytes);
void *weft_gpu_take_pinned(weft_gpu_slab *slab, uint64_t bytes, uint64_t *address); /* address may be NULL */
void *weft_gpu_take_plain(weft_gpu_slab *slab, uint64_t bytes);

/* Ends job number `job` of a slab with an error that was just decided on this thread. */
void weft_gpu_job_fail(weft_gpu_slab *slab, uint32_t job, weft_status status);

/* On the slab's stream. Nothing happens for 0 blocks or bytes. */
weft_status weft_gpu_launch(weft_gpu *gpu, weft_gpu_slab *slab, enum weft_gpu_kernel kernel, uint32_t blocks,
                            uint64_t rows);
weft_status weft_gpu_copy(weft_gpu *gpu, weft_gpu_slab *slab, uint64_t to, uint64_t from, uint64_t bytes);
weft_status weft_gpu_clear(weft_gpu *gpu, weft_gpu_slab *slab, uint64_t address, uint64_t bytes);

#endif
