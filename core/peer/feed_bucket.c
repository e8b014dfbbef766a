/* feed_bucket.c - buckets of any stream: their sizes, their slabs, an attachment, frames of the journal. */
#include <string.h>
#include <xxhash.h>

#include "peer/feed.h"
#include "peer/peer.h"

/* Slabs one peer may use at a time: enough to copy, send and acknowledge at once. */
#define SLABS_PER_PEER 4u

/* Buckets from one choice of their size to the next. */
#define SIZE_EVERY 8u

static bool uses_slabs(const weft_peer *peer)
{
    return peer->connection.greeted && (peer->feed.kind == WEFT_FEED_SNAPSHOT || peer->feed.attachment);
}

/* A peer's share of the pool, so that slow ones leave some to the others. */
static uint32_t slab_share(const weft_peer_table *peers, const weft_slabs *slabs)
{
    uint32_t users = 0;
    for (uint32_t i = 0; i < peers->count; i++)
        users += uses_slabs(&peers->list[i]);
    uint32_t share = users ? slabs->count / users : slabs->count;
    return share == 0 ? 1 : share < SLABS_PER_PEER ? share : SLABS_PER_PEER;
}

void weft_stream_bucket(weft_peer *peer, weft_bucket_kind kind, const weft_version *base, const weft_version *target,
                        uint64_t offset)
{
    memset(&peer->posting.bucket.header, 0, sizeof peer->posting.bucket.header);
    peer->posting.bucket.header.kind = kind;
    peer->posting.bucket.header.base = *base;
    peer->posting.bucket.header.target = *target;
    peer->posting.bucket.header.target.root = 0; /* the trailer names it */
    peer->posting.bucket.header.offset = offset;
    peer->posting.update = NULL;
    peer->posting.slab = -1;
}

void weft_stream_count(weft_peer *peer)
{
    weft_feed *stream = &peer->feed;
    const weft_wire_bucket *header = &peer->posting.bucket.header;
    stream->buckets++;
    stream->bytes += WEFT_BUCKET_HEADER_BYTES + header->payload_bytes;
    stream->frames += header->frames;
    if (header->kind == WEFT_BUCKET_FRAMES)
        stream->frame_bytes += header->payload_bytes;
}

/* Whether those who have waited longer take all that is free: who gives one back could have it again at once, and peers
 * would get theirs when those before them have all of their snapshots. */
static bool others_first(const weft_peer_table *peers, const weft_peer *peer)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < peers->count && peer->flights.slabs->free_count > first; i++) {
        const weft_peer *other = &peers->list[i];
        first +=
            other->flights.starved && weft_peer_connected(other) && other->flights.slab_turn < peer->flights.slab_turn;
    }
    return first >= peer->flights.slabs->free_count;
}

int32_t weft_stream_take_slab(const weft_peer_table *peers, weft_peer *peer)
{
    weft_slabs *slabs = peer->flights.slabs;
    if (peer->flights.slabs_used >= slab_share(peers, peer->flights.slabs))
        return -1;
    peer->flights.starved = others_first(peers, peer);
    if (peer->flights.starved)
        return -1;
    peer->flights.slab_turn = ++slabs->turn;
    peer->flights.slabs_used++;
    return (int32_t)slabs->free[--slabs->free_count];
}

void weft_stream_give_slab(weft_peer *peer, int32_t slab)
{
    peer->flights.slabs->free[peer->flights.slabs->free_count++] = (uint32_t)slab;
    peer->flights.slabs_used--;
}

/* Chosen when a stream begins, and again as it tells more of the link. */
uint64_t weft_stream_bucket_bytes(weft_peer *peer, weft_level level, uint64_t stream_bytes)
{
    if (peer->feed.buckets % SIZE_EVERY == 0) {
        weft_estimate_settle(&peer->tuning.estimate);
        peer->info.bucket_bytes =
            weft_bucket_size(&peer->site, &peer->tuning.estimate, level, stream_bytes, peer->claim.hello.slot_payload,
                             peer->info.bucket_bytes, &peer->tuning.bound);
    }
    return peer->info.bucket_bytes;
}

/* What comes behind an update that is not held yet may wait in its slot for an engine, however long: half of the slabs
 * are for those who take theirs at once. */
static bool spares_slabs(const weft_peer *peer)
{
    return peer->receipts.count == 0 || peer->flights.slabs->free_count > peer->flights.slabs->count / 2;
}

weft_status weft_stream_attachment(const weft_peer_table *peers, weft_peer *peer, const weft_version *base,
                                   const weft_version *target)
{
    weft_feed *stream = &peer->feed;
    uint64_t left = stream->attachment->bytes - stream->attachment_sent;
    uint64_t most = peer->flights.slabs->slab_bytes < peer->claim.hello.slot_payload ? peer->flights.slabs->slab_bytes
                                                                                     : peer->claim.hello.slot_payload;
    uint64_t bytes = left < most ? left : most;
    int32_t slab = spares_slabs(peer) ? weft_stream_take_slab(peers, peer) : -1;
    if (slab < 0)
        return WEFT_AGAIN;
    uint8_t *data = weft_slab_at(peer->flights.slabs, slab);
    memcpy(data, stream->attachment->data + stream->attachment_sent, bytes);
    weft_stream_bucket(peer, WEFT_BUCKET_ATTACHMENT, base, target, stream->attachment_sent);
    weft_bucket_wrap(data, bytes, 0, XXH3_64bits(data, bytes), peer->posting.chunk_bytes, &peer->posting.bucket);
    peer->posting.slab = slab;
    stream->attachment_sent += bytes;
    weft_stream_count(peer);
    return WEFT_OK;
}

bool weft_stream_owes_attachment(const weft_newest *newest, const weft_peer *peer)
{
    return newest->attachment && newest->attachment->hash != peer->standing.sent_attachment;
}

bool weft_stream_has_attachment(const weft_feed *stream)
{
    return stream->attachment && stream->attachment_sent < stream->attachment->bytes;
}

/* The next bucket of a chain; the update is read until the bucket's receipt. */
void weft_stream_frames(weft_publisher *publisher, weft_peer *peer, weft_update *update, weft_level level,
                        uint64_t unit_limit)
{
    weft_feed *stream = &peer->feed;
    weft_stream_bucket(peer, WEFT_BUCKET_FRAMES, &update->base, &update->target, stream->frame_bytes);
    weft_bucket_plan(&publisher->journal.arena, &stream->cursor, unit_limit,
                     weft_stream_bucket_bytes(peer, level, weft_eager_bytes(&publisher->eager, update, level)),
                     peer->posting.chunk_bytes, &peer->posting.bucket);
    peer->posting.update = update;
    update->readers++;
    weft_stream_count(peer);
}
