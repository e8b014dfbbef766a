/* repair.c - gives a peer whose bits are no version the units that differ from the version nearest to its bits. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "encode/staging.h"
#include "peer/peer.h"
#include "peer/rebuild.h"

/* Returns true if the units can be one update for that peer. More units are a snapshot. */
static bool worth(const weft_peer *peer, const weft_wire_repair *repair, uint64_t *units)
{
    const weft_layout *layout = peer->session->layout;
    uint64_t staged = 0;
    *units = 0;
    for (uint32_t i = 0; i < repair->count; i++)
        *units += repair->range[i].units;
    if (*units > layout->unit_count / 2 + 1)
        return false;
    for (uint32_t i = 0; i < repair->count; i++)
        for (uint64_t u = repair->range[i].first; u < (uint64_t)repair->range[i].first + repair->range[i].units; u++)
            staged += weft_staging_need(layout->units[u].count, layout->units[u].width);
    return staged <= peer->claim.hello.staging_bytes;
}

weft_status weft_repair_ask(weft_publisher *publisher, weft_peer *peer, const uint8_t *body, uint64_t length)
{
    weft_wire_repair repair;
    uint64_t units = 0, order;
    weft_status status = weft_wire_get_repair(body, length, &repair);
    if (status != WEFT_OK)
        return status;
    const uint64_t end = (uint64_t)repair.range[repair.count - 1].first + repair.range[repair.count - 1].units;
    if (peer->feed.kind != WEFT_FEED_OFFERED ||
        (repair.root != peer->claim.hello.held.root && repair.root != peer->standing.held.root))
        return weft_fail(WEFT_E_PROTOCOL, "%s asks for a repair of bits %016llx, which was not offered",
                         peer->claim.name, (unsigned long long)repair.root);
    if (end > publisher->session->layout->unit_count)
        return weft_fail(WEFT_E_PROTOCOL, "%s asks for unit %llu of %llu", peer->claim.name,
                         (unsigned long long)end - 1, (unsigned long long)publisher->session->layout->unit_count);
    order = weft_answer_order(publisher, peer->view, &repair.version);
    weft_bridged *entry = NULL;
    if (order != WEFT_ORDER_UNKNOWN && worth(peer, &repair, &units))
        entry = weft_bridge_repair(&publisher->bridge, order, &repair);
    if (!entry)
        return weft_feed_offer(&publisher->newest, &publisher->shadow, peer);
    weft_log(WEFT_LOG_INFO, "repair: %s gets %llu units of version %llu", peer->claim.name, (unsigned long long)units,
             (unsigned long long)entry->update.target.number);
    peer->feed.kind = WEFT_FEED_REPAIR;
    peer->feed.made = entry;
    peer->feed.made_turn = entry->turn;
    return WEFT_OK;
}
