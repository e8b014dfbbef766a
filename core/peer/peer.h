/* peer.h - one rollout as the trainer sees it, and all of them: the parts of each are in the headers of the files that
 * own them. A peer's states are a table of their own (peer_state.h).
 *
 * A feed gives a peer either the journal's updates one after the other, or a snapshot from the shadow. At most
 * WEFT_UPDATES_AHEAD versions are under way beyond the version that the peer holds. */
#ifndef WEFT_CORE_PEER_H
#define WEFT_CORE_PEER_H

#include "peer/feed.h"
#include "peer/flights.h"
#include "peer/follow.h"
#include "peer/greet.h"
#include "peer/peer_level.h"
#include "peer/publisher.h"
#include "peer/rail.h"
#include "peer/receipts.h"
#include "peer/record.h"
#include "peer/send.h"
#include "session/session.h"
#include "wire/watch.h"

/* Peer: the record of one rollout, from its first HELLO until its place is given to another. */
struct weft_peer {
    weft_session *session; /* the trainer's: its lock, site, events and figures */
    weft_peer_state state; /* written by weft_peer_move only */
    weft_site_peer site;   /* its row of the site */
    weft_claim claim;
    weft_connection connection;
    weft_standing standing;
    weft_tuning tuning;
    weft_following following;
    weft_feed feed;
    weft_posting posting;
    weft_flights flights;
    weft_rails rails;
    weft_receipts receipts;
    weft_peer_info info; /* counters and last figures; the other fields are filled in when asked for */
};

#define WEFT_GUESTS 8u /* connections that have not said who they are, at most */

/* Peer table: the records of all peers and guests. The trainer owns it; each step goes through it once. */
struct weft_peer_table {
    weft_peer *list;
    uint32_t count;   /* max_peers and the guests */
    weft_watch watch; /* their control connections, by index */
    bool again;       /* something happened to a peer that this step had passed, so another step is due */
};

/* Trainer: a session that publishes. What it has for its weights is the publisher's, what it has for a peer is in the
 * peer's record; the rest serves all peers. */
struct weft_trainer {
    weft_session *session;
    weft_publisher publisher;
    weft_demand demand;
    weft_buffers buffers;
    weft_outlets outlets;
    weft_peer_table peers;
    weft_door door;
};

/* ---- loss.c: the end of a connection */
/* Closes the connection and all operations on it; the record stays. `status` OK: an orderly goodbye. Who knows a more
 * telling event than a goodbye, a broken protocol or a lost connection has moved the peer before. */
void weft_peer_lose(weft_peer_table *peers, weft_peer *peer, weft_status status, const char *why);
/* A peer is lost: those behind it are lost with it. */
void weft_loss_of_children(weft_peer_table *peers, weft_peer *peer);

/* ---- peer.c: what a peer says */
/* Reads and acts on what the peer said. Errors end the connection: weft_peer_lose. */
weft_status weft_peer_listen(weft_trainer *trainer, weft_peer *peer);
/* Heartbeats and deadlines. */
weft_status weft_peer_check_time(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits);

/* ---- answer.c: digests of versions for a peer that looks for a wrong bit */
weft_status weft_answer(weft_publisher *publisher, weft_peer *peer, const uint8_t *body, uint64_t length);

/* The order after which the version stood; WEFT_ORDER_UNKNOWN: its digests are not kept. */
uint64_t weft_answer_order(weft_publisher *publisher, const weft_version *version);

/* ---- repair.c: units of a peer whose bits are no version */
weft_status weft_repair_ask(weft_publisher *publisher, weft_peer *peer, const uint8_t *body, uint64_t length);

#endif
