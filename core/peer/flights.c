/* flights.c - the buckets of a peer between their first write and their receipt. */
#include "base/status.h"
#include "peer/peer.h"

/* A slot is free again after the peer granted it and the provider no longer reads the bucket's memory. */
void weft_flight_release(weft_flights *flights, weft_flight *flight)
{
    if (!flight->used || !flight->receipted || flight->writes > 0)
        return;
    if (flight->update)
        flight->update->readers--;
    if (flight->slab >= 0) {
        flights->slabs->free[flights->slabs->free_count++] = (uint32_t)flight->slab;
        flights->slabs_used--;
    }
    flight->used = false;
    flight->update = NULL;
    flights->slots_free++;
}

bool weft_flight_is_whole(const weft_posting *posting, const weft_flights *flights, uint32_t slot)
{
    return (!posting->busy || slot != posting->slot) &&
           (!flights->again_chunks || weft_parcel_of(flights, slot)->again == 0);
}

void weft_flights_write_off(weft_flights *flights, uint32_t rail)
{
    for (uint32_t slot = 0; slot < flights->slots_most; slot++) {
        weft_flight *flight = &flights->list[slot];
        flight->writes -= flight->by[rail];
        flights->writes -= flight->by[rail];
        flight->by[rail] = 0;
        weft_flight_release(flights, flight);
    }
}

weft_status weft_flight_receipt(weft_peer *peer, const weft_wire_receipt *receipt, uint64_t now_ns)
{
    weft_flight *flight = receipt->slot < peer->claim.hello.slots ? &peer->flights.list[receipt->slot] : NULL;
    if (!flight || !weft_flight_is_whole(&peer->posting, &peer->flights, receipt->slot) || !flight->used ||
        flight->receipted || flight->sequence != receipt->sequence)
        return weft_fail(WEFT_E_PROTOCOL, "%s: receipt for bucket %llu in slot %u, which is not on its way",
                         peer->claim.name, (unsigned long long)receipt->sequence, receipt->slot);
    const weft_bucket_times times = {flight->bytes, flight->posted_ns, now_ns, receipt->waited_ns, receipt->take_ns};
    if (!flight->resent)
        weft_estimate_receipt(&peer->tuning.estimate, &times);
    peer->receipts.last_ns = now_ns;
    flight->receipted = true;
    weft_flight_release(&peer->flights, flight);
    return WEFT_OK;
}

void weft_flights_abandon(weft_posting *posting, weft_flights *flights)
{
    for (uint32_t slot = 0; slot < WEFT_SLOTS_MAX; slot++) {
        flights->list[slot].receipted = true;
        flights->list[slot].writes = 0;
        weft_flight_release(flights, &flights->list[slot]);
    }
    flights->writes = flights->again_chunks = 0;
    posting->busy = posting->again = false;
}
