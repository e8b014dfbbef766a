/* peer.h - one rollout as the trainer sees it, and all of them: the parts of each are in the headers of the files that
 * own them. A peer's states are a table of their own (peer_state.h).
 *
 * A feed gives a peer either the journal's updates one after the other, or a snapshot from the shadow. At most
 * WEFT_UPDATES_AHEAD versions are under way beyond the version that the peer holds. */
#ifndef WEFT_CORE_PEER_H
#define WEFT_CORE_PEER_H

#include "peer/claim.h"
#include "peer/feed.h"
#include "peer/follow.h"
#include "peer/peer_level.h"
#include "peer/peer_view.h"
#include "peer/publisher.h"
#include "peer/receipts.h"
#include "peer/record.h"
#include "peer/wish.h"
#include "send/send.h"
#include "session/door.h"
#include "wire/watch.h"

/* Peer: the record of one rollout, from its first HELLO until its place is given to another. */
struct weft_peer {
    weft_session *session;      /* the trainer's: its lock, site, events and figures */
    weft_peer_state state;      /* written by weft_peer_move only */
    weft_site_peer site;        /* its row of the site */
    weft_claim claim;           /* who it is */
    weft_peer_view *view;       /* keys that it takes; NULL: all */
    weft_connection connection; /* how it is heard */
    weft_standing standing;     /* what it holds, and how far it was sent */
    weft_wish wish;             /* which version it wants next, where it names versions */
    weft_tuning tuning;         /* what was measured of it, and at which level it is sent */
    weft_following following;   /* its relay, and the peers that come through it */
    weft_feed feed;             /* what it is being sent */
    weft_sender sender;         /* what it is sent by: its slots, its rails, the bucket that goes now */
    weft_receipts receipts;     /* what it has still to report */
    weft_peer_info info;        /* counters and last figures; the other fields are filled in when asked for */
};

#define WEFT_GUESTS 8u /* connections that have not said who they are, at most */

/* Peer table: the records of all peers and guests. The trainer owns it; each step goes through it once. */
struct weft_peer_table {
    weft_peer *list;
    uint32_t count;   /* max_peers and the guests */
    weft_watch watch; /* their control connections, by index */
    bool again;       /* something happened to a peer that this step had passed, so another step is due */
};

/* Trainer: a session that publishes. The publisher owns the state of the weights, each record a peer's state; the other
 * members serve all peers. */
struct weft_trainer {
    weft_session *session;
    weft_publisher publisher; /* all that is for the weights */
    weft_demand demand;       /* levels that peers want */
    weft_buffers buffers;     /* memory that peers are sent from, beside the journal */
    weft_outlets outlets;     /* fabric addresses */
    weft_peer_table peers;
    weft_door door;        /* where guests come */
    weft_log_limit comers; /* lines about those that said a HELLO of the site's, and are not joined */
    uint64_t told_ns;      /* when lines that were left out were last reported */
};

/* ---- greet.c: the handshake with a rollout that wants to join */
/* Answers a HELLO: the guest joins, as the record `*greeted`, or is sent what it asks for. Errors: the guest is to be
 * refused, for the last error's reason. */
weft_status weft_peer_greet(weft_trainer *trainer, weft_peer *guest, const uint8_t *body, uint64_t length,
                            weft_peer **greeted);
/* Acts on DUCT of a guest: the guest's connection becomes that of the rail which DUCT names, and the guest is gone. */
weft_status weft_peer_duct(weft_peer_table *peers, weft_peer *guest, const uint8_t *body, uint64_t length);

/* ---- loss.c: the end of a connection */
/* Ends the peer's connection and all operations on it; the record stays. `status` OK: an orderly goodbye. The peer
 * moves on a goodbye, a broken protocol or a lost connection. A caller that knows a more telling event moves the peer
 * before. */
void weft_peer_lose(weft_peer_table *peers, weft_peer *peer, weft_status status, const char *why);
/* Loses the peers that come through a relay, because the relay is lost. */
void weft_loss_of_children(weft_peer_table *peers, weft_peer *peer);

/* ---- peer.c: what a peer says */
/* Handles the peer's messages up to one that asks for digests, because digests take long: later messages wait for the
 * peer's next turn. An error ends the connection (weft_peer_lose). */
weft_status weft_peer_listen(weft_trainer *trainer, weft_peer *peer, weft_waits *waits);
/* Checks heartbeats and deadlines, and says in `waits` when to look again. Errors: the peer is to be lost. */
weft_status weft_peer_check_time(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits);

/* ---- answer.c: digests of versions for a peer that looks for a wrong bit */
weft_status weft_answer(weft_publisher *publisher, weft_peer *peer, const uint8_t *body, uint64_t length);

/* Returns the order after which the version stood, by its root in the view. WEFT_ORDER_UNKNOWN: its digests are not
 * kept. */
uint64_t weft_answer_order(weft_publisher *publisher, const weft_peer_view *view, const weft_version *version);

/* ---- repair.c: units of a peer whose bits are no version */
weft_status weft_repair_ask(weft_publisher *publisher, weft_peer *peer, const uint8_t *body, uint64_t length);

#endif
