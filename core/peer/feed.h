/* feed.h - what the files of a peer's stream share: feed.c decides and sends updates, feed_snapshot.c tiles and
 * what overtakes them, feed_bucket.c fills buckets for both. */
#ifndef WEFT_CORE_FEED_H
#define WEFT_CORE_FEED_H

#include "bucket/bucket.h"
#include "peer/bridge.h"
#include "peer/peer_state.h"
#include "wire/wire.h"

typedef enum weft_feed_kind {
    WEFT_FEED_NONE,
    WEFT_FEED_UPDATE,
    WEFT_FEED_OFFERED,
    WEFT_FEED_REPAIR, /* it is being made */
    WEFT_FEED_SNAPSHOT,
    WEFT_FEED_FOLLOWING /* its relay passes on what the relay itself is sent */
} weft_feed_kind;

/* Where a snapshot stands. Tiles are read from the shadow as they are sent, each at the newest version then: a tile
 * lacks what was published since, which weft_peer.limits remembers. */
typedef struct weft_tiles {
    uint64_t unit;  /* first not sent yet */
    uint64_t order; /* after which the last was read: none was read from newer bits */
    uint64_t from;  /* updates up to this order were brought to all tiles before `unit` that lacked them */
    uint64_t
        caught_unit; /* 0, or to the units before it all up to the order `caught` were brought: the others follow */
    uint64_t caught;
    uint64_t end;           /* of the catch-up being sent: units from here on are not in it */
    uint64_t credit;        /* bytes of tiles that go before another catch-up is begun */
    uint32_t failures;      /* of catch-ups, one after the other, for no other's sake */
    uint32_t failed_blocks; /* that other merges had when one failed: none is asked for until they have less; 0: is */
} weft_tiles;

typedef struct weft_feed {
    weft_feed_kind kind;
    weft_update *update; /* being sent, held; NULL: only an attachment, or tiles */
    weft_bridged *made;  /* repair or catch-up that is being made, if its turn is still `made_turn`; NULL: none */
    uint64_t made_turn;
    uint64_t order; /* what it leads to; snapshot: the newest */
    weft_level level;
    weft_cursor cursor; /* in the update */
    bool eager;         /* the update was being encoded when this began */
    weft_tiles tiles;
    weft_blob *attachment; /* to be sent with it; NULL: none */
    uint64_t attachment_sent;
    weft_version alone; /* an update that only brings the attachment: the version it belongs to, as announced */
    uint64_t buckets, frames, frame_bytes;
    uint64_t bytes; /* all of it: headers, frames, trailer */
    uint64_t begun_ns;
} weft_feed;

/* ---- feed.c: what a peer is sent next */
/* Starts, continues and ends streams; fills peer->bucket. WEFT_AGAIN: nothing to send now. */
weft_status weft_feed_next(weft_publisher *publisher, weft_peer *peer);
/* The peer accepted the offer: its snapshot begins. */
weft_status weft_feed_snapshot(weft_publisher *publisher, weft_peer *peer);
weft_status weft_feed_offer(weft_publisher *publisher, weft_peer *peer);
/* Says that none can be had any more: the shadow is lost. */
weft_status weft_feed_no_snapshot(const weft_peer *peer);
/* Whether the journal does not lead from what a peer holds, which joins now, to the newest version. */
bool weft_feed_needs_snapshot(weft_publisher *publisher, const weft_peer *peer);
/* A publish appended `update`: a snapshot under way takes note. */
void weft_feed_follow(weft_peer *peer, const weft_update *update);

/* Ends the peer's stream of an update that comes to nothing: it drops what it has of that, and says so. */
weft_status weft_feed_withdraw(weft_peer_table *peers, weft_peer *peer);
/* ---- feed_state.c: questions that the state of a feed answers by itself */
void weft_feed_end(weft_peer *peer);
/* Whether the peer will go on from the version after `order` when it is sent something next. */
bool weft_feed_stands_at(const weft_peer *peer, uint64_t order);
/* Whether the peer is yet to say that it dropped an update: until then it is sent nothing, since the next one may look
 * the same. */
bool weft_feed_drops(const weft_peer *peer);

/* Tells the peer of a stream and makes peer->feed one of `kind`. `update` NULL: there are no parameters. */
weft_status weft_stream_announce(weft_publisher *publisher, weft_peer *peer, const weft_version *base,
                                 const weft_version *target, weft_blob *attachment, const weft_update *update,
                                 weft_feed_kind kind);
/* Says that all was sent, remembers what the peer must prove to hold, and ends the stream. */
weft_status weft_stream_finish(weft_peer_table *peers, weft_peer *peer, const weft_version *target);

/* ---- feed_snapshot.c */
weft_status weft_stream_next_of_snapshot(weft_publisher *publisher, weft_peer *peer);

/* ---- feed_bucket.c: fills peer->bucket */
void weft_stream_bucket(weft_peer *peer, weft_bucket_kind kind, const weft_version *base, const weft_version *target,
                        uint64_t offset);
/* The bucket is complete: it counts. */
void weft_stream_count(weft_peer *peer);
/* Bytes of payload of the next bucket: chosen when a stream begins, and again as it tells more of the link. */
uint64_t weft_stream_bucket_bytes(weft_peer *peer, weft_level level, uint64_t stream_bytes);
/* The next bucket of a chain, of units below `unit_limit`; the update is read until the bucket's receipt. */
void weft_stream_frames(weft_publisher *publisher, weft_peer *peer, weft_update *update, weft_level level,
                        uint64_t unit_limit);
/* Negative: the peer has its share of them, or there is none; it is woken when one is free. */
int32_t weft_stream_take_slab(const weft_peer_table *peers, weft_peer *peer);
void weft_stream_give_slab(weft_peer *peer, int32_t slab);
/* Whether some of the stream's attachment is still to be sent. */
bool weft_stream_has_attachment(const weft_feed *stream);
/* Its next bucket. WEFT_AGAIN: no slab. */
weft_status weft_stream_attachment(const weft_peer_table *peers, weft_peer *peer, const weft_version *base,
                                   const weft_version *target);
/* Whether the peer lacks the newest version's attachment and was not sent it. */
bool weft_stream_owes_attachment(const weft_newest *newest, const weft_peer *peer);

#endif
