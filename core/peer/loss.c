/* loss.c - ends a peer's connection and everything on it; the record stays.
 *
 * A loss takes effect at once, wherever it is decided, and no step reaps marked peers. Some who decide need the effect
 * in their next line: eviction.c gives frames away that the peer read, and claim.c and the door give a newcomer the
 * record. A mark for the others alone would be a second way, and a time in which a peer is neither joined nor lost.
 * Each loop over the peers goes by index, so a loss inside of it does no harm. */
#include <stdio.h>

#include "base/status.h"
#include "peer/peer.h"

static weft_peer_event event_of(weft_status status)
{
    if (status == WEFT_OK)
        return WEFT_ON_GOODBYE;
    return status == WEFT_E_PROTOCOL || status == WEFT_E_CORRUPT ? WEFT_ON_BROKEN : WEFT_ON_CLOSED;
}

void weft_peer_lose(weft_peer_table *peers, weft_peer *peer, weft_status status, const char *why)
{
    weft_session *session = peer->session;
    char text[192];
    snprintf(text, sizeof text, "%s", why); /* because `why` may be the last error's text, which closing may replace */
    weft_send_close(&peer->sender);
    weft_feed_end(&peer->feed);
    weft_loss_of_children(peers, peer);
    weft_control_hang_up(&peer->connection.control);
    peer->receipts.count = 0;
    peer->connection.leaving = false;
    if (!peer->connection.greeted)
        return;
    peer->connection.greeted = false;
    weft_peer_view_take(peer, NULL);
    weft_log_sink *before = weft_log_enter(&peer->claim.limit.sink);
    if (peer->state != WEFT_PEER_LOST)
        weft_peer_move(peer, event_of(status));
    session->stats.peers_lost += status != WEFT_OK;
    if (status != WEFT_OK)
        weft_log(WEFT_LOG_WARN, "lost: %s at version %llu: %s", peer->claim.name,
                 (unsigned long long)peer->standing.held.number, text);
    else
        weft_log(WEFT_LOG_INFO, "goodbye: %s at version %llu", peer->claim.name,
                 (unsigned long long)peer->standing.held.number);
    weft_log_enter(before);
    weft_session_event(session, status == WEFT_OK ? WEFT_EVENT_GOODBYE : WEFT_EVENT_LOST, status, peer->claim.name,
                       &peer->standing.held, text);
    weft_session_changed(session);
}

void weft_loss_of_children(weft_peer_table *peers, weft_peer *peer)
{
    if (peer->following.parent)
        peer->following.parent->following.children--;
    peer->following.parent = NULL;
    for (uint32_t i = 0; i < peers->count && peer->following.children > 0; i++)
        if (peers->list[i].following.parent == peer)
            weft_peer_lose(peers, &peers->list[i], WEFT_E_PEER_LOST, "the relay that it is behind is lost");
}
