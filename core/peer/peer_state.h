/* peer_state.h - the state machine of one peer at the trainer, as a table.
 *
 * A record is `guest` until a HELLO is accepted on it. `weft_peer_move` alone writes peer->state: what decides that
 * something happened says which event it is, and cleans up (weft_peer_lose) after it. docs/ARCHITECTURE.md draws it. */
#ifndef WEFT_CORE_PEER_STATE_H
#define WEFT_CORE_PEER_STATE_H

#include <stdint.h>

#include "weft.h"

typedef struct weft_peer weft_peer;
typedef struct weft_trainer weft_trainer;
typedef struct weft_peer_table weft_peer_table;
typedef struct weft_publisher weft_publisher;
typedef struct weft_newest weft_newest;
typedef struct weft_buffers weft_buffers;

#define WEFT_PEER_GUEST  ((weft_peer_state)0) /* nobody yet: never told to callers */
#define WEFT_PEER_STATES 5u

typedef enum weft_peer_event {
    WEFT_ON_HELLO,       /* its HELLO was accepted */
    WEFT_ON_REFUSED,     /* its HELLO was refused */
    WEFT_ON_HELD_NEWEST, /* it says that it holds the newest version, in HELLO or HELD */
    WEFT_ON_HELD_OLDER,  /* it holds an older version, or in HELLO none that is known */
    WEFT_ON_PUBLISH,     /* there is a newer version than what it holds */
    WEFT_ON_OFFERED,     /* it was offered a snapshot */
    WEFT_ON_ACCEPTED,    /* it takes the snapshot */
    WEFT_ON_FAULT,       /* it could not make a version of what it got */
    WEFT_ON_GOODBYE,     /* it leaves in good order */
    WEFT_ON_SILENCE,     /* it was not heard within its heartbeat */
    WEFT_ON_STALL,       /* no write to it moved within io_deadline */
    WEFT_ON_BROKEN,      /* it broke the protocol */
    WEFT_ON_CLOSED,      /* its connection or its port failed */
    WEFT_ON_EVICTED,     /* the trainer gives it up: it lags further than the journal or a snapshot can follow, or holds
                            nothing for long and another wants its place */
    WEFT_ON_REPLACED,    /* it came back on another connection, or its name is another's now */
    WEFT_ON_ENDED,       /* the trainer closes */
    WEFT_ON_FORGOTTEN,   /* its record is needed for a newcomer */
    WEFT_PEER_EVENTS
} weft_peer_event;

/* Where `event` leads from `state`; UINT32_MAX: it cannot happen there. */
uint32_t weft_peer_after(weft_peer_state state, weft_peer_event event);
/* "HELLO accepted", "silence", ...; static. */
const char *weft_peer_event_name(weft_peer_event event);

/* Moves the peer. Errors: WEFT_E_PROTOCOL, with the names, when the event cannot happen in its state: a message out of
 * turn, or a fault of this program; the peer stays where it is and is to be lost. */
weft_status weft_peer_move(weft_peer *peer, weft_peer_event event);

/* How often this process took an event in a state, allowed or not: tests hold schedules to the whole table. */
uint64_t weft_peer_moves(weft_peer_state state, weft_peer_event event);

#endif
