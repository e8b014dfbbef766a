/* port_backend.h - the table through which core moves elements. Host, CUDA and HIP each fill one.
 *
 * Jobs are asynchronous: an operation returns WEFT_OK when it is complete, WEFT_AGAIN when it was taken and `poll` must
 * be called until it no longer returns WEFT_AGAIN, anything else when it failed and took no effect (apply excepted: see
 * there). The job and all memory that it names are borrowed until then; what it gives back, sums included, is written
 * by the calls of the thread that submitted it and is not looked at before. A thread has at most `depth` jobs with the
 * backend at once, all of one kind, none of which needs what another does, and polls the oldest first. A backend may
 * keep what it takes until it has enough for a batch, or one of them is polled: core submits anew as it polls, so that
 * a depth of two batches keeps one under way while the other is put together. After one has failed the others are
 * polled all the same. The host backend completes inline. One state is used from several threads only for different
 * jobs (publish encodes while the progress thread loads a snapshot).
 *
 * Weights are named by address alone and lie where the backend works (`check`); core reads and writes none of them, nor
 * memory of kinds LISTS and DEVICE. Frames, sinks, dense bytes, digests, surveys and the records of change lists lie in
 * host memory. merge and drain name host memory only.
 *
 * A `stream` is the caller's, NULL the default one: a job reads or writes weights after what was queued on it before,
 * and what is queued on it afterwards comes after the job's last access to the weights (encode: after the pass that
 * finds the changes, not after the coding). Host: nothing to order.
 *
 * WEFT_E_DEVICE: the device is gone, and so will be every job from then on, soon; `close` is still called.
 *
 * No slot is optional: what differs is data (`caps`). */
#ifndef WEFT_CORE_PORT_BACKEND_H
#define WEFT_CORE_PORT_BACKEND_H

#include "codec/classes.h"
#include "codec/frame.h"
#include "codec/survey.h"
#include "layout/layout.h"

#define WEFT_BACKEND_ABI 3u

/* `caps`: memory of kind DEVICE is to be had, and core can read no weights; and whose that is, for who hands it on. */
#define WEFT_BACKEND_DEVICE 1u
#define WEFT_BACKEND_CUDA   2u
#define WEFT_BACKEND_HIP    4u

typedef struct weft_backend_state weft_backend_state;

typedef struct weft_backend_options {
    int device;            /* -1: the current one */
    const char *kernels;   /* "auto" or a kernel set's name ("portable", "avx2", "avx512"); never NULL */
    uint64_t budget_bytes; /* device memory it may take; host: ignored */
} weft_backend_options;

/* What memory is for, which says where it lies. */
typedef enum weft_memory_kind {
    WEFT_MEMORY_LISTS, /* arrays of weft_changes: only jobs touch them */
    WEFT_MEMORY_HOST,  /* views in it go to this backend's jobs and to the host backend's, and core touches them too */
    WEFT_MEMORY_DEVICE /* views in it go to this backend's jobs; load's `bytes` may lie in it. caps: DEVICE */
} weft_memory_kind;

/* How the driver names memory of kind DEVICE to others. */
typedef struct weft_memory_export {
    int device; /* its number */
    int dmabuf; /* descriptor, the caller's to close; -1: the driver exports none */
    uint64_t dmabuf_offset;
} weft_memory_export;

/* Changed elements of one unit or one run of units, in order of position: the product of diff and decode, the food of
 * encode, apply, undo. Arrays of elements have the unit's width, lie in memory of kind LISTS and are aligned to 8
 * bytes; the record itself lies in host memory. */
typedef struct weft_changes {
    uint32_t unit; /* first of them */
    uint32_t units;
    uint32_t count;
    uint32_t capacity;  /* of the arrays */
    uint32_t *position; /* element in the view */
    void *before;       /* old bits */
    void *after;        /* new bits */
} weft_changes;

/* Where frames of one level go, back to back; the backend never writes past `capacity`. */
typedef struct weft_frame_sink {
    uint8_t *data;
    uint64_t capacity;
    uint64_t used;
    bool full; /* a frame did not fit: nothing of it was written */
} weft_frame_sink;

/* encode: compares the weights of one unit, or of one run of units, with the shadow and writes a frame for each wanted
 * level (none if equal). A level that cannot code the run in one frame goes into `alone` with nothing written: its
 * units are to be coded one by one. No frame is larger than largest_frame. Jobs that are with the backend at once have
 * sinks of their own. */
typedef struct weft_encode_job {
    weft_view now;                          /* the weights */
    weft_view shadow;                       /* the bits published last */
    const weft_parameters *parameters;      /* of the update; NULL: the default ones */
    uint32_t largest_frame;                 /* of the layout */
    uint32_t levels;                        /* mask of 1 << weft_level */
    weft_frame_sink *sinks;                 /* WEFT_LEVEL_COUNT of them, used where the mask says so */
    uint64_t *tensor_delta;                 /* one word per part of the layout: digest(now) - digest(shadow) is added */
    void *stream;                           /* the caller's, on which `now` was written */
    uint32_t changed;                       /* out; not set if every level is in `alone` */
    uint32_t alone;                         /* out: mask of levels */
    uint32_t frame_bytes[WEFT_LEVEL_COUNT]; /* out: 0 if none was written */
    double diff_ms;                         /* out: added to */
    double encode_ms;                       /* out: added to */
} weft_encode_job;

/* Whether a payload of a coded level is to be one frame: it is smaller than the dense one, and a run's frame no larger
 * than any of a unit. */
static inline bool weft_encode_fits(const weft_encode_job *job, uint64_t payload_bytes)
{
    return payload_bytes < weft_frame_full_payload(job->now.count, job->now.width) &&
           (job->now.units == 1 || WEFT_FRAME_HEADER_BYTES + payload_bytes <= job->largest_frame);
}

/* decode: turns an admitted frame into changes against `base`, reading but not writing it, and proves every position in
 * range and in order. A `full` frame yields only the elements that differ. */
typedef struct weft_decode_job {
    weft_frame frame;
    weft_view base;                    /* of the frame's units */
    const weft_parameters *parameters; /* of the update, for level tight; NULL: the default ones */
    uint32_t limit;         /* changes at positions from here on are neither listed nor counted; 0: all are */
    weft_changes *changes;  /* arrays lent by the caller: capacity >= frame's changed elements */
    uint64_t *tensor_delta; /* digest(after) - digest(before) is added */
} weft_decode_job;

/* apply: puts `after` in place and keeps in `before` what was really there, so that undo is exact. `mismatch` is set
 * when some element was not `before`: the caller then undoes what it applied. One that failed has done all of this or
 * nothing. */
typedef struct weft_apply_job {
    weft_view target;
    weft_changes *changes;
    void *stream; /* the caller's stream */
    bool mismatch;
} weft_apply_job;

/* undo: puts `before` back. */
typedef struct weft_undo_job {
    weft_view target;
    const weft_changes *changes;
    void *stream;
} weft_undo_job;

/* digest: adds every element's term to the word of its part. */
typedef struct weft_digest_job {
    weft_view view;
    uint64_t *tensor_delta;
} weft_digest_job;

/* load: view -> dense bytes (the payload of a full frame); store: the other way, elements of `bytes` as they are. */
typedef struct weft_load_job {
    weft_view view;
    uint8_t *bytes; /* count * width; in host memory, or of kind DEVICE */
    void *stream;   /* the caller's, on which the view was written */
} weft_load_job;

typedef struct weft_store_job {
    weft_view view;
    const uint8_t *bytes;
    void *stream;
} weft_store_job;

/* survey: counts a sample of one unit's elements for the choice of parameters (codec/chooser.h): `count` elements of
 * every `stride`, from the first on; both are multiples of 64. */
typedef struct weft_survey_job {
    weft_view now;
    weft_view shadow;
    uint32_t count, stride;
    weft_survey *survey; /* counts are added; no unit twice */
    void *stream;        /* the caller's, on which `now` was written */
} weft_survey_job;

/* Where the frames of updates that follow each other are added up: for each element of a run of units what became of
 * it, the sum of its steps or its new bits. All zero says nothing. */
typedef struct weft_merge_room {
    uint8_t *data;     /* aligned to 8 bytes */
    uint64_t capacity; /* at least weft_merge_room_bytes */
    bool absolute;     /* holds new bits somewhere */
} weft_merge_room;

/* A word of `width` bytes an element, and two bits of which there are whole words of 8 bytes. */
static inline uint64_t weft_merge_room_bytes(uint32_t count, uint8_t width)
{
    return ((uint64_t)count * width + 7) / 8 * 8 + 2 * (((uint64_t)count + 63) / 64 * 8);
}

/* merge: adds an admitted frame to a room of `units` units from `unit` on, among which the frame's are. No weight is
 * read; frames of one update before those of the next. After an error the room is of no use. */
typedef struct weft_merge_job {
    const weft_layout *layout;
    uint64_t unit;
    uint32_t units; /* of one stretch */
    weft_frame frame;
    uint32_t kept; /* of the frame's units the first so many count; what it says of the others is left out */
    weft_merge_room *room;
} weft_merge_job;

/* drain: writes the frames, at one level, of what was added up, as encode would write them with the weights at hand,
 * and leaves the room all zero. Of an element either its steps are known or its new bits, and a frame wants one of the
 * two for all that it codes: a unit where that cannot be had ends the job with `needs_base`. */
typedef struct weft_drain_job {
    const weft_layout *layout;
    uint64_t unit;
    uint32_t units;
    weft_merge_room *room;
    weft_level level;      /* any but tight */
    uint32_t run_shift;    /* of the merged update */
    weft_frame_sink *sink; /* has room for the largest frame of every unit */
    uint64_t changed;      /* out: elements coded, added to */
    bool needs_base;       /* out: the unit at `stuck` has no frame; the room stays as it was, to be told all of it */
    uint64_t stuck;
} weft_drain_job;

typedef struct weft_backend {
    uint32_t abi;
    const char *name; /* "host" */
    uint64_t caps;    /* mask of WEFT_BACKEND_* */
    uint32_t depth;   /* jobs of a thread that are worth having with it at once, at least 1; 1: several threads are */
    uint64_t host_bytes; /* of the host's memory that each state takes at open */
    /* One entry per device, or one that says why there is none; returns how many there are. */
    size_t (*probe)(weft_device_info *devices, size_t capacity);
    weft_status (*open)(const weft_backend_options *options, weft_backend_state **state);
    void (*close)(weft_backend_state *state);
    const char *(*kernels)(const weft_backend_state *state); /* the kernel set chosen: "portable" */
    /* Memory for jobs, aligned to 256 bytes, of unknown content; at open and bind only. Errors: WEFT_E_MEMORY with
     * text; WEFT_E_ARGUMENT (a kind that the backend does not have). */
    weft_status (*memory_take)(weft_backend_state *state, uint64_t bytes, weft_memory_kind kind, void **memory);
    void (*memory_give)(weft_backend_state *state, void *memory, uint64_t bytes, weft_memory_kind kind);
    /* Memory of kind DEVICE that was taken so, for an adapter that is to write into it. */
    void (*memory_export)(weft_backend_state *state, const void *memory, uint64_t bytes, weft_memory_export *exported);
    /* What an adapter had written into memory of kind DEVICE when its arrival was polled is what jobs see that are
     * submitted from then on. */
    weft_status (*flush)(weft_backend_state *state);
    /* The most runs that the view of a job may have: as many as any unit can, at least. UINT64_MAX: any number. */
    uint64_t (*runs)(const weft_backend_state *state);
    /* Why weights cannot lie there ("lies in host memory", "lies on device 1, not 0"), as the end of a sentence that
     * begins with the address; NULL: they can. The text stays until the next call. */
    const char *(*check)(weft_backend_state *state, const void *data, uint64_t bytes);
    weft_status (*encode)(weft_backend_state *state, weft_encode_job *job);
    weft_status (*decode)(weft_backend_state *state, weft_decode_job *job);
    weft_status (*survey)(weft_backend_state *state, weft_survey_job *job);
    weft_status (*apply)(weft_backend_state *state, weft_apply_job *job);
    weft_status (*undo)(weft_backend_state *state, weft_undo_job *job);
    weft_status (*digest)(weft_backend_state *state, weft_digest_job *job);
    weft_status (*load)(weft_backend_state *state, weft_load_job *job);
    weft_status (*store)(weft_backend_state *state, weft_store_job *job);
    weft_status (*merge)(weft_backend_state *state, weft_merge_job *job);
    weft_status (*drain)(weft_backend_state *state, weft_drain_job *job);
    weft_status (*poll)(weft_backend_state *state, void *job);
} weft_backend;

/* Waits for a job that was taken: `status` is what its operation returned. */
static inline weft_status weft_backend_wait(const weft_backend *backend, weft_backend_state *state, weft_status status,
                                            void *job)
{
    while (status == WEFT_AGAIN)
        status = backend->poll(state, job);
    return status;
}

/* registry.c: finds a backend's table by name; "auto" is that of the device which the calling thread's process works
 * with by other means than weft, else host. NULL: no such backend. */
const weft_backend *weft_backend_find(const char *name);
/* Walks the tables: index from 0, NULL past the last. */
const weft_backend *weft_backend_at(size_t index);
/* A table from outside, found before that of its name; NULL takes it away. While no session is open. */
void weft_backend_lend(const weft_backend *backend);

#endif
