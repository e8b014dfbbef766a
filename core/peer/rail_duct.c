/* rail_duct.c - gives a connection that a peer made for its buckets to the rail that it names. */
#include "base/status.h"
#include "peer/peer.h"
#include "wire/duct.h"
#include "wire/voucher.h"

static const weft_rail *find(const weft_peer *peer, const weft_wire_duct *duct)
{
    for (uint32_t at = 0; peer->connection.greeted && at < peer->rails.count; at++) {
        const weft_rail *rail = &peer->rails.list[at];
        if (rail->port && weft_duct_leads(duct, rail->outlet->provider, rail->port))
            return rail;
    }
    return NULL;
}

static weft_status take(weft_peer_table *peers, weft_peer *guest, weft_peer *peer, const weft_rail *rail)
{
    weft_control *control = &guest->connection.control;
    weft_status status = weft_voucher_check(peer->session->site, control, &peer->claim.hello);
    if (status != WEFT_OK)
        return status;
    weft_watch_forget(&peers->watch, control);
    peers->watch.stirred[weft_peer_index(peers, peer)] = true; /* it may have waited for the way */
    peers->again = true;
    return weft_duct_take(control, rail->outlet->provider, rail->port);
}

weft_status weft_rail_duct(weft_peer_table *peers, weft_peer *guest, const uint8_t *body, uint64_t length)
{
    weft_wire_duct duct;
    weft_status status = weft_wire_get_duct(body, length, &duct);
    for (uint32_t i = 0; status == WEFT_OK && i < peers->count; i++) {
        const weft_rail *rail = find(&peers->list[i], &duct);
        if (rail)
            return take(peers, guest, &peers->list[i], rail);
    }
    return status == WEFT_OK
               ? weft_fail(WEFT_E_PROTOCOL, "%s sent DUCT for a port that is not here", guest->connection.control.peer)
               : status;
}
