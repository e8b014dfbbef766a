/* bridge.h - updates that are made for peers that lack versions: several versions as one, off the path of publish.
 *
 * A thread of lower priority than the others makes them, one at a time, outside the session's lock. It takes the lock
 * for moments, to copy a frame out of the journal. The updates stand in the same arena as the journal, in a share that
 * publish leaves to them, and nothing is given up for them. When publish needs room, it takes those that nobody reads,
 * and may break off the one under way. All peers that hold the base share a finished update. It is kept while it leads
 * to the newest version or a peer needs it, and there are at most WEFT_BRIDGE_ENTRIES.
 *
 * Functions named weft_bridge_* are called under the session's lock, except where noted. */
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
    WEFT_BRIDGED_FAILED /* there was no way to the target, which is remembered until there is a newer version */
} weft_bridged_state;

/* Catch-up: a merge that brings a snapshot's tiles on to one version, though the tiles were read from several. `limits`
 * tells the tiles apart: it has a unit for each update, by the update's order modulo WEFT_JOURNAL_UPDATES. Tiles from
 * that unit on were read from the bits after the update, which so is nothing new to them. What has no place in the
 * share is left to another merge, to the same version, from `end` on. Any frame may be the end. */
typedef struct weft_catch_up {
    const uint32_t *limits; /* a peer's; NULL: the entry is an ordinary merge, for any peer that has the base */
    uint64_t to;            /* order after which that version stood, also of an ordinary merge; 0: the newest when the
                               making begins */
    uint64_t unit, end;     /* units that the catch-up is for */
} weft_catch_up;

typedef struct weft_bridged {
    weft_bridged_state state;
    weft_level level;        /* level of what is made: fast or tight, or full for a repair */
    uint64_t turn;           /* older wishes come first */
    weft_update update;      /* its `from` is the base's order, its `order` the target's */
    weft_wire_repair repair; /* count 0: the entry is a merge */
    weft_catch_up catch_up;
} weft_bridged;

/* Source: an update that a merge reads, and how far the merge is in its chain. */
typedef struct weft_bridge_source {
    struct weft_bridge *bridge;
    weft_update *update; /* pinned, while weft_bridge.pinned is true */
    weft_cursor cursor;
    uint32_t run_shift;
    uint64_t unit_limit;
} weft_bridge_source;

typedef struct weft_bridge {
    weft_publisher *publisher;
    pthread_t thread;
    bool running, stopping;
    pthread_cond_t wake; /* with the session's lock: something is wanted, or the end came */
    weft_bridged *entries;
    uint64_t turns;
    uint32_t share;          /* blocks of the arena that publish leaves to the bridge */
    uint32_t ahead;          /* blocks that the next updates may take, and that the thread sees to have memory */
    uint64_t expected_ns;    /* when the last update was handed over */
    _Atomic uint32_t blocks; /* blocks that the bridge's updates have now */

    /* The work under way; the thread's own but for `broken` and the pins. */
    bool broken;                 /* publish took the sources, or the session ends, so the work comes to nothing */
    uint32_t limit;              /* most of `blocks`, for the work under way */
    const weft_backend *backend; /* host's */
    weft_backend_state *device;
    weft_merger merger;
    weft_bridge_source *sources;
    weft_merge_source *merge_sources;
    uint64_t source_count;
    bool pinned;    /* under the lock: the sources stand in the journal */
    uint8_t *frame; /* a frame, copied out of the journal */
    struct weft_rebuilder *rebuilder;
    uint64_t paused_ns;
    weft_encoder encoder;           /* with one worker, on `device` */
    double speed[WEFT_LEVEL_COUNT]; /* estimate: bytes of sources that the bridge merges in a second */
} weft_bridge;

weft_status weft_bridge_open(weft_publisher *publisher);
weft_status weft_bridge_start(weft_bridge *bridge);
/* Ends the thread. Not under the lock. */
void weft_bridge_stop(weft_bridge *bridge);
void weft_bridge_close(weft_bridge *bridge);
/* Returns the bytes of memory that the bridge takes beside the arena, if all of them were touched. */
uint64_t weft_bridge_need(const weft_layout *layout);

/* Finds the update from the version after `from` to that of order `to`, at `level`: fast or tight. `to` 0: to the
 * newest there was when it was made. Errors: WEFT_AGAIN, because it is being made, and the step is woken when it is;
 * WEFT_E_BUDGET, because it cannot be had, so single updates or a snapshot must do. */
weft_status weft_bridge_want(weft_bridge *bridge, uint64_t from, uint64_t to, weft_level level, weft_update **update);
/* Asks for a repair: the units named, as they are after update `order`. The feed that wants the repair looks at its
 * state. NULL: there is no place. */
weft_bridged *weft_bridge_repair(weft_bridge *bridge, uint64_t order, const weft_wire_repair *repair);
/* Asks for a merge for the tiles of a peer's snapshot: the versions after order `from` for the units that lack them,
 * from `unit` on, up to order `to` (catch_up.to). The feed looks at its state. NULL: there is no place now. */
weft_bridged *weft_bridge_catch_up(weft_bridge *bridge, uint64_t from, uint64_t to, uint64_t unit,
                                   const uint32_t *limits);
/* After a publish: drops the entries that do not lead to the newest version and that no peer waits for. */
void weft_bridge_sweep(weft_bridge *bridge);
/* Forgets merges that were asked for by name, are not begun, and that nobody names any more. So a peer that names
 * another version in each turn has one queued, and others' come next. */
void weft_bridge_forsake(weft_bridge *bridge);
/* Names the root of a version in all updates that lead there. */
void weft_bridge_amend(weft_bridge *bridge, const weft_version *version);

/* ---- room, for publish */
/* Notes the size of an update, because the next updates may be as large. */
void weft_bridge_expect(weft_bridge *bridge, const weft_update *update);
/* Returns the blocks that publish leaves to merges: those of the share that merges do not have yet. Any thread. */
uint32_t weft_bridge_claim(const weft_bridge *bridge);
/* Gives up a finished update that nobody reads. Returns false if there is none. */
bool weft_bridge_yield(weft_bridge *bridge);
/* Returns true if the entry serves one peer, whose feed waits for the entry. */
bool weft_bridged_is_personal(const weft_bridged *entry);
/* Breaks off the work under way if that work reads `update`, which is no longer pinned after that. */
void weft_bridge_break(weft_bridge *bridge, const weft_update *update);

/* ---- between bridge.c and bridge_make.c */
/* Gives the entry up, with its frames. */
void weft_bridge_release(weft_bridge *bridge, weft_bridged *entry);
/* Makes what is wanted, and leaves the lock meanwhile. */
void weft_bridge_make(weft_bridge *bridge, weft_bridged *entry);

/* ---- bridge_merge.c: on the thread, without the lock */
/* Adds the pinned sources up, at level fast; a catch-up only as far as the share reaches. */
weft_status weft_bridge_merge(weft_bridge *bridge, weft_update *update, weft_catch_up *catch_up);
/* Returns the first unit of the longest run that has a catch-up's first unit, because a frame of a source may begin
 * there. */
uint64_t weft_bridge_start_of(const weft_bridge *bridge, const weft_catch_up *catch_up);
/* ---- bridge_tight.c: on the thread, without the lock */
/* Adds the pinned sources up at level tight, from the bits of both ends. No catch-up. */
weft_status weft_bridge_tighten(weft_bridge *bridge, weft_update *update);
/* Appends a frame. Errors: WEFT_E_BUDGET, because the share is used up. */
weft_status weft_bridge_append(weft_bridge *bridge, weft_update *update, weft_level level, const uint8_t *frame,
                               uint32_t bytes);

/* Enters the lock. Returns false, without the lock, if the work is broken off. */
bool weft_bridge_enter(weft_bridge *bridge);
void weft_bridge_leave(weft_bridge *bridge);
/* Lets a publish that encodes now have the processor for a while, between two stretches of work. Does nothing after a
 * stretch of less than a few milliseconds. */
weft_status weft_bridge_pause(weft_bridge *bridge);

#endif
