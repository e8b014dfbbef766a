/* feed_bucket.c - fills buckets of any feed: their sizes, their slabs, an attachment, frames of the journal. */
#include <string.h>
#include <xxhash.h>

#include "peer/feed.h"
#include "peer/peer.h"

/* Slabs that one peer may use at a time: enough to copy, send and acknowledge at once. */
#define SLABS_PER_PEER 4u

/* Buckets from one choice of their size to the next. */
#define SIZE_EVERY 8u

static bool uses_slabs(const weft_peer *peer)
{
    return peer->connection.greeted && (peer->feed.kind == WEFT_FEED_SNAPSHOT || peer->feed.attachment);
}

/* Returns a peer's share of the pool, which leaves some to the others if a peer is slow. */
static uint32_t slab_share(const weft_peer_table *peers, const weft_slabs *slabs)
{
    uint32_t users = 0;
    for (uint32_t i = 0; i < peers->count; i++)
        users += uses_slabs(&peers->list[i]);
    uint32_t share = users ? slabs->count / users : slabs->count;
    return share == 0 ? 1 : share < SLABS_PER_PEER ? share : SLABS_PER_PEER;
}

void weft_feed_bucket(weft_peer *peer, weft_bucket_kind kind, const weft_version *base, const weft_version *target,
                      uint64_t offset)
{
    weft_posting *posting = &peer->sender.posting;
    weft_wire_bucket *header = &posting->bucket.header;
    *header = (weft_wire_bucket){
        .kind = kind, .base = *base, .target = *target, .offset = offset, .incarnation = peer->session->incarnation};
    header->target.root = 0; /* the trailer names it */
    memcpy(header->layout, weft_peer_view_layout(peer->view, peer->session)->hash, sizeof header->layout);
    posting->update = NULL;
    posting->slab = -1;
}

void weft_feed_count(weft_feed *feed, const weft_posting *posting)
{
    const weft_wire_bucket *header = &posting->bucket.header;
    feed->buckets++;
    feed->bytes += WEFT_BUCKET_HEADER_BYTES + header->payload_bytes;
    feed->frames += header->frames;
    if (header->kind == WEFT_BUCKET_FRAMES)
        feed->frame_bytes += header->payload_bytes;
}

/* Returns true if peers that have waited longer take all that is free. Otherwise a peer that gives a slab back could
 * have it again at once. The others would then wait until that peer has all of its snapshot. */
static bool others_first(const weft_peer_table *peers, const weft_flights *flights)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < peers->count && flights->slabs->free_count > first; i++) {
        const weft_peer *other = &peers->list[i];
        first += other->sender.flights.starved && weft_peer_connected(other) &&
                 other->sender.flights.slab_turn < flights->slab_turn;
    }
    return first >= flights->slabs->free_count;
}

int32_t weft_feed_take_slab(const weft_peer_table *peers, weft_flights *flights)
{
    weft_slabs *slabs = flights->slabs;
    if (flights->slabs_used >= slab_share(peers, flights->slabs))
        return -1;
    flights->starved = others_first(peers, flights);
    if (flights->starved)
        return -1;
    flights->slab_turn = ++slabs->turn;
    flights->slabs_used++;
    return (int32_t)slabs->free[--slabs->free_count];
}

void weft_feed_give_slab(weft_flights *flights, int32_t slab)
{
    flights->slabs->free[flights->slabs->free_count++] = (uint32_t)slab;
    flights->slabs_used--;
}

/* The size is chosen when a feed begins, and again as the feed shows more of the link. */
uint64_t weft_feed_bucket_bytes(weft_peer *peer, weft_level level, uint64_t stream_bytes)
{
    if (peer->feed.buckets % SIZE_EVERY == 0) {
        weft_estimate_settle(&peer->tuning.estimate);
        peer->info.bucket_bytes =
            weft_bucket_size(&peer->site, &peer->tuning.estimate, level, stream_bytes, peer->claim.hello.slot_payload,
                             peer->info.bucket_bytes, &peer->tuning.bound);
    }
    return peer->info.bucket_bytes;
}

/* Returns true if the peer leaves enough slabs to others. A bucket after an update that is not held yet may wait in its
 * slot for an engine, however long. So half of the slabs are for peers that take theirs at once. */
static bool spares_slabs(const weft_receipts *receipts, const weft_flights *flights)
{
    return receipts->count == 0 || flights->slabs->free_count > flights->slabs->count / 2;
}

weft_status weft_feed_attach(const weft_peer_table *peers, weft_peer *peer, const weft_version *base,
                             const weft_version *target)
{
    weft_feed *feed = &peer->feed;
    uint64_t left = feed->attachment->bytes - feed->attachment_sent;
    uint64_t most = peer->sender.flights.slabs->slab_bytes < peer->claim.hello.slot_payload
                        ? peer->sender.flights.slabs->slab_bytes
                        : peer->claim.hello.slot_payload;
    uint64_t bytes = left < most ? left : most;
    int32_t slab =
        spares_slabs(&peer->receipts, &peer->sender.flights) ? weft_feed_take_slab(peers, &peer->sender.flights) : -1;
    if (slab < 0)
        return WEFT_AGAIN;
    uint8_t *data = weft_slab_at(peer->sender.flights.slabs, slab);
    memcpy(data, feed->attachment->data + feed->attachment_sent, bytes);
    weft_feed_bucket(peer, WEFT_BUCKET_ATTACHMENT, base, target, feed->attachment_sent);
    weft_bucket_wrap(data, bytes, 0, XXH3_64bits(data, bytes), peer->sender.posting.chunk_bytes,
                     &peer->sender.posting.bucket);
    peer->sender.posting.slab = slab;
    feed->attachment_sent += bytes;
    weft_feed_count(&peer->feed, &peer->sender.posting);
    return WEFT_OK;
}

bool weft_feed_owes_attachment(const weft_newest *newest, const weft_standing *standing)
{
    return newest->attachment && newest->attachment->hash != standing->sent_attachment;
}

bool weft_feed_has_attachment(const weft_feed *feed)
{
    return feed->attachment && feed->attachment_sent < feed->attachment->bytes;
}

/* The bucket reads the update until its receipt. */
void weft_feed_frames(weft_publisher *publisher, weft_peer *peer, weft_update *update, weft_level level,
                      uint64_t unit_limit)
{
    weft_feed *feed = &peer->feed;
    const weft_version base = weft_peer_view_version(peer->view, &update->base, update->from);
    const weft_cursor before = feed->cursor;
    weft_feed_bucket(peer, WEFT_BUCKET_FRAMES, &base, &update->target, feed->frame_bytes);
    weft_bucket_plan(&publisher->journal.arena, &feed->cursor, unit_limit,
                     weft_feed_bucket_bytes(peer, level, weft_eager_bytes(&publisher->eager, update, level)),
                     peer->sender.posting.chunk_bytes, &peer->sender.posting.bucket);
    if (peer->view)
        feed->changed +=
            weft_peer_view_changed(&publisher->journal.arena, before, peer->sender.posting.bucket.header.frames);
    peer->sender.posting.update = update;
    update->readers++;
    weft_feed_count(&peer->feed, &peer->sender.posting);
}
