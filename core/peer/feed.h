/* stream.h - what the files of a peer's stream share: feed.c decides and sends updates, feed_snapshot.c tiles and
 * what overtakes them, feed_bucket.c fills buckets for both. */
#ifndef WEFT_CORE_STREAM_H
#define WEFT_CORE_STREAM_H

#include "peer/peer.h"

/* ---- feed.c */
/* Tells the peer of a stream and makes peer->feed one of `kind`. `update` NULL: there are no parameters. */
weft_status weft_stream_announce(weft_trainer *trainer, weft_peer *peer, const weft_version *base,
                                 const weft_version *target, weft_blob *attachment, const weft_update *update,
                                 weft_feed_kind kind);
/* Says that all was sent, remembers what the peer must prove to hold, and ends the stream. */
weft_status weft_stream_finish(weft_trainer *trainer, weft_peer *peer, const weft_version *target);

/* ---- feed_snapshot.c */
weft_status weft_stream_next_of_snapshot(weft_trainer *trainer, weft_peer *peer);

/* ---- feed_bucket.c: fills peer->bucket */
void weft_stream_bucket(weft_peer *peer, weft_bucket_kind kind, const weft_version *base, const weft_version *target,
                        uint64_t offset);
/* The bucket is complete: it counts. */
void weft_stream_count(weft_peer *peer);
/* Bytes of payload of the next bucket: chosen when a stream begins, and again as it tells more of the link. */
uint64_t weft_stream_bucket_bytes(weft_peer *peer, weft_level level, uint64_t stream_bytes);
/* The next bucket of a chain, of units below `unit_limit`; the update is read until the bucket's receipt. */
void weft_stream_frames(weft_trainer *trainer, weft_peer *peer, weft_update *update, weft_level level,
                        uint64_t unit_limit);
/* Negative: the peer has its share of them, or there is none; it is woken when one is free. */
int32_t weft_stream_take_slab(weft_trainer *trainer, weft_peer *peer);
void weft_stream_give_slab(weft_trainer *trainer, weft_peer *peer, int32_t slab);
/* Whether some of the stream's attachment is still to be sent. */
bool weft_stream_has_attachment(const weft_feed *stream);
/* Its next bucket. WEFT_AGAIN: no slab. */
weft_status weft_stream_attachment(weft_trainer *trainer, weft_peer *peer, const weft_version *base,
                                   const weft_version *target);
/* Whether the peer lacks the newest version's attachment and was not sent it. */
bool weft_stream_owes_attachment(const weft_trainer *trainer, const weft_peer *peer);

#endif
