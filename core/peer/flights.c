/* flights.c - the buckets of a peer between their first write and their receipt. */
#include "base/status.h"
#include "peer/peer.h"

/* A slot is free again when the peer granted it and the provider no longer reads its memory. */
void weft_flight_release(weft_peer *peer, weft_flight *flight)
{
    if (!flight->used || !flight->receipted || flight->writes > 0)
        return;
    if (flight->update)
        flight->update->readers--;
    if (flight->slab >= 0) {
        peer->flights.slabs->free[peer->flights.slabs->free_count++] = (uint32_t)flight->slab;
        peer->flights.slabs_used--;
    }
    flight->used = false;
    flight->update = NULL;
    peer->flights.slots_free++;
}

bool weft_flight_is_whole(const weft_peer *peer, uint32_t slot)
{
    return (!peer->posting.busy || slot != peer->posting.slot) &&
           (!peer->flights.again_chunks || weft_parcel_of(peer, slot)->again == 0);
}

void weft_flights_write_off(weft_peer *peer, uint32_t rail)
{
    for (uint32_t slot = 0; slot < peer->claim.hello.slots; slot++) {
        weft_flight *flight = &peer->flights.list[slot];
        flight->writes -= flight->by[rail];
        peer->flights.writes -= flight->by[rail];
        flight->by[rail] = 0;
        weft_flight_release(peer, flight);
    }
}

weft_status weft_flight_receipt(weft_peer *peer, const weft_wire_receipt *receipt, uint64_t now_ns)
{
    weft_flight *flight = receipt->slot < peer->claim.hello.slots ? &peer->flights.list[receipt->slot] : NULL;
    if (!flight || !weft_flight_is_whole(peer, receipt->slot) || !flight->used || flight->receipted ||
        flight->sequence != receipt->sequence)
        return weft_fail(WEFT_E_PROTOCOL, "%s: receipt for bucket %llu in slot %u, which is not on its way",
                         peer->claim.name, (unsigned long long)receipt->sequence, receipt->slot);
    const weft_bucket_times times = {flight->bytes, flight->posted_ns, now_ns, receipt->waited_ns, receipt->take_ns};
    if (!flight->resent)
        weft_estimate_receipt(&peer->tuning.estimate, &times);
    peer->receipts.last_ns = now_ns;
    flight->receipted = true;
    weft_flight_release(peer, flight);
    return WEFT_OK;
}

void weft_flights_abandon(weft_peer *peer)
{
    for (uint32_t slot = 0; slot < WEFT_SLOTS_MAX; slot++) {
        peer->flights.list[slot].receipted = true;
        peer->flights.list[slot].writes = 0;
        weft_flight_release(peer, &peer->flights.list[slot]);
    }
    peer->flights.writes = peer->flights.again_chunks = 0;
    peer->posting.busy = peer->posting.again = false;
}
