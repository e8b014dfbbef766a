/* port_backend.h - the table through which core moves elements. Host, CUDA and HIP each fill one.
 *
 * Jobs are asynchronous. An operation returns WEFT_OK if it is complete, WEFT_AGAIN if it was taken, and an error if it
 * failed without effect (apply excepted: see there). A job that was taken is polled until `poll` returns anything but
 * WEFT_AGAIN. Until then the job and all memory that it names are borrowed. Its results, sums included, are written by
 * calls of the thread that submitted it, and must not be read before.
 *
 * A thread has at most `depth` jobs with the backend at once. All are of one kind, and none needs what another does.
 * The thread polls the oldest first. A backend may collect jobs until it has enough for a batch, or until one is
 * polled. Core submits again as it polls, so a depth of two batches keeps one under way while the other is put
 * together. After one job failed the others are still polled. The host backend completes inline. Several threads may
 * use one state for different jobs, because publish encodes while the progress thread loads a snapshot.
 *
 * Weights are named by address, or by boxes where `caps` says so, and lie where the backend works (`check`). Core reads
 * and writes neither weights nor memory of the kinds LISTS and DEVICE. Frames, sinks, dense bytes, digests, surveys and
 * the records of change lists lie in host memory. merge, drain and invert name host memory only.
 *
 * A `stream` is the caller's; NULL is the default one. A job reads or writes weights after the work queued on the
 * stream before it. Work queued afterwards comes after the job's last access to the weights. For encode that is the
 * pass that finds the changes, not the coding. The host has nothing to order.
 *
 * WEFT_E_DEVICE: the device is gone, and soon every later job fails too; `close` is still called. No slot is optional,
 * because differences are data (`caps`). */
#ifndef WEFT_CORE_PORT_BACKEND_H
#define WEFT_CORE_PORT_BACKEND_H

#include "codec/classes.h"
#include "codec/frame.h"
#include "codec/survey.h"
#include "layout/layout.h"
#include "port/port_names.h"

#define WEFT_BACKEND_ABI 9u

/* `caps`: the backend has memory of kind DEVICE, and core cannot read weights. The bit also says whose memory that is,
 * to those that hand it on. */
#define WEFT_BACKEND_DEVICE 1u
#define WEFT_BACKEND_CUDA   2u
#define WEFT_BACKEND_HIP    4u

typedef struct weft_backend_state weft_backend_state;

typedef struct weft_backend_options {
    int device;            /* number of the device; -1: the current one */
    const char *kernels;   /* name of a kernel set ("portable", "avx2", "avx512") or "auto"; never NULL */
    uint64_t budget_bytes; /* bytes of device memory that the backend may take; host: ignored */
    uint64_t late_ms;      /* longest wait of a job for other work on the device; 0: the usual; host: ignored */
} weft_backend_options;

/* The use of memory, which decides where it lies. */
typedef enum weft_memory_kind {
    WEFT_MEMORY_LISTS, /* arrays of weft_changes, which only jobs touch */
    WEFT_MEMORY_HOST,  /* views for jobs of this backend and of the host's; core touches them too */
    WEFT_MEMORY_DEVICE /* views for jobs of this backend, and `bytes` of load; caps: DEVICE */
} weft_memory_kind;

/* Changed elements of one unit or one run of units, in order of position. diff and decode make them; encode, apply and
 * undo take them. The arrays have elements of the unit's width, lie in memory of kind LISTS and are aligned to 8 bytes.
 * The record itself lies in host memory. */
typedef struct weft_changes {
    uint32_t unit; /* first unit */
    uint32_t units;
    uint32_t count;
    uint32_t capacity;  /* elements that each array has room for */
    uint32_t *position; /* positions of the elements in the view */
    void *before;       /* old bits */
    void *after;        /* new bits */
} weft_changes;

/* The first member of every job that can be taken. It is the backend's while it has the job, which so needs no table of
 * the jobs that it has. */
typedef struct weft_ticket {
    weft_status status; /* the job's, once it is done */
    uint32_t batch, place;
    uint32_t trouble; /* number of the job's error text */
} weft_ticket;

/* The destination of frames of one level, in a row; the backend never writes past `capacity`. */
typedef struct weft_frame_sink {
    uint8_t *data;
    uint64_t capacity;
    uint64_t used;
    bool full; /* a frame did not fit, and no byte of it was written */
} weft_frame_sink;

/* encode: compares the weights of a unit, or of a run of units, with the shadow, and writes one frame for each wanted
 * level, or none if they are equal. A level that cannot code the run as one frame goes into `alone` with nothing
 * written, and the caller codes its units one by one. No frame is larger than largest_frame. Jobs that are with the
 * backend at once have separate sinks.
 *
 * A frame may be lent: the caller reads it where the backend made it. The job and its sinks then stay borrowed until
 * `give`. Each submit of the thread may put what is lent into its sink, because the backend needs the place.
 *
 * The shadow may follow. While a frame is lent the backend may still have the lists of its changes. A caller that has
 * handed the frame on then sets `follow`, and `give` begins to put the new bits into the shadow. No other job may read
 * or write the shadow of those units until `followed` has returned. So no job follows of which a level goes alone. */
typedef struct weft_encode_job {
    weft_ticket ticket;
    weft_view now;                     /* the weights */
    weft_view shadow;                  /* the bits published last */
    const weft_parameters *parameters; /* parameters of the update; NULL: the default ones */
    uint32_t largest_frame;            /* bytes of the layout's largest frame */
    uint32_t levels;                   /* mask of 1 << weft_level */
    uint32_t expected;                 /* elements that a sample expects to be changed; 0: not known */
    weft_frame_sink *sinks;            /* WEFT_LEVEL_COUNT sinks, used for the levels in the mask */
    uint64_t *tensor_delta;            /* one word for each part of the layout: digest(now) - digest(shadow) is added */
    void *stream;                      /* the caller's stream, on which `now` was written */
    bool behind;                       /* an earlier job of the call waited for what was on `stream` before */
    bool lend;                         /* frames may be lent; then the job is borrowed until `give` */
    bool follow;                       /* read by `give`: the shadow is to take the new bits; only with `follows` */
    bool follows;                      /* out: the shadow can; false as soon as the frame is not lent any more */
    const uint8_t *lent[WEFT_LEVEL_COUNT];  /* out: frames that are lent; NULL: in the sink, or none */
    uint32_t changed;                       /* out: changed elements; not set if every level is in `alone` */
    uint32_t alone;                         /* out: mask of levels */
    uint32_t frame_bytes[WEFT_LEVEL_COUNT]; /* out: bytes of each frame; 0: none was written */
    double diff_ms;                         /* out: time in ms, added */
    double encode_ms;                       /* out: time in ms, added */
} weft_encode_job;

/* True if a payload of a coded level may be one frame: it is smaller than the dense payload, and a run's frame is no
 * larger than the largest of a unit. */
static inline bool weft_encode_fits(const weft_encode_job *job, uint64_t payload_bytes)
{
    return payload_bytes < weft_frame_full_payload(job->now.count, job->now.width) &&
           (job->now.units == 1 || WEFT_FRAME_HEADER_BYTES + payload_bytes <= job->largest_frame);
}

/* decode: turns an admitted frame into changes against `base`, which is only read, and proves that every position is in
 * range and in order. A `full` frame, of new bits or of steps, yields only the elements that differ. */
typedef struct weft_decode_job {
    weft_ticket ticket;
    weft_frame frame;
    weft_view base;                    /* weights of the frame's units */
    const weft_parameters *parameters; /* parameters of the update, for level tight; NULL: the default ones */
    uint32_t limit;                    /* first position whose changes are neither listed nor counted; 0: all are */
    weft_changes *changes;             /* the caller's arrays, with capacity for the frame's changed elements */
    uint64_t *tensor_delta;            /* one word for each part: digest(after) - digest(before) is added */
} weft_decode_job;

/* apply: writes `after` and keeps in `before` the bits that were really there, so that undo is exact. `mismatch` is set
 * if an element was not `before`; the caller then undoes what it applied. A job that fails has done all or nothing. */
typedef struct weft_apply_job {
    weft_ticket ticket;
    weft_view target;
    weft_changes *changes;
    void *stream; /* the caller's stream */
    bool mismatch;
} weft_apply_job;

/* undo: writes `before` back. */
typedef struct weft_undo_job {
    weft_ticket ticket;
    weft_view target;
    const weft_changes *changes;
    void *stream;
} weft_undo_job;

/* queue: puts a commit on the caller's stream and returns, before any of that is done. The device compares the weights
 * with `before` of all lists. If all are equal it puts all lists in place, as apply does; if not, none. The lists stay
 * until `queued` has a result, no other job touches them or the weights, and there is one commit at a time. */
typedef struct weft_queued_commit {
    uint64_t count;                                               /* lists, at least 1 */
    void (*fill)(void *user, uint64_t list, weft_apply_job *job); /* gives target and changes of a list */
    void *user;
    void *stream;     /* the caller's stream */
    uint32_t place;   /* the backend's */
    bool written;     /* out of `queued`: the lists are in place, and undo takes them back */
    uint64_t altered; /* out of `queued`: the first list that met other bits than `before`; UINT64_MAX: none */
} weft_queued_commit;

/* digest: adds every element's term to its part's word. */
typedef struct weft_digest_job {
    weft_ticket ticket;
    weft_view view;
    uint64_t *tensor_delta;
} weft_digest_job;

/* load: copies a view to dense bytes, the payload of a full frame. store: copies dense bytes to the view unchanged. */
typedef struct weft_load_job {
    weft_ticket ticket;
    weft_view view;
    uint8_t *bytes; /* count * width bytes, in host memory or memory of kind DEVICE */
    void *stream;   /* the caller's stream, on which the view was written */
} weft_load_job;

typedef struct weft_store_job {
    weft_ticket ticket;
    weft_view view;
    const uint8_t *bytes;
    void *stream;
} weft_store_job;

/* survey: counts a sample of one unit's elements, from which parameters are chosen (codec/chooser.h). The sample is
 * `count` elements of every `stride`, from the first on; both are multiples of 64. */
typedef struct weft_survey_job {
    weft_ticket ticket;
    weft_view now;
    weft_view shadow;
    uint32_t count, stride;
    weft_survey *survey; /* counts, to which the sample's are added; no unit twice */
    void *stream;        /* the caller's stream, on which `now` was written */
} weft_survey_job;

/* The room in which frames of successive updates are added up. For each element of a run of units it holds the sum of
 * the element's steps, or its new bits. All zero means unchanged. */
typedef struct weft_merge_room {
    uint8_t *data;     /* bytes, aligned to 8 */
    uint64_t capacity; /* bytes of room, at least weft_merge_room_bytes */
    bool absolute;     /* some element has its new bits */
} weft_merge_room;

/* Returns the bytes for `count` elements: a word of `width` bytes for each, and two bits in whole words of 8 bytes. */
static inline uint64_t weft_merge_room_bytes(uint32_t count, uint8_t width)
{
    return ((uint64_t)count * width + 7) / 8 * 8 + 2 * (((uint64_t)count + 63) / 64 * 8);
}

/* merge: adds an admitted frame to a room of `units` units from `unit` on, which has all units of the frame. No weight
 * is read. Frames of one update come before those of the next. After an error the room is of no use. */
typedef struct weft_merge_job {
    const weft_layout *layout;
    uint64_t unit;
    uint32_t units; /* units of the room, of one stretch */
    weft_frame frame;
    uint32_t kept; /* number of the frame's units that count; changes of later units are left out */
    weft_merge_room *room;
} weft_merge_job;

/* drain: writes the added-up frames at one level, as encode would write them from the weights, and clears the room. For
 * an element either the steps are known or the new bits, and a frame needs the same of the two for all that it codes. A
 * unit without such a frame ends the job with `needs_base`. Steps alone always have a frame. */
typedef struct weft_drain_job {
    const weft_layout *layout;
    uint64_t unit;
    uint32_t units;
    weft_merge_room *room;
    weft_level level;      /* level of the frames, any but tight */
    uint32_t run_shift;    /* run_shift of the merged update */
    weft_frame_sink *sink; /* sink, with room for the largest frame of every unit */
    uint64_t changed;      /* out: coded elements, added */
    bool needs_base;       /* out: the unit at `stuck` has no frame; the room stays as it was */
    uint64_t stuck;
} weft_drain_job;

/* invert: writes the frame that leads back, with each step as its opposite. The frame has as many bytes, and is the
 * very one that encode makes with both ends exchanged. No weight is read. A frame of level tight, or of new bits, has
 * no opposite without its base: WEFT_E_ARGUMENT. A job that fails writes no header. */
typedef struct weft_invert_job {
    const weft_layout *layout;
    weft_frame frame;
    uint8_t *bytes; /* out: header and payload; other memory than the frame's */
} weft_invert_job;

typedef struct weft_backend {
    uint32_t abi;
    const char *name;      /* "host" */
    uint64_t caps;         /* mask of WEFT_BACKEND_* */
    uint32_t depth;        /* jobs of a thread that pay off at once, at least 1; 1: several threads pay off instead */
    uint64_t host_bytes;   /* bytes of host memory that each state takes at open */
    uint64_t device_bytes; /* bytes of device memory that a state takes at open, and half of its budget at most */
    /* Writes one entry for each device, or one that says why there is none. Returns the number of entries. */
    size_t (*probe)(weft_device_info *devices, size_t capacity);
    weft_status (*open)(const weft_backend_options *options, weft_backend_state **state);
    void (*close)(weft_backend_state *state);
    const char *(*kernels)(const weft_backend_state *state); /* name of the chosen kernel set: "portable" */
    /* Takes memory for jobs, aligned to 256 bytes and not cleared; at open and bind only. Errors: WEFT_E_MEMORY with a
     * text; WEFT_E_ARGUMENT (the backend has no such kind). */
    weft_status (*memory_take)(weft_backend_state *state, uint64_t bytes, weft_memory_kind kind, void **memory);
    void (*memory_give)(weft_backend_state *state, void *memory, uint64_t bytes, weft_memory_kind kind);
    /* Returns how many bytes of device memory can be taken now: what is free on the device, within the budget. Host: 0.
     */
    uint64_t (*memory_left)(weft_backend_state *state);
    /* Waits until no job that was given up reads memory any more, at most late_ms. NULL: none is given up. Errors:
     * WEFT_E_TIMEOUT, WEFT_E_DEVICE. */
    weft_status (*rest)(weft_backend_state *state);
    /* Puts a commit on the caller's stream. NULL: the backend has no streams, and apply is all. Errors, after which
     * nothing is done: WEFT_E_BUDGET (without a log line: the rows of so many lists have no room; apply can do it),
     * WEFT_E_ARGUMENT (the stream), WEFT_E_TIMEOUT, WEFT_E_MEMORY (a launch had none). WEFT_E_DEVICE: no one knows. */
    weft_status (*queue)(weft_backend_state *state, weft_queued_commit *commit);
    /* Returns WEFT_AGAIN, after a pause, until the device has done the commit. Errors: WEFT_E_DEVICE, and no others. */
    weft_status (*queued)(weft_backend_state *state, weft_queued_commit *commit);
    /* Returns the most runs that the view of a job may have, at least as many as any unit. UINT64_MAX: any number. */
    uint64_t (*runs)(const weft_backend_state *state);
    /* Says why weights cannot lie there ("lies in host memory", "lies on device 1, not 0"), as the end of a sentence
     * that begins with the address. NULL: they can. The text stays until the next call. */
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
    weft_status (*invert)(weft_backend_state *state, weft_invert_job *job);
    weft_status (*poll)(weft_backend_state *state, void *job);
    /* Gives back what a done encode job was lent, if anything. */
    void (*give)(weft_backend_state *state, weft_encode_job *job);
    /* Returns true if the thread can submit another job like its last without a wait, and without the end of a loan.
     * NULL: always. */
    bool (*ready)(weft_backend_state *state);
    /* Waits until the shadow has all that the thread's jobs were given back for. NULL: no job ever `follows`. Errors:
     * WEFT_E_DEVICE, and no one knows what the shadow has. */
    weft_status (*followed)(weft_backend_state *state);
    /* Makes the device current to the thread until `release`, because each call does so for itself otherwise. Calls may
     * be nested. NULL, both: no thread has a device. */
    void (*hold)(weft_backend_state *state);
    void (*release)(weft_backend_state *state);
} weft_backend;

static inline void weft_backend_hold(const weft_backend *backend, weft_backend_state *state)
{
    if (backend->hold)
        backend->hold(state);
}

static inline void weft_backend_release(const weft_backend *backend, weft_backend_state *state)
{
    if (backend->release)
        backend->release(state);
}

/* Waits for a job. `status` is the return value of its operation. */
static inline weft_status weft_backend_wait(const weft_backend *backend, weft_backend_state *state, weft_status status,
                                            void *job)
{
    while (status == WEFT_AGAIN)
        status = backend->poll(state, job);
    return status;
}

#define WEFT_BACKEND_DECLARE(name, symbol) extern const weft_backend weft_backend_##symbol;
WEFT_EACH_BACKEND(WEFT_BACKEND_DECLARE, WEFT_BACKEND_DECLARE)

/* Finds a backend's table by name (registry.c). "auto" is the table of the device that the calling thread's process
 * already uses by other means than weft, else host. NULL: no such backend. */
const weft_backend *weft_backend_find(const char *name);
/* Returns the table at `index`, from 0; NULL past the last. */
const weft_backend *weft_backend_at(size_t index);
/* Lends a table, which is found before the built-in one of its name; NULL ends the loan. Only while no session is open.
 */
void weft_backend_lend(const weft_backend *backend);

#endif
