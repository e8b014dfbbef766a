/* turn.h - the calls of a session that run now, and which of them exclude each other.
 *
 * Some state is covered by no lock, because only one call at a time works with it. Such a call takes a turn. Other
 * calls run beside it and beside each other, and only keep the session open. A call in another process than the
 * opener's is refused before it takes a lock, because a thread that this process does not have may hold that lock. */
#ifndef WEFT_CORE_TURN_H
#define WEFT_CORE_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "weft.h"

typedef enum weft_turn_at {
    WEFT_TURN_WEIGHTS, /* weights, encoder, the caller's pipeline, and the session's end */
    WEFT_TURN_STEPS,   /* the caller's own steps, while the caller waits */
    WEFT_TURN_COUNT
} weft_turn_at;

/* Calls that run beside others. */
typedef enum weft_turn_guest {
    WEFT_TURN_WAIT,
    WEFT_TURN_STAGED,
    WEFT_TURN_OFFERED,
    WEFT_TURN_WANT,
    WEFT_TURN_PROGRESS,
    WEFT_TURN_EVENTS,
    WEFT_TURN_ATTACHMENT,
    WEFT_TURN_GUESTS
} weft_turn_guest;

typedef struct weft_turn {
    pid_t process;                                /* the process that opened the session */
    _Atomic(const char *) taken[WEFT_TURN_COUNT]; /* name of the call that has the turn; NULL: none */
    _Atomic uint32_t guests[WEFT_TURN_GUESTS];    /* number of calls of each kind that run beside others now */
    _Atomic bool closing;                         /* weft_close has begun: no call may begin */
} weft_turn;

void weft_turn_open(weft_turn *turn);

/* Checks that this process opened the session, for calls that only look. Errors: WEFT_E_STATE. */
weft_status weft_turn_here(const weft_turn *turn, const char *call);

/* Begins a call that takes a turn. `call` is its name, a literal. Errors: WEFT_E_STATE (the text names the call in the
 * way). */
weft_status weft_turn_begin(weft_turn *turn, weft_turn_at at, const char *call);
void weft_turn_end(weft_turn *turn, weft_turn_at at);

/* Begins a call that runs beside others. */
weft_status weft_turn_join(weft_turn *turn, weft_turn_guest guest);
void weft_turn_leave(weft_turn *turn, weft_turn_guest guest);
const char *weft_turn_name(weft_turn_guest guest);

/* Begins weft_close, the last call, which no other call may run beside. */
weft_status weft_turn_close(weft_turn *turn);

/* ---- handles that one thread at a time uses, and that have no turns: stores and update files */

/* The thread that is in a call of the handle. Debug builds look: two threads end the process, by name. */
typedef struct weft_alone {
    _Atomic uintptr_t thread; /* 0: none */
} weft_alone;

typedef struct weft_alone_call {
    weft_alone *alone; /* NULL: a call within a call of this thread */
} weft_alone_call;

weft_alone_call weft_alone_begin(const weft_alone *alone, const char *call);
void weft_alone_end(weft_alone_call *begun);

/* The last call, which gives the handle back: no call of this thread either may be under way. */
void weft_alone_last(const weft_alone *alone, const char *call);

#ifdef NDEBUG
#define WEFT_ALONE_LOOKS 0
#else
#define WEFT_ALONE_LOOKS 1
#endif

/* Has the rest of the block be a call of a handle. */
#define WEFT_ALONE(handle, call)                                                                                       \
    __attribute__((unused, cleanup(weft_alone_end))) weft_alone_call alone_##handle =                                  \
        WEFT_ALONE_LOOKS ? weft_alone_begin(&(handle)->alone_in, call) : (weft_alone_call)                             \
    {                                                                                                                  \
        NULL                                                                                                           \
    }

#endif
