/* flights.c - the buckets of a receiver between their first write and their receipt. */
#include "base/status.h"
#include "send/send.h"

/* A slot is free again after the receiver granted it and the provider no longer reads the bucket's memory. */
void weft_flight_release(weft_flights *flights, weft_flight *flight)
{
    if (!flight->used || !flight->receipted || flight->writes > 0)
        return;
    if (flight->update)
        flight->update->readers--;
    if (flight->slab >= 0)
        flights->give(flights, flight->slab);
    flight->used = false;
    flight->update = NULL;
    flights->slots_free++;
}

bool weft_flight_is_whole(const weft_sender *sender, uint32_t slot)
{
    return (!sender->posting.busy || slot != sender->posting.slot) &&
           (!sender->flights.again_chunks || sender->flights.parcels[slot].again == 0);
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

weft_status weft_flight_receipt(weft_sender *sender, const weft_wire_receipt *receipt, weft_flight **flight)
{
    weft_flight *found = receipt->slot < sender->flights.slots ? &sender->flights.list[receipt->slot] : NULL;
    if (!found || !weft_flight_is_whole(sender, receipt->slot) || !found->used || found->receipted ||
        found->sequence != receipt->sequence)
        return weft_fail(WEFT_E_PROTOCOL, "%s: receipt for bucket %llu in slot %u, which is not on its way",
                         sender->hello->name, (unsigned long long)receipt->sequence, receipt->slot);
    found->receipted = true;
    *flight = found;
    return WEFT_OK;
}

void weft_flights_abandon(weft_flights *flights)
{
    for (uint32_t slot = 0; slot < WEFT_SLOTS_MAX; slot++) {
        flights->list[slot].receipted = true;
        flights->list[slot].writes = 0;
        weft_flight_release(flights, &flights->list[slot]);
    }
    flights->writes = flights->again_chunks = 0;
}
