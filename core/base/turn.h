/* turn.h - the calls of a session that are under way, and which of them stand each other.
 *
 * There are things that no lock covers and one call at a time works with: it takes a turn at them. Other calls go
 * beside it and beside each other; they only keep the session open. A call of another process than the one that opened
 * the session touches nothing, not even a lock, since a thread that the process does not have may hold it. */
#ifndef WEFT_CORE_TURN_H
#define WEFT_CORE_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "weft.h"

typedef enum weft_turn_at {
    WEFT_TURN_WEIGHTS, /* and encoder, the caller's window, the end of it all */
    WEFT_TURN_STEPS,   /* the caller's own: what they wait for */
    WEFT_TURN_COUNT
} weft_turn_at;

/* Calls that go beside others. */
typedef enum weft_turn_guest {
    WEFT_TURN_WAIT,
    WEFT_TURN_STAGED,
    WEFT_TURN_PROGRESS,
    WEFT_TURN_EVENTS,
    WEFT_TURN_ATTACHMENT,
    WEFT_TURN_GUESTS
} weft_turn_guest;

typedef struct weft_turn {
    pid_t process;                                /* that opened the session */
    _Atomic(const char *) taken[WEFT_TURN_COUNT]; /* the call whose turn it is; NULL: nobody's */
    _Atomic uint32_t guests[WEFT_TURN_GUESTS];    /* of each call, how many go beside now */
    _Atomic bool closing;                         /* nothing begins any more */
} weft_turn;

void weft_turn_open(weft_turn *turn);

/* Whether this is the process that opened the session, for calls that only look. Errors: WEFT_E_STATE. */
weft_status weft_turn_here(const weft_turn *turn, const char *call);

/* Begins a call, `call` by name, a literal. Errors: WEFT_E_STATE (the text names what is under way). */
weft_status weft_turn_begin(weft_turn *turn, weft_turn_at at, const char *call);
void weft_turn_end(weft_turn *turn, weft_turn_at at);

/* The same for a call that goes beside others. */
weft_status weft_turn_join(weft_turn *turn, weft_turn_guest guest);
void weft_turn_leave(weft_turn *turn, weft_turn_guest guest);
const char *weft_turn_name(weft_turn_guest guest);

/* Begins weft_close, which is the last call and has nothing beside it. */
weft_status weft_turn_close(weft_turn *turn);

#endif
