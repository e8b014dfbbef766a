/* bridge.h - updates that are made for peers that are behind: several versions as one, off the path of publish.
 *
 * A thread of lower priority than the others makes them, one at a time, outside the session's lock, which it takes for
 * moments to copy a frame out of the journal. They stand in the same arena as the journal, in a share that publish
 * leaves to them, and nothing is given up for them; publish, when it needs room, takes what nobody reads of theirs and
 * may break off the one under way. Finished ones are shared by all peers that hold their base, kept while they lead to
 * the newest version or somebody needs them, and bounded in number.
 *
 * What `weft_bridge_*` says is under the session's lock but where noted. */
#ifndef WEFT_CORE_BRIDGE_H
#define WEFT_CORE_BRIDGE_H

#include <pthread.h>

#include "bucket/bucket.h"
#include "encode/encode.h"
#include "encode/merge.h"
#include "encode/sizes.h"
#include "peer/peer_state.h"
#include "wire/wire.h"

#define WEFT_BRIDGE_ENTRIES 64u
#define WEFT_BRIDGE_SHARE   WEFT_SIZES_MERGES

typedef enum weft_bridged_state {
    WEFT_BRIDGED_FREE,
    WEFT_BRIDGED_WANTED,
    WEFT_BRIDGED_MAKING,
    WEFT_BRIDGED_READY,
    WEFT_BRIDGED_FAILED /* there was no way to its target: remembered until there is a newer version */
} weft_bridged_state;

/* What brings a snapshot's tiles on to one version, tiles that were read from several. `limits` tells them apart: for
 * each update, found by its order modulo WEFT_JOURNAL_UPDATES, the units from which on they were read from the bits
 * after it, so that it is nothing to them. What has no place in the share is left to another merge, to the same
 * version, from `end` on, which any frame may begin. */
typedef struct weft_catch_up {
    const uint32_t *limits; /* a peer's; NULL: it is an ordinary merge, for whoever has the base */
    uint64_t to;            /* order after which that version stood; 0: the newest when it is begun to be made */
    uint64_t unit, end;     /* units that it is for */
} weft_catch_up;

typedef struct weft_bridged {
    weft_bridged_state state;
    weft_level level;        /* of what is made: fast or tight, or full for a repair */
    uint64_t turn;           /* older wants first */
    weft_update update;      /* from: the base's order; order: the target's */
    weft_wire_repair repair; /* count 0: it is a merge */
    weft_catch_up catch_up;
} weft_bridged;

/* Where a merge stands in the chain of one of its sources. */
typedef struct weft_bridge_source {
    struct weft_bridge *bridge;
    weft_update *update; /* pinned, while `pinned` says so */
    weft_cursor cursor;
    uint32_t run_shift;
    uint64_t unit_limit;
} weft_bridge_source;

typedef struct weft_bridge {
    weft_publisher *publisher;
    pthread_t thread;
    bool running, stopping;
    pthread_cond_t wake; /* with the session's lock: something is wanted, or the end */
    weft_bridged *entries;
    uint64_t turns;
    uint32_t share;          /* blocks of the arena that are left to it */
    uint32_t ahead;          /* blocks that the next updates may take: the thread sees that they have their memory */
    uint64_t expected_ns;    /* when the last one was handed over */
    _Atomic uint32_t blocks; /* that its updates have now */

    /* The work under way; the thread's own but for `broken` and the pins. */
    bool broken;                 /* publish took its sources, or the session ends: it comes to nothing */
    uint32_t limit;              /* of `blocks`, for the work under way */
    const weft_backend *backend; /* host's */
    weft_backend_state *device;
    weft_merger merger;
    weft_bridge_source *sources;
    weft_merge_source *merge_sources;
    uint64_t source_count;
    bool pinned;    /* under the lock: the sources stand in the journal */
    uint8_t *frame; /* one, copied out of the journal */
    struct weft_rebuilder *rebuilder;
    uint64_t paused_ns;
    weft_encoder encoder;           /* of one outlet, on `device` */
    double speed[WEFT_LEVEL_COUNT]; /* estimate: bytes of sources that it merges in a second */
} weft_bridge;

weft_status weft_bridge_open(weft_publisher *publisher);
weft_status weft_bridge_start(weft_bridge *bridge);
/* Ends the thread; not under the lock. */
void weft_bridge_stop(weft_bridge *bridge);
void weft_bridge_close(weft_bridge *bridge);
/* Bytes of memory that it takes beside the arena, if all of it were touched. */
uint64_t weft_bridge_need(const weft_layout *layout);

/* The update from the version after `from` to the newest there was when it was made, at `level`: fast or tight.
 * Errors: WEFT_AGAIN (it is being made: the step is woken), WEFT_E_BUDGET (it cannot be had: single updates or a
 * snapshot must do). */
weft_status weft_bridge_want(weft_bridge *bridge, uint64_t from, weft_level level, weft_update **update);
/* A repair: the units named, as they are after update `order`. NULL: there is no place. The stream that wants it looks
 * at its state. */
weft_bridged *weft_bridge_repair(weft_bridge *bridge, uint64_t order, const weft_wire_repair *repair);
/* A merge for the tiles of a peer's snapshot: the versions after order `from` to the units that lack them, from `unit`
 * on, up to order `to` (catch_up.to). Looked at like a repair. NULL: there is no place now. */
weft_bridged *weft_bridge_catch_up(weft_bridge *bridge, uint64_t from, uint64_t to, uint64_t unit,
                                   const uint32_t *limits);
/* There is a newer version: forgets what leads elsewhere and nobody waits for. */
void weft_bridge_sweep(weft_bridge *bridge);
/* The version of this run and number has this root: what leads to it names that. */
void weft_bridge_amend(weft_bridge *bridge, const weft_version *version);

/* ---- room, for publish */
/* An update was made: the next ones may be as large. */
void weft_bridge_expect(weft_bridge *bridge, const weft_update *update);
/* Blocks that publish leaves to merges: those of the share that they do not have yet. Any thread. */
uint32_t weft_bridge_claim(const weft_bridge *bridge);
/* Gives up a finished update that nobody reads; false: there is none. */
bool weft_bridge_yield(weft_bridge *bridge);
/* Returns true if the entry serves one peer, whose feed waits for the entry. */
bool weft_bridged_is_personal(const weft_bridged *entry);
/* Breaks off the work under way if it reads `update`, which is pinned no longer then. */
void weft_bridge_break(weft_bridge *bridge, const weft_update *update);

/* ---- between bridge.c and bridge_make.c */
/* Gives the entry up, with its frames. */
void weft_bridge_release(weft_bridge *bridge, weft_bridged *entry);
/* Makes what is wanted; leaves the lock meanwhile. */
void weft_bridge_make(weft_bridge *bridge, weft_bridged *entry);

/* ---- bridge_merge.c: on the thread, without the lock */
/* Adds the pinned sources up, at level fast; a catch-up as far as the share reaches. */
weft_status weft_bridge_merge(weft_bridge *bridge, weft_update *update, weft_catch_up *catch_up);
/* The first unit of the longest run that has a catch-up's first: what is said of that may stand in a frame from there
 * on. */
uint64_t weft_bridge_start_of(const weft_bridge *bridge, const weft_catch_up *catch_up);
/* ---- bridge_tight.c: on the thread, without the lock */
/* The same at level tight, from the bits of both ends; no catch-up. */
weft_status weft_bridge_tighten(weft_bridge *bridge, weft_update *update);
/* Appends a frame; errors: WEFT_E_BUDGET (the share is used up). */
weft_status weft_bridge_append(weft_bridge *bridge, weft_update *update, weft_level level, const uint8_t *frame,
                               uint32_t bytes);
/* ---- repair.c: on the thread, without the lock */
weft_status weft_repair_make(weft_bridge *bridge, weft_update *update, const weft_wire_repair *repair);

/* Enters the lock; false, without it, when the work is broken off. */
bool weft_bridge_enter(weft_bridge *bridge);
void weft_bridge_leave(weft_bridge *bridge);
/* Between two stretches of work: lets a publish that encodes now have the processor, for a while. Not after a stretch
 * of less than a few milliseconds. */
weft_status weft_bridge_pause(weft_bridge *bridge);

#endif
