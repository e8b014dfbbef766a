/* follow.c - peers behind a relay: which of them take an update from the relay's own stream, at no cost to the trainer.
 *
 * A peer follows when it has what the relay has; it begins, and ends, to follow only when nothing is under way to it
 * from the other source, since the two are not ordered. */
#include <string.h>

#include "base/status.h"
#include "peer/peer.h"

/* Updates for which a peer that fell back too far behind a relay keeps its own stream. */
#define APART_UPDATES 8u

/* The relay is the one that the peer itself names. */
static weft_status fail_outside(weft_status status)
{
    weft_fail_outside("%s", weft_last_error());
    return status;
}

weft_status weft_follow_join(weft_trainer *trainer, weft_peer *peer)
{
    const weft_wire_hello *hello = &peer->hello;
    peer->parent = NULL;
    peer->followed = false;
    if (hello->hops == 0)
        return WEFT_OK;
    for (uint32_t i = 0; i < trainer->peer_count && !peer->parent; i++) {
        weft_peer *relay = &trainer->peers[i];
        if (relay != peer && relay->greeted && strcmp(relay->name, hello->relay) == 0 &&
            relay->hello.incarnation == hello->relay_incarnation)
            peer->parent = relay;
    }
    if (!peer->parent)
        return fail_outside(
            weft_fail(WEFT_E_SYSTEM, "%s comes through relay %s, which is not joined", hello->name, hello->relay));
    if (hello->hops != peer->parent->hello.hops + 1) { /* which also holds chains to WEFT_SITE_HOPS */
        peer->parent = NULL;
        return fail_outside(weft_fail(WEFT_E_SYSTEM, "%s comes by %u relays, its relay %s by another number",
                                      hello->name, hello->hops, hello->relay));
    }
    peer->parent->children++;
    return WEFT_OK;
}

void weft_follow_forget(weft_trainer *trainer)
{
    for (uint32_t i = 0; i < trainer->peer_count; i++) {
        trainer->peers[i].parent = NULL;
        trainer->peers[i].children = 0;
    }
}

void weft_follow_dropped(const weft_trainer *trainer, weft_peer *peer)
{
    if (peer->parent)
        peer->apart_until = trainer->newest_order + APART_UPDATES;
}

/* Whether a peer has what its relay has, and room for what that gets. */
static bool can(const weft_trainer *trainer, const weft_peer *peer)
{
    const weft_peer *relay = peer->parent;
    bool settled = peer->expected_count == 0 || (peer->followed && peer->expected_count < WEFT_UPDATES_AHEAD);
    return settled && !weft_feed_drops(peer) && peer->greeted && !peer->leaving && peer->feed.kind == WEFT_FEED_NONE &&
           peer->held_order != WEFT_ORDER_UNKNOWN && peer->sent_order == relay->sent_order &&
           peer->sent_attachment == relay->sent_attachment && peer->hello.slot_payload >= relay->hello.slot_payload &&
           (peer->apart_until == 0 || trainer->newest_order > peer->apart_until);
}

/* Of an update at a level. */
static bool takes(const weft_peer *peer, const weft_update *update, weft_level level)
{
    const weft_version *last = peer->expected_count ? &peer->expected[peer->expected_count - 1].version : &peer->held;
    return last->root == update->base.root && (peer->hello.levels >> level & 1) &&
           update->chain[level].staged_bytes <= peer->hello.staging_bytes;
}

bool weft_follow_waits(const weft_trainer *trainer, weft_peer *peer)
{
    const weft_peer *relay = peer->parent;
    if (!relay || peer->sent_order == trainer->newest_order)
        return false;
    bool soon = relay->feed.kind == WEFT_FEED_NONE && relay->expected_count < WEFT_UPDATES_AHEAD &&
                relay->held_order != WEFT_ORDER_UNKNOWN && can(trainer, peer);
    uint64_t now_ns = weft_clock_ns(), patience_ns = peer->site.heartbeat_ms * WEFT_NS_PER_MS / 2;
    if (!soon || peer->waits_since_ns == 0)
        peer->waits_since_ns = soon ? now_ns : 0;
    return soon && now_ns <= peer->waits_since_ns + patience_ns; /* a relay that does not begin holds nobody back */
}

/* One follower: the same header, and nothing to send behind it. */
static weft_status begin(weft_peer *peer, const weft_feed *sent, const weft_out *header)
{
    weft_feed *stream = &peer->feed;
    memset(stream, 0, sizeof *stream);
    stream->kind = WEFT_FEED_FOLLOWING;
    stream->order = sent->order;
    stream->level = peer->level = sent->level;
    stream->begun_ns = sent->begun_ns;
    peer->sent_order = sent->order;
    if (sent->attachment)
        peer->sent_attachment = sent->attachment->hash;
    peer->followed = true;
    peer->waits_since_ns = 0;
    return weft_control_send(&peer->control, WEFT_MESSAGE_UPDATE, header->data, header->used);
}

weft_status weft_follow_begin(weft_trainer *trainer, weft_peer *relay, const weft_feed *sent, const weft_update *update,
                              const weft_out *header)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_follow follow = {.target = {update->target.run, update->target.number, 0}};
    for (uint32_t i = 0; i < trainer->peer_count && relay->children > 0 && follow.count < WEFT_FOLLOW_MAX; i++) {
        weft_peer *peer = &trainer->peers[i];
        if (peer->parent != relay || !can(trainer, peer) || !takes(peer, update, sent->level))
            continue;
        weft_status status = weft_follow_begin(trainer, peer, sent, update, header); /* before it moves on itself */
        if (status == WEFT_OK)
            status = begin(peer, sent, header);
        if (status == WEFT_OK)
            follow.routes[follow.count++] = peer->hello.route;
        else
            weft_peer_lose(trainer, peer, status, weft_last_error());
    }
    trainer->again = trainer->again || relay->children > 0; /* those that waited for this go their ways */
    if (follow.count == 0)
        return WEFT_OK;
    weft_wire_put_follow(&out, &follow);
    return weft_control_send(&relay->control, WEFT_MESSAGE_FOLLOW, out.data, out.used);
}

void weft_follow_finish(weft_trainer *trainer, weft_peer *relay, const weft_out *trailer, const weft_expected *expected)
{
    for (uint32_t i = 0; i < trainer->peer_count && relay->children > 0; i++) {
        weft_peer *peer = &trainer->peers[i];
        if (peer->parent != relay || peer->feed.kind != WEFT_FEED_FOLLOWING)
            continue;
        weft_follow_finish(trainer, peer, trailer, expected);
        peer->expected[peer->expected_count] = *expected;
        peer->expected[peer->expected_count++].end = peer->sequence;
        peer->sent_order = expected->order;
        weft_feed_end(peer);
        weft_status status = weft_control_send(&peer->control, WEFT_MESSAGE_TRAILER, trailer->data, trailer->used);
        if (status != WEFT_OK)
            weft_peer_lose(trainer, peer, status, weft_last_error());
        trainer->again = true;
    }
}
