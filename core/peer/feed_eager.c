/* feed_eager.c - says which peers may begin the update that is being encoded, and how much of it is there. */
#include "peer/peer.h"

uint64_t weft_eager_bytes(const weft_eager *eager, const weft_update *update, weft_level level)
{
    uint64_t bytes = update->chain[level].bytes, last = eager->bytes[level];
    return update == eager->update && last > bytes ? last : bytes;
}

/* Returns true if all who may follow the peer can stage what the peer can, because what the update will need is not
 * known yet. */
static bool leads(const weft_peer_table *peers, const weft_peer *peer)
{
    bool all = true;
    for (uint32_t i = 0; i < peers->count && peer->following.children > 0; i++) {
        const weft_peer *child = &peers->list[i];
        bool behind = child->following.parent == peer && child->view == peer->view;
        const weft_wire_hello *theirs = &child->claim.hello, *own = &peer->claim.hello;
        const bool stages = theirs->staging_bytes >= own->staging_bytes && theirs->encoded_bytes >= own->encoded_bytes;
        all = all && (!behind || (stages && leads(peers, child)));
    }
    return all;
}

bool weft_eager_may(const weft_eager *eager, const weft_peer_table *peers, const weft_peer *peer)
{
    if (!eager->update || peer->following.parent) /* a peer that comes through a relay follows, or waits for the seal */
        return false;
    const double share = weft_peer_view_share(peer->view, peer->session);
    bool room = true;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        room = room && share * (double)eager->staged[level] <= (double)peer->claim.hello.staging_bytes;
    return room && leads(peers, peer);
}

/* A link that has nothing to carry takes less than a full bucket. */
bool weft_eager_ripe(const weft_peer *peer, const weft_update *update)
{
    const weft_feed *feed = &peer->feed;
    uint64_t there = update->chain[feed->level].bytes - feed->frame_bytes;
    uint64_t full = peer->info.bucket_bytes ? peer->info.bucket_bytes : peer->site.bucket_start;
    bool idle = peer->sender.flights.slots_free == peer->sender.flights.slots && peer->site.bucket == 0;
    return there >= (idle && full > peer->site.bucket_min ? peer->site.bucket_min : full);
}

bool weft_eager_waits(const weft_eager *eager, const weft_feed *feed)
{
    bool takes = feed->kind == WEFT_FEED_UPDATE || feed->kind == WEFT_FEED_FOLLOWING;
    return eager->update && takes && feed->order == eager->update->order;
}
