/* update_pass.h - a pass over the units of a layout: workers go through them in order, group by group.
 *
 * A group is a few runs of units. In each round every worker takes the next group until none is left; then the caller
 * goes through the groups in order. Digests are kept by part, and a part belongs to one unit, so workers never share a
 * word. */
#ifndef WEFT_CORE_UPDATE_PASS_H
#define WEFT_CORE_UPDATE_PASS_H

#include "base/lanes.h"
#include "codec/planes.h"
#include "port/port_backend.h"

#define WEFT_PASS_GROUPS 16u /* groups of one round, at most */
#define WEFT_PASS_LEAST  16u /* units of a group, at least, if the layout has so many */
#define WEFT_PASS_UNITS  (WEFT_PASS_LEAST + (1u << WEFT_RUN_SHIFT_MAX)) /* and at most */
#define WEFT_PASS_TEXT   512u

typedef struct weft_update_group {
    uint64_t unit, end; /* units unit..end - 1 */
    uint8_t *data;      /* room for the largest frame of every unit */
    uint64_t capacity;
    uint64_t used;
    uint64_t first_list; /* number of the first change list of its frames, in staging */
    uint64_t changed;
    weft_status failure;       /* what the first frame that failed ended in, */
    char text[WEFT_PASS_TEXT]; /* and said */
} weft_update_group;

/* The state of one worker. */
typedef struct weft_update_worker {
    weft_backend_state *device;
    weft_packer packer;
    weft_unpacker unpacker;
    weft_changes changes; /* scratch for any frame */
    double diff_ms, encode_ms, digest_ms, decode_ms;
} weft_update_worker;

typedef struct weft_update_pass {
    const weft_layout *layout;
    uint32_t shift; /* shift of the runs that groups are made of */
    const weft_backend *backend;
    weft_lanes lanes;
    weft_update_worker *workers;
    uint8_t *memory;
    uint64_t memory_bytes;
    weft_update_group groups[WEFT_PASS_GROUPS];
    uint32_t group_count; /* groups in a round, at most */
    uint32_t filled;      /* groups in this round */
    uint64_t next_unit;
    /* Works on one group. */
    weft_status (*task)(struct weft_update_pass *pass, weft_update_worker *worker, weft_update_group *group);
    void *user;
} weft_update_pass;

/* Opens a pass. `work` is the public struct, or NULL. Errors: WEFT_E_MEMORY, WEFT_E_SYSTEM, WEFT_E_ARGUMENT. */
weft_status weft_update_pass_open(weft_update_pass *pass, const weft_layout *layout, const weft_work *work);
void weft_update_pass_close(weft_update_pass *pass);

/* Starts over at unit 0, with groups of runs of 2^shift units. */
void weft_update_pass_begin(weft_update_pass *pass, uint32_t shift,
                            weft_status (*task)(weft_update_pass *, weft_update_worker *, weft_update_group *),
                            void *user);
/* Makes the next round's groups, empty; false at the end of the layout. */
bool weft_update_pass_fill(weft_update_pass *pass);
/* Makes a round of one group, of the caller's choice. */
void weft_update_pass_take(weft_update_pass *pass, uint64_t unit, uint32_t units);
/* Runs the task on all groups of the round. */
weft_status weft_update_pass_run(weft_update_pass *pass);

/* ---- update_digest.c */

/* Adds the digests of the parts of units unit..end - 1 to their words, on one worker. */
weft_status weft_update_digest_units(const weft_update_pass *pass, const weft_update_worker *worker,
                                     const weft_binding *binding, uint64_t unit, uint64_t end, uint64_t *parts);
/* Adds every part's digest to its word. */
weft_status weft_update_digest(const weft_layout *layout, const weft_piece *pieces, uint64_t count,
                               const weft_work *work, uint64_t *parts);
#endif
