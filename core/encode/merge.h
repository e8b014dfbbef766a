/* merge.h - updates that follow each other as one, without a weight.
 *
 * The frames of all updates are walked in the order of units, stretch by stretch: a room is as long as the longest run
 * of any of them, since a run's shift cuts a stretch by place and shorter runs nest in longer ones. What is added up
 * there is written as frames of the merged update, whose bytes are those of a direct encode at the same parameters.
 * Updates of level `fast` merge always, because all their frames are steps.
 *
 * Frames of level `tight` say nothing without their base; nor do mixtures: where an element's steps are known and
 * another's new bits, no frame holds both. */
#ifndef WEFT_CORE_MERGE_H
#define WEFT_CORE_MERGE_H

#include "codec/planes.h"
#include "port/port_backend.h"

/* The frames of one update. */
typedef struct weft_merge_source {
    void *user;
    /* The next frame, if it begins below `unit_limit`, in private memory that stays until the next call; *bytes 0:
     * none. Every frame of the update comes once, in the order of units. */
    weft_status (*next)(void *user, uint64_t unit_limit, const uint8_t **frame, uint64_t *bytes);
    weft_level level;    /* of the update */
    uint32_t run_shift;  /* its parameter */
    uint64_t unit_limit; /* what it says of units from here on is left out; 0: nothing is */
} weft_merge_source;

/* Takes frames of the merged update, back to back, in order. */
typedef weft_status (*weft_merge_emit)(void *user, const uint8_t *frames, uint64_t bytes);

typedef struct weft_merge_pass {
    const weft_merge_source *sources; /* oldest first */
    size_t count;
    weft_level level; /* of the merged update: weft_merge_level */
    uint32_t run_shift;
    weft_merge_emit emit;
    void *user;
    /* NULL, or told in turn up to which unit all is handed on; another status than WEFT_OK ends the pass. */
    weft_status (*moved)(void *user, uint64_t unit);
    uint64_t unit;    /* where to begin, at which a longest run does; what sources have before it was taken from them */
    uint64_t end;     /* out, also after an error: the frames of all units below it were handed on */
    uint64_t changed; /* out: elements coded; where frames are full, all of theirs */
} weft_merge_pass;

typedef struct weft_merger {
    const weft_backend *backend;
    weft_backend_state *device; /* borrowed */
    const weft_layout *layout;
    weft_unpacker unpacker;
    uint32_t shift; /* of the runs that the room has memory for */
    weft_merge_room room;
    weft_frame_sink sink; /* of the runs' frames */
} weft_merger;

/* The level at which updates of these levels can be one without a base: fast if one of them is, else pairs if one of
 * them is, else full. Units of which all new bits are known are full frames at any level, so that only pairs with fast
 * are a mixture. Errors: WEFT_E_ARGUMENT (tight among them). */
weft_status weft_merge_level(const weft_merge_source *sources, size_t count, weft_level *level);
/* The run shift of the merged update: the least among those of level fast, so that it does not matter in which order
 * updates are merged. */
uint32_t weft_merge_shift(const weft_merge_source *sources, size_t count);

/* Takes all memory, for runs of at most 2^shift units. Errors: WEFT_E_MEMORY. */
weft_status weft_merger_open(weft_merger *merger, const weft_backend *backend, weft_backend_state *device,
                             const weft_layout *layout, uint32_t shift);
/* Bytes that it takes, if all of them were touched. */
uint64_t weft_merger_need(const weft_layout *layout, uint32_t shift);
void weft_merger_close(weft_merger *merger);

/* Runs a pass over all units. Errors: WEFT_E_ARGUMENT (the base is needed), WEFT_E_CORRUPT, those of sources, emit and
 * moved. */
weft_status weft_merger_run(weft_merger *merger, weft_merge_pass *pass);

#endif
