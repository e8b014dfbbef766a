/* follow.c - chooses which peers of a relay take an update from the relay's own feed, at no cost to the trainer.
 *
 * A peer follows if it has what the relay has. It begins and ends to follow only if nothing is under way to it from the
 * other source, because the two sources are not ordered. */
#include <string.h>

#include "base/status.h"
#include "peer/peer.h"

/* Updates for which a peer that fell too far behind a relay keeps its own feed. */
#define APART_UPDATES 8u

/* A relay and the peers behind it name the same versions, though not at one moment. So long they wait for each other.
 */
#define GATHER_NS (20 * WEFT_NS_PER_MS)

/* Lets the peer know the reason, because the relay is the one that the peer itself names. */
static weft_status fail_outside(weft_status status)
{
    weft_fail_outside("%s", weft_last_error());
    return status;
}

weft_status weft_follow_join(weft_peer_table *peers, weft_peer *peer)
{
    const weft_wire_hello *hello = &peer->claim.hello;
    peer->following.parent = NULL;
    peer->following.followed = false;
    if (hello->hops == 0)
        return WEFT_OK;
    for (uint32_t i = 0; i < peers->count && !peer->following.parent; i++) {
        weft_peer *relay = &peers->list[i];
        if (relay != peer && relay->connection.greeted && strcmp(relay->claim.name, hello->relay) == 0 &&
            relay->claim.hello.incarnation == hello->relay_incarnation)
            peer->following.parent = relay;
    }
    if (!peer->following.parent)
        return fail_outside(
            weft_fail(WEFT_E_SYSTEM, "%s comes through relay %s, which is not joined", hello->name, hello->relay));
    if (hello->hops != peer->following.parent->claim.hello.hops + 1) { /* which also limits chains to WEFT_SITE_HOPS */
        peer->following.parent = NULL;
        return fail_outside(weft_fail(WEFT_E_SYSTEM, "%s comes by %u relays, its relay %s by another number",
                                      hello->name, hello->hops, hello->relay));
    }
    peer->following.parent->following.children++;
    return WEFT_OK;
}

void weft_follow_forget(weft_peer_table *peers)
{
    for (uint32_t i = 0; i < peers->count; i++) {
        peers->list[i].following.parent = NULL;
        peers->list[i].following.children = 0;
    }
}

void weft_follow_dropped(const weft_newest *newest, weft_following *following)
{
    if (following->parent)
        following->apart_until = newest->order + APART_UPDATES;
}

/* Returns true if the peer holds its relay's version and has slots as large, regardless of what either wants. */
static bool fits(const weft_newest *newest, const weft_peer *peer)
{
    const weft_peer *relay = peer->following.parent;
    bool settled = peer->receipts.count == 0 || (peer->following.followed && peer->receipts.count < WEFT_UPDATES_AHEAD);
    return settled && !weft_feed_drops(&peer->receipts) && peer->connection.greeted && !peer->connection.leaving &&
           peer->feed.kind == WEFT_FEED_NONE && peer->view == relay->view &&
           peer->standing.held_order != WEFT_ORDER_UNKNOWN && peer->standing.sent_order == relay->standing.sent_order &&
           peer->standing.sent_attachment == relay->standing.sent_attachment &&
           peer->claim.hello.slot_payload >= relay->claim.hello.slot_payload &&
           (peer->following.apart_until == 0 || newest->order > peer->following.apart_until);
}

static bool can(const weft_newest *newest, const weft_peer *peer)
{
    return weft_wish_equal(&peer->wish, &peer->following.parent->wish) && fits(newest, peer);
}

/* Returns true if the wish is so new that somebody who wants nothing yet may soon have the same one. */
static bool may_meet(const weft_wish *wish, const weft_wish *other)
{
    return wish->named && wish->open && other->named && !other->open && weft_clock_ns() < wish->since_ns + GATHER_NS;
}

/* Returns true if the peer can take the update at that level. */
static bool takes(const weft_peer *peer, const weft_arena *arena, const weft_update *update, weft_level level)
{
    const weft_receipts *receipts = &peer->receipts;
    const weft_version base = weft_peer_view_version(peer->view, &update->base, update->from),
                       *last =
                           receipts->count ? &receipts->expected[receipts->count - 1].version : &peer->standing.held;
    return last->root == base.root && (peer->claim.hello.levels >> level & 1) &&
           weft_peer_view_stages(peer, arena, update, level);
}

bool weft_follow_waits(const weft_newest *newest, weft_peer *peer)
{
    const weft_peer *relay = peer->following.parent;
    if (peer->wish.named && !peer->wish.open) /* it wants nothing, so it waits for nothing */
        peer->following.waits_since_ns = 0;
    if (!relay || peer->standing.sent_order == newest->order || (peer->wish.named && !peer->wish.open))
        return false;
    bool soon = relay->feed.kind == WEFT_FEED_NONE && relay->receipts.count < WEFT_UPDATES_AHEAD &&
                relay->standing.held_order != WEFT_ORDER_UNKNOWN && fits(newest, peer) &&
                (weft_wish_equal(&peer->wish, &relay->wish) || may_meet(&peer->wish, &relay->wish));
    uint64_t now_ns = weft_clock_ns(), patience_ns = peer->site.heartbeat_ms * WEFT_NS_PER_MS / 2;
    if (!soon || peer->following.waits_since_ns == 0)
        peer->following.waits_since_ns = soon ? now_ns : 0;
    const uint64_t until_ns = peer->following.waits_since_ns + patience_ns;
    return soon && now_ns <= until_ns; /* because a relay that does not begin must hold nobody back */
}

/* Returns true if a peer after `relay`, at whatever distance, is about to want what `first` wants. */
static bool gathers(const weft_publisher *publisher, const weft_peer *first, const weft_peer *relay)
{
    const weft_peer_table *peers = publisher->peers;
    bool found = false;
    for (uint32_t i = 0; i < peers->count && relay->following.children > 0 && !found; i++) {
        const weft_peer *peer = &peers->list[i];
        found = peer->following.parent == relay && fits(&publisher->newest, peer) &&
                (may_meet(&first->wish, &peer->wish) ||
                 (weft_wish_equal(&first->wish, &peer->wish) && gathers(publisher, first, peer)));
    }
    return found;
}

bool weft_follow_gathers(const weft_publisher *publisher, const weft_peer *relay)
{
    return gathers(publisher, relay, relay);
}

bool weft_follow_wanted(weft_peer_table *peers, const weft_peer *peer)
{
    for (const weft_peer *at = peer->following.parent; at; at = at->following.parent)
        peers->watch.stirred[weft_peer_index(peers, at)] = true;
    for (uint32_t i = 0; i < peers->count && peer->following.children > 0; i++)
        if (peers->list[i].following.parent == peer)
            peers->watch.stirred[i] = true;
    return peer->following.parent || peer->following.children > 0;
}

void weft_follow_wake(const weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    const bool related = peer->following.parent || peer->following.children > 0;
    if (related && peer->wish.open && now_ns < peer->wish.since_ns + GATHER_NS)
        weft_waits_until(waits, peer->wish.since_ns + GATHER_NS);
}

/* Begins one follower: sends it the same header, and nothing after that. */
static weft_status begin(weft_peer *peer, const weft_feed *sent, const weft_out *header)
{
    weft_feed *feed = &peer->feed;
    memset(feed, 0, sizeof *feed);
    feed->kind = WEFT_FEED_FOLLOWING;
    feed->order = sent->order;
    feed->level = peer->tuning.level = sent->level;
    feed->begun_ns = sent->begun_ns;
    peer->standing.sent_order = sent->order;
    if (sent->attachment)
        peer->standing.sent_attachment = sent->attachment->hash;
    peer->following.followed = true;
    peer->following.waits_since_ns = 0;
    return weft_control_send(&peer->connection.control, WEFT_MESSAGE_UPDATE, header->data, header->used);
}

weft_status weft_follow_begin(weft_publisher *publisher, weft_peer *relay, const weft_feed *sent,
                              const weft_update *update, const weft_out *header)
{
    weft_peer_table *peers = publisher->peers;
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_follow follow = {.target = {update->target.run, update->target.number, 0}};
    for (uint32_t i = 0; i < peers->count && relay->following.children > 0 && follow.count < WEFT_FOLLOW_MAX; i++) {
        weft_peer *peer = &peers->list[i];
        if (peer->following.parent != relay || !can(&publisher->newest, peer) ||
            !takes(peer, &publisher->journal.arena, update, sent->level))
            continue;
        weft_status status = weft_follow_begin(publisher, peer, sent, update, header);
        if (status == WEFT_OK) /* last, because the peer's own standing moves on */
            status = begin(peer, sent, header);
        if (status == WEFT_OK)
            follow.routes[follow.count++] = peer->claim.hello.route;
        else
            weft_peer_lose(peers, peer, status, weft_last_error());
    }
    peers->again = peers->again || relay->following.children > 0; /* peers that waited for this choose anew */
    if (follow.count == 0)
        return WEFT_OK;
    weft_wire_put_follow(&out, &follow);
    return weft_control_send(&relay->connection.control, WEFT_MESSAGE_FOLLOW, out.data, out.used);
}

void weft_follow_finish(weft_peer_table *peers, weft_peer *relay, const weft_out *trailer,
                        const weft_expected *expected)
{
    for (uint32_t i = 0; i < peers->count && relay->following.children > 0; i++) {
        weft_peer *peer = &peers->list[i];
        if (peer->following.parent != relay || peer->feed.kind != WEFT_FEED_FOLLOWING)
            continue;
        weft_follow_finish(peers, peer, trailer, expected);
        peer->receipts.expected[peer->receipts.count] = *expected;
        peer->receipts.expected[peer->receipts.count++].end = peer->sender.flights.sequence;
        peer->standing.sent_order = expected->order;
        weft_feed_end(&peer->feed);
        weft_status status =
            weft_control_send(&peer->connection.control, WEFT_MESSAGE_TRAILER, trailer->data, trailer->used);
        if (status != WEFT_OK)
            weft_peer_lose(peers, peer, status, weft_last_error());
        peers->again = true;
    }
}
