/* host_state.h - the host backend's state and its stages. */
#ifndef WEFT_BACKENDS_HOST_STATE_H
#define WEFT_BACKENDS_HOST_STATE_H

#include <pthread.h>

#include "backends/host/host.h"
#include "backends/host/host_boxes.h"
#include "backends/host/host_kernels.h"
#include "backends/host/tight/host_tight_kernels.h"

/* The largest unit: elements of it, and their bytes. */
#define WEFT_HOST_UNIT_ELEMENTS (1u << 18)
#define WEFT_HOST_UNIT_BYTES    (1u << 20)

/* Classes of changes and their ranks in them, found while the elements are at hand. */
typedef struct weft_host_ranker {
    const weft_host_tight_kernels *tight;
    weft_class_map map;
    uint32_t population[WEFT_CLASS_MAX];
    uint32_t *rank;    /* one for each change */
    uint8_t *class_of; /* and its class */
} weft_host_ranker;

struct weft_backend_state {
    const weft_host_kernels *kernels;
    const weft_host_tight_kernels *tight;
    pthread_mutex_t scratching; /* guards the scratch below: one frame at a time is encoded, or decoded from tight, and
                                   one view with boxes read */
    uint8_t *scratch;           /* one mapping that holds the arrays below */
    weft_changes changes;
    uint32_t *rank;          /* exceptions: place in the change list */
    uint64_t *excess;        /* and magnitude - 2; before they are found two tiles for readers: weft_host_tile */
    uint8_t *rice;           /* tight: Rice parameters of coded magnitudes */
    weft_host_ranker ranker; /* tight */
    uint32_t *class_rank;    /* tight: rank of each change in its class, then a spare list */
    uint32_t *sorted;        /* tight: ranks by class */
    uint32_t *members;       /* tight: the lists, one after the other */
    uint8_t *class_of;       /* tight: class of each change */
};

/* Two tiles for readers of views with boxes, number 0 and 1. Their memory is that of `excess`. */
static inline uint8_t *weft_host_tile(const weft_backend_state *state, unsigned number)
{
    return (uint8_t *)state->excess + (uint64_t)number * WEFT_HOST_TILE_BYTES;
}

/* Locks the scratch for readers of a view; nothing to do if none of its runs lies in boxes. */
static inline void weft_host_tile_lock(weft_backend_state *state, const weft_view *view)
{
    if (view->boxes)
        pthread_mutex_lock(&state->scratching);
}

static inline void weft_host_tile_unlock(weft_backend_state *state, const weft_view *view)
{
    if (view->boxes)
        pthread_mutex_unlock(&state->scratching);
}

/* The kernel set for a name: "auto", or one that must be had. Errors: WEFT_E_MISSING. */
weft_status weft_host_choose(const char *name, const weft_host_kernels **kernels);

/* The probe slot of the table. */
size_t weft_host_probe(weft_device_info *devices, size_t capacity);

/* Lists the elements in which two views of the same units differ, and with a ranker their ranks in the shadow's
 * classes; false if there are more than the list can hold. The scratch is locked if a view has boxes. */
bool weft_host_diff(const weft_backend_state *state, const weft_view *now, const weft_view *shadow,
                    weft_changes *changes, weft_host_ranker *ranker);
/* Adds digest(after) - digest(before) of the listed changes to the tensors' words. */
void weft_host_delta(const weft_host_kernels *kernels, const weft_view *view, const weft_changes *changes,
                     uint64_t *tensor_delta);

/* Writes the job's frame of one level for state->changes, or a full one where that is not larger: of steps in place of
 * levels fast and tight, else of new bits. Several units that cannot be one frame go into job->alone. So does a unit
 * that would be new bits but has no weights (job->now without runs). Nothing is written if the frame does not fit (the
 * sink is full then). */
void weft_host_write_frame(weft_backend_state *state, weft_encode_job *job, weft_level level);

/* The next `bytes` of the sink, NULL (and sink->full) if it has no room or was full before. */
uint8_t *weft_host_sink_take(weft_frame_sink *sink, uint64_t bytes);

/* Reads the elements at the listed positions into changes->before. */
void weft_host_gather(const weft_host_kernels *kernels, const weft_view *base, weft_changes *changes);

/* A payload of `bytes` bytes, for full frames of steps: those of the listed changes, 0 where nothing changed. */
void weft_host_steps_write(const weft_changes *changes, uint8_t width, bool is_float, uint8_t *payload, uint64_t bytes);
/* The way back: lists what such a payload changes in a base, with the bits before and after. */
void weft_host_steps_read(const weft_host_kernels *kernels, const uint8_t *payload, const weft_view *base,
                          uint8_t *tile, weft_changes *changes);

/* Positions and new bits of a pairs frame, proved in order and in range. Errors: WEFT_E_CORRUPT. */
weft_status weft_host_pairs_read(const weft_frame *frame, uint8_t width, weft_changes *changes);

/* Slots of the table. */
weft_status weft_host_survey(weft_backend_state *state, weft_survey_job *job);
weft_status weft_host_decode(weft_backend_state *state, weft_decode_job *job);
weft_status weft_host_merge(weft_backend_state *state, weft_merge_job *job);
weft_status weft_host_drain(weft_backend_state *state, weft_drain_job *job);
weft_status weft_host_invert(weft_backend_state *state, weft_invert_job *job);

/* The first change from `from` on at position `limit` or after. */
static inline uint32_t weft_host_changes_below(const weft_changes *changes, uint32_t from, uint64_t limit)
{
    uint32_t low = from, high = changes->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (changes->position[middle] < limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One past the last change from `from` on that lies in the run of the view. */
static inline uint32_t weft_host_run_end(const weft_view *view, const weft_run *run, const weft_changes *changes,
                                         uint32_t from)
{
    return weft_host_changes_below(changes, from, (uint64_t)weft_run_position(view, run) + run->count);
}

/* Returns the number that leads from a position in the view to the element in the run's tensor (mod 2^64). */
static inline uint64_t weft_host_origin(const weft_view *view, const weft_run *run)
{
    return run->element - weft_run_position(view, run);
}

void weft_host_load(const weft_host_kernels *kernels, const weft_view *view, uint8_t *bytes);
void weft_host_store(const weft_view *view, const uint8_t *bytes);

#endif
