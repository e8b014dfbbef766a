/* peer_state.h - the state machine of one peer at the trainer, as a table.
 *
 * A record is `guest` until a HELLO is accepted on it. `weft_peer_move` alone writes peer->state. The code that decides
 * that something happened says which event it is, and cleans up (weft_peer_lose) after it. docs/ARCHITECTURE.md draws
 * the table. */
#ifndef WEFT_CORE_PEER_STATE_H
#define WEFT_CORE_PEER_STATE_H

#include <stdint.h>

#include "weft.h"

typedef struct weft_peer weft_peer;
typedef struct weft_peer_table weft_peer_table;
typedef struct weft_trainer weft_trainer;

/* Parts of a trainer and of a peer that other parts' functions take: each is in the header of its own file. */
typedef struct weft_publisher weft_publisher;
typedef struct weft_newest weft_newest;
typedef struct weft_shadow weft_shadow;
typedef struct weft_standing weft_standing;
typedef struct weft_receipts weft_receipts;
typedef struct weft_claim weft_claim;

#define WEFT_PEER_GUEST  ((weft_peer_state)0) /* nobody yet, and never reported to callers */
#define WEFT_PEER_STATES 5u

typedef enum weft_peer_event {
    WEFT_ON_HELLO,       /* the peer's HELLO was accepted */
    WEFT_ON_REFUSED,     /* the peer's HELLO was refused */
    WEFT_ON_HELD_NEWEST, /* the peer reports the newest version as held, in HELLO or HELD */
    WEFT_ON_HELD_OLDER,  /* the peer holds an older version, or in HELLO none that is known */
    WEFT_ON_PUBLISH,     /* there is a newer version than the peer holds */
    WEFT_ON_OFFERED,     /* the peer was offered a snapshot */
    WEFT_ON_ACCEPTED,    /* the peer takes the snapshot */
    WEFT_ON_FAULT,       /* the peer could not make a version of what it got */
    WEFT_ON_GOODBYE,     /* the peer leaves in good order */
    WEFT_ON_SILENCE,     /* the peer was not heard within its heartbeat */
    WEFT_ON_STALL,       /* no write to the peer moved within io_deadline */
    WEFT_ON_BROKEN,      /* the peer broke the protocol */
    WEFT_ON_CLOSED,      /* the peer's connection or port failed */
    WEFT_ON_EVICTED,     /* the trainer gives the peer up: it lags further than the journal or a snapshot can follow, or
                            holds nothing for long and another wants its place */
    WEFT_ON_REPLACED,    /* the peer came back on another connection, or its name is another's now */
    WEFT_ON_ENDED,       /* the trainer closes */
    WEFT_ON_FORGOTTEN,   /* the record is needed for a newcomer */
    WEFT_PEER_EVENTS
} weft_peer_event;

/* Returns where `event` leads from `state`. UINT32_MAX: the event cannot happen there. */
uint32_t weft_peer_after(weft_peer_state state, weft_peer_event event);
/* Returns the name of an event: "HELLO accepted", "silence" and so on; static. */
const char *weft_peer_event_name(weft_peer_event event);

/* Moves the peer. Errors: WEFT_E_PROTOCOL, with the names, because the event cannot happen in the peer's state. That is
 * a message out of turn, or a fault of this program. The peer stays where it is, and is to be lost. */
weft_status weft_peer_move(weft_peer *peer, weft_peer_event event);

/* Returns how often this process took an event in a state, allowed or not. Tests hold schedules to the whole table. */
uint64_t weft_peer_moves(weft_peer_state state, weft_peer_event event);

#endif
