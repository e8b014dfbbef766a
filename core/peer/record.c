/* record.c - answers questions from the record of a peer alone. */
#include "peer/peer.h"

uint32_t weft_peer_index(const weft_peer_table *peers, const weft_peer *peer)
{
    return (uint32_t)(peer - peers->list);
}

bool weft_peer_connected(const weft_peer *peer)
{
    return peer->connection.control.fd >= 0;
}

uint64_t weft_peer_lag(const weft_newest *newest, const weft_standing *standing)
{
    if (standing->held_order == WEFT_ORDER_UNKNOWN)
        return newest->order + 1;
    return newest->order - standing->held_order;
}

bool weft_peer_is_idle(const weft_peer *peer)
{
    const bool takes = peer->feed.kind != WEFT_FEED_NONE && peer->feed.kind != WEFT_FEED_OFFERED;
    return peer->connection.greeted && peer->standing.held_order == WEFT_ORDER_UNKNOWN && peer->receipts.count == 0 &&
           !takes && peer->following.children == 0;
}

uint64_t weft_peer_stays_ns(const weft_peer *peer)
{
    const uint64_t patience_ms = peer->session->site->session.io_deadline_ms + peer->site.heartbeat_ms;
    const uint64_t until_ns = peer->claim.joined_ns + patience_ms * WEFT_NS_PER_MS, now_ns = weft_clock_ns();
    return now_ns < until_ns ? until_ns - now_ns : 0;
}

uint32_t weft_trainer_slots(const weft_site *site)
{
    uint64_t most = 1;
    weft_site_peer row;
    bool pattern;
    for (size_t i = 0; weft_site_row(site, i, &row, &pattern); i++)
        most = row.window > most ? row.window : most;
    return most < WEFT_SLOTS_MAX ? (uint32_t)most : WEFT_SLOTS_MAX;
}

uint64_t weft_trainer_headers(const weft_site *site)
{
    return (site->trainer.max_peers + WEFT_GUESTS) * weft_trainer_slots(site) * WEFT_HEADER_STRIDE;
}
