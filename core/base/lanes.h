/* lanes.h - the loop of a team over items: its workers, the lanes, take stretches of items in turn, work on them side
 * by side, and hand on in the order of the items what they made.
 *
 * The first failure in the order of the items is the loop's, and is said on the caller's thread, because lanes log
 * nothing. After a failure no lane takes more. */
#ifndef WEFT_CORE_LANES_H
#define WEFT_CORE_LANES_H

#include "base/team.h"

/* So many stretches a lane may have worked on that are not handed on: one that is late keeps no other from working. */
#define WEFT_LANE_AHEAD 4u

/* A stretch of items that a lane took. */
typedef struct weft_lane_turn {
    uint32_t lane;
    uint32_t place;     /* below weft_lanes.places; no other turn has it until this one is handed on */
    uint32_t waiting;   /* turns of the lane that are not handed on yet, without this one */
    uint64_t from, end; /* its items are from..end - 1 */
} weft_lane_turn;

/* The work of a loop: its items, and the functions of a turn. */
typedef struct weft_lane_work {
    uint64_t count; /* items */
    /* The item after the stretch that begins at `from`; NULL: stretches of one. */
    uint64_t (*stretch)(void *user, uint64_t from);
    /* NULL, or whether the lane has room for the turn; if not, the lane waits until a turn is handed on. Called under
     * the lock of the lanes. A lane of which no turn waits has room. */
    bool (*fits)(void *user, const weft_lane_turn *turn);
    weft_status (*work)(void *user, const weft_lane_turn *turn);
    /* NULL, or takes what was made; from one lane at a time, in order, after work of all turns before succeeded. */
    weft_status (*hand)(void *user, const weft_lane_turn *turn);
    void *user;
    bool heard; /* lanes log where the caller does, so the first failure is not said again */
} weft_lane_work;

typedef struct weft_lanes {
    weft_team team;
    uint32_t count, places;
    struct weft_lane *lanes;
    const weft_lane_work *work;
    struct weft_log_sink *sink;     /* of the caller */
    pthread_mutex_t lock;           /* guards what follows */
    pthread_cond_t moved;           /* turns were handed on */
    struct weft_lane_place *turned; /* a ring: turns whose work is done and that are not handed on, by their number */
    uint64_t next;                  /* item that no lane took */
    uint64_t taken, handed;         /* turns */
    bool handing;                   /* a lane is handing on, and alone owns the fields below */
    bool stopped;                   /* something failed: no lane takes more */
    weft_status status;             /* the first failure, in order */
    char text[512];
} weft_lanes;

/* Starts `count` - 1 threads, because the caller is a lane too. Errors: WEFT_E_MEMORY, WEFT_E_SYSTEM. */
weft_status weft_lanes_open(weft_lanes *lanes, uint32_t count);
void weft_lanes_close(weft_lanes *lanes);
/* Bytes that so many take, their threads aside. */
uint64_t weft_lanes_need(uint32_t count);

/* Runs a loop, in which the calling thread is lane 0; where there is one turn, alone. One caller at a time. Errors: the
 * first in order. */
weft_status weft_lanes_run(weft_lanes *lanes, const weft_lane_work *work);

#endif
