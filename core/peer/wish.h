/* wish.h - the versions that a peer gets by name: its caller names a version (WANT), and the peer is brought to exactly
 * that one, by the journal's update, or by one merged update. A version that cannot be had is passed over, with the
 * reason (PASSED). A peer that no update can serve is offered a snapshot, as any peer. That ends at the newest version,
 * so it answers the wish. */
#ifndef WEFT_CORE_WISH_H
#define WEFT_CORE_WISH_H

#include "peer/peer_state.h"
#include "wire/wire.h"

/* Wish: what a peer wants next. The peer's record owns it; a HELLO begins it anew. */
typedef struct weft_wish {
    bool named;        /* the peer gets the versions that it names alone */
    bool open;         /* `number` was named and is neither sent nor passed over */
    uint64_t number;   /* number named last */
    uint64_t since_ns; /* when the peer named it */
} weft_wish;

typedef enum weft_wish_state {
    WEFT_WISH_NONE,    /* nothing is wanted that could be sent now */
    WEFT_WISH_REACHED, /* the peer was sent all that it wants */
    WEFT_WISH_AHEAD,   /* the version is published, and the peer is behind it */
    WEFT_WISH_PASSED,  /* the version cannot be had any more */
    WEFT_WISH_GONE     /* the journal does not tell: a snapshot leads there, or to a later version */
} weft_wish_state;

/* What the journal says of a wish. */
typedef struct weft_wish_answer {
    weft_wish_state state;
    uint64_t order;          /* order of the version, if the state is AHEAD */
    weft_wire_passed passed; /* what to say, if the state is PASSED */
} weft_wish_answer;

/* Takes a WANT. Errors: WEFT_E_PROTOCOL (the peer's HELLO did not say that it names versions), WEFT_E_CORRUPT. */
weft_status weft_wish_take(weft_peer *peer, const uint8_t *body, uint64_t length);
/* Looks a wish up. */
weft_wish_answer weft_wish_look(weft_publisher *publisher, const weft_peer *peer);
/* The peer was sent a version that it did not name, by a snapshot or a repair. A wish for an earlier one is answered by
 * that, and so is not passed over. */
void weft_wish_overtake(weft_wish *wish, const weft_version *version);
/* The peer was sent bits that have no label yet. The newest version brings one, so that is wanted, if no later one is.
 */
void weft_wish_renew(weft_wish *wish, uint64_t newest);
/* Returns true if two peers want the same version, so that one may follow the other. */
bool weft_wish_equal(const weft_wish *a, const weft_wish *b);
/* Tells a peer which version is the newest. Does nothing for a peer that gets each version by itself. */
weft_status weft_wish_offer(const weft_newest *newest, weft_peer *peer);
/* Passes the wish over: tells the peer why, and which versions are near. */
weft_status weft_wish_pass(weft_peer *peer, const weft_wire_passed *passed);

#endif
