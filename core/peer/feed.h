/* feed.h - the feed of one peer: the update or snapshot that the peer is being sent.
 *
 * feed.c decides and sends updates, feed_snapshot.c sends tiles and what overtakes them, and feed_bucket.c fills
 * buckets for both. */
#ifndef WEFT_CORE_FEED_H
#define WEFT_CORE_FEED_H

#include "bucket/bucket.h"
#include "peer/bridge.h"
#include "peer/peer_state.h"
#include "send/send.h"
#include "wire/wire.h"

typedef enum weft_feed_kind {
    WEFT_FEED_NONE,
    WEFT_FEED_UPDATE,
    WEFT_FEED_OFFERED,
    WEFT_FEED_REPAIR, /* a repair that is being made */
    WEFT_FEED_SNAPSHOT,
    WEFT_FEED_FOLLOWING /* the peer's relay passes on what the relay itself is sent */
} weft_feed_kind;

/* Tiles: how far a snapshot is. Tiles are read from the shadow as they are sent, each at the newest version then. So a
 * tile lacks what was published since, and weft_standing.limits remembers from which unit on. */
typedef struct weft_tiles {
    uint64_t unit;        /* first unit that is not sent yet */
    uint64_t order;       /* order after which the last tile was read: no tile was read from newer bits */
    uint64_t from;        /* order up to which all tiles before `unit` were brought, if they lacked it */
    uint64_t caught_unit; /* unit up to which a part of a catch-up has brought the tiles, to `caught`; 0: none has */
    uint64_t caught;
    uint64_t end;           /* first unit that is not in the catch-up being sent */
    uint64_t credit;        /* bytes of tiles that go before another catch-up begins */
    uint32_t failures;      /* catch-ups that failed one after the other, though no other merge held blocks */
    uint32_t failed_blocks; /* blocks that other merges had when one failed, and no catch-up is asked for until they
                               have less; 0: one is */
} weft_tiles;

typedef struct weft_feed {
    weft_feed_kind kind;
    weft_update *update; /* update being sent, held; NULL: only an attachment, or tiles */
    weft_bridged *made;  /* repair or catch-up that is being made, if its turn is still `made_turn`; NULL: none */
    uint64_t made_turn;
    uint64_t order; /* order that the feed leads to; of a snapshot: the newest */
    weft_level level;
    weft_cursor cursor; /* place in the update's chain */
    bool eager;         /* the update was still being encoded when this began */
    weft_tiles tiles;
    weft_blob *attachment; /* attachment to be sent along; NULL: none */
    uint64_t attachment_sent;
    weft_version alone; /* version that an attachment alone belongs to, as announced */
    uint64_t buckets, frames, frame_bytes;
    uint64_t changed; /* changed elements of the frames sent, counted for a view */
    uint64_t bytes;   /* all of it: headers, frames, trailer */
    uint64_t begun_ns;
} weft_feed;

/* ---- feed.c: what a peer is sent next */
/* Fills the peer's posting with its next bucket: begins, continues and ends feeds. Errors: WEFT_AGAIN, because there is
 * nothing to send now. */
weft_status weft_feed_next(weft_publisher *publisher, weft_peer *peer);
/* Sends the peer what can be sent now; says in `waits` what holds the rest up. Errors: the peer is to be lost. */
weft_status weft_feed_pump(weft_publisher *publisher, weft_peer *peer, uint64_t now_ns, weft_waits *waits);
/* Begins the snapshot, because the peer accepted the offer. */
weft_status weft_feed_snapshot(weft_publisher *publisher, weft_peer *peer);
weft_status weft_feed_offer(const weft_newest *newest, const weft_shadow *shadow, weft_peer *peer);
/* Fails, because no snapshot can be had any more: the shadow is lost. */
weft_status weft_feed_no_snapshot(const weft_claim *claim);
/* Returns true if the journal does not lead from what a joining peer holds to the newest version. */
bool weft_feed_needs_snapshot(weft_journal *journal, const weft_newest *newest, const weft_peer *peer);
/* Lets a snapshot under way take note that a publish appended `update`. */
void weft_feed_follow(weft_feed *feed, weft_standing *standing, const weft_update *update);

/* Ends the feed of an update that comes to nothing. The peer drops what it has of that update, and reports so. */
weft_status weft_feed_withdraw(weft_peer_table *peers, weft_peer *peer);
/* Begins an update that the peer's staging holds. */
weft_status weft_feed_begin(weft_publisher *publisher, weft_peer *peer, weft_update *update);
/* Returns true if the peer's staging can hold the whole update, which makes its commit all or nothing. */
bool weft_feed_fits(const weft_peer *peer, const weft_arena *arena, const weft_update *update);
/* Returns the level of a merged update: tight if the peer wants that, because tight takes more of the bridge's time. */
weft_level weft_feed_merged_level(const weft_peer *peer);
/* Returns true if the journal leads from one version to another. */
bool weft_feed_leads(weft_journal *journal, uint64_t from, uint64_t to);
/* Brings a missing attachment to an idle peer that was sent the newest bits. WEFT_AGAIN: none is missing, or the peer
 * is not idle. */
weft_status weft_feed_attachment(weft_publisher *publisher, weft_peer *peer, bool idle);
/* Offers a snapshot, and logs why `update` does not do. NULL: the journal does not lead on. */
weft_status weft_feed_instead(weft_publisher *publisher, weft_peer *peer, const weft_update *update);

/* ---- feed_wish.c */
/* Begins what a peer that names its versions wants next. `idle`: the peer owes no report. WEFT_AGAIN: nothing. */
weft_status weft_feed_wish(weft_publisher *publisher, weft_peer *peer, bool idle);

/* ---- feed_state.c: questions that the state of a feed answers by itself */
void weft_feed_end(weft_feed *feed);
/* Returns true if the peer goes on from the version after `order` when it is sent something next. */
bool weft_feed_stands_at(const weft_feed *feed, const weft_standing *standing, uint64_t order);
/* Returns true if the peer is yet to report that it dropped an update. Until then the peer is sent nothing, because the
 * next update may look the same. */
bool weft_feed_drops(const weft_receipts *receipts);

/* Announces a feed to the peer, and makes peer->feed one of `kind`. `update` NULL: there are no parameters. */
weft_status weft_feed_announce(weft_publisher *publisher, weft_peer *peer, const weft_version *base,
                               const weft_version *target, weft_blob *attachment, const weft_update *update,
                               weft_feed_kind kind);
/* Reports to the peer that all was sent, remembers what the peer must prove to hold, and ends the feed. */
weft_status weft_feed_finish(weft_peer_table *peers, weft_peer *peer, const weft_version *target);

/* ---- feed_snapshot.c */
weft_status weft_feed_next_of_snapshot(weft_publisher *publisher, weft_peer *peer);

/* ---- feed_bucket.c: fills the bucket of a peer's sender */
void weft_feed_bucket(weft_peer *peer, weft_bucket_kind kind, const weft_version *base, const weft_version *target,
                      uint64_t offset);
/* Counts the bucket, because it is complete. */
void weft_feed_count(weft_feed *feed, const weft_posting *posting);
/* Returns the bytes of payload of the next bucket. The size is chosen when a feed begins, and again as the feed shows
 * more of the link. */
uint64_t weft_feed_bucket_bytes(weft_peer *peer, weft_level level, uint64_t stream_bytes);
/* Fills the next bucket of a chain, with units below `unit_limit`. The bucket reads the update until its receipt. */
void weft_feed_frames(weft_publisher *publisher, weft_peer *peer, weft_update *update, weft_level level,
                      uint64_t unit_limit);
/* Takes a slab. Negative: the peer has its share of them, or none is free, and the peer is woken when one is. */
int32_t weft_feed_take_slab(const weft_peer_table *peers, weft_flights *flights);
void weft_feed_give_slab(weft_flights *flights, int32_t slab);
/* Returns true if some of the feed's attachment is still to be sent. */
bool weft_feed_has_attachment(const weft_feed *feed);
/* Fills the next bucket of the attachment. Errors: WEFT_AGAIN, because there is no slab. */
weft_status weft_feed_attach(const weft_peer_table *peers, weft_peer *peer, const weft_version *base,
                             const weft_version *target);
/* Returns true if the peer lacks the newest version's attachment, and was not sent it. */
bool weft_feed_owes_attachment(const weft_newest *newest, const weft_standing *standing);

#endif
