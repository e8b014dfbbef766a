/* follow.h - peers that come through a relay: which of them take an update from the relay's own stream. */
#ifndef WEFT_CORE_FOLLOW_H
#define WEFT_CORE_FOLLOW_H

#include "peer/feed.h"
#include "peer/receipts.h"

/* Following: a peer's place among relays. The peer's record owns it; a lost relay takes its children along. */
typedef struct weft_following {
    weft_peer *parent;       /* relay that the peer comes through; NULL: none */
    uint32_t children;       /* peers that come through this one */
    bool followed;           /* the update sent last came from the relay's stream */
    uint64_t waits_since_ns; /* since when the peer waits for its relay to begin an update; 0: it does not */
    uint64_t apart_until;    /* order of the update up to which the peer is served alone; 0: it is not */
} weft_following;

/* Finds the relay that a HELLO names. Errors: WEFT_E_SYSTEM, which is not final for the peer. */
weft_status weft_follow_join(weft_peer_table *peers, weft_peer *peer);
/* Takes all peers apart, because the trainer closes: nobody is lost for another. */
void weft_follow_forget(weft_peer_table *peers);
/* Notes that a relay dropped the peer, so the peer is served alone for a while. */
void weft_follow_dropped(const weft_newest *newest, weft_following *following);
/* Returns true if an idle peer's next update is about to come from its relay's stream. */
bool weft_follow_waits(const weft_newest *newest, weft_peer *peer);
/* Returns true if a peer behind the relay, or behind relays after that, is about to want what the relay wants, and
 * could follow then. */
bool weft_follow_gathers(const weft_publisher *publisher, const weft_peer *relay);
/* The peer named a version: the relays before it and the peers behind it choose anew in the next step, and nobody else,
 * because a peer may name versions without end. Returns true if there are any. */
bool weft_follow_wanted(weft_peer_table *peers, const weft_peer *peer);
/* Adds the time until which a relay and the peers behind it wait for each other's wishes. */
void weft_follow_wake(const weft_peer *peer, uint64_t now_ns, weft_waits *waits);
/* Before `relay` is sent the `header` of an update that goes as the feed `sent`: sends that header to those of its
 * peers that take the same update, and tells the relay who they are. The relay's standing is still as before. */
weft_status weft_follow_begin(weft_publisher *publisher, weft_peer *relay, const weft_feed *sent,
                              const weft_update *update, const weft_out *header);
/* After the relay has all of it: so have those who follow. */
void weft_follow_finish(weft_peer_table *peers, weft_peer *relay, const weft_out *trailer,
                        const weft_expected *expected);

#endif
