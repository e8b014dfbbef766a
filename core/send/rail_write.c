/* rail_write.c - posts one write by one rail, and notes how it went. */
#include "send/send.h"

uint8_t *weft_rail_header(const weft_flights *flights, uint32_t slot)
{
    return flights->headers + (uint64_t)slot * WEFT_HEADER_STRIDE;
}

static weft_region *region_of(const weft_slabs *slabs, const weft_outlet *outlet, const weft_chunk *chunk)
{
    if (chunk->number == 0)
        return outlet->headers;
    const uint8_t *end = slabs->memory + slabs->slab_bytes * slabs->count;
    return chunk->data >= slabs->memory && chunk->data < end ? outlet->slabs : outlet->arena;
}

weft_status weft_rail_write_chunk(const weft_sender *sender, const weft_rail *rail, const weft_chunk *chunk)
{
    const weft_write write = {.region = region_of(sender->flights.slabs, rail->outlet, chunk),
                              .data = chunk->data,
                              .bytes = chunk->bytes,
                              .remote_address =
                                  rail->there.region_address + chunk->slot * sender->hello->slot_stride + chunk->offset,
                              .remote_key = rail->there.region_key,
                              .immediate = weft_wire_immediate(sender->hello->epoch, chunk->slot, chunk->number),
                              .cookie = chunk->slot};
    return rail->outlet->provider->write(rail->port, &write);
}

void weft_rail_note_posted(weft_rail *rail, uint64_t bytes, uint64_t now_ns)
{
    if (rail->writes == 0 && rail->posted == rail->landed)
        rail->moved_ns = now_ns;
    rail->writes++;
    rail->sizes[rail->posted++ % WEFT_RAIL_WRITES] = (uint32_t)bytes;
    rail->unlanded += bytes;
    rail->refused_ns = 0;
}

/* Time in which nobody asked the rail does not count. */
void weft_rail_note_refused(const weft_site *site, weft_rail *rail, uint64_t now_ns)
{
    if (!rail->refused_ns || now_ns > rail->asked_ns + weft_rail_patience_ns(site) / 2)
        rail->refused_ns = now_ns;
    rail->asked_ns = now_ns;
}

weft_status weft_rail_probe(weft_sender *sender, weft_rail *rail)
{
    const weft_write write = {.region = rail->outlet->headers,
                              .data = weft_rail_header(&sender->flights, 0) + WEFT_BUCKET_HEADER_BYTES,
                              .bytes = WEFT_PROBE_BYTES,
                              .remote_address = rail->there.region_address + WEFT_PROBE_OFFSET,
                              .remote_key = rail->there.region_key,
                              .immediate = weft_wire_immediate(sender->hello->epoch, WEFT_SLOT_PROBE, 0),
                              .cookie = WEFT_SLOT_PROBE};
    weft_status status = rail->outlet->provider->write(rail->port, &write);
    if (status == WEFT_OK)
        weft_rail_note_posted(rail, write.bytes, weft_clock_ns());
    else if (status == WEFT_AGAIN)
        weft_rail_note_refused(sender->session->site, rail, weft_clock_ns());
    return status;
}

bool weft_rail_has_room(const weft_rails *rails, const weft_rail *rail)
{
    bool known = rails->used == 1 || rail->posted - rail->landed < WEFT_RAIL_WRITES;
    return rail->state == WEFT_RAIL_UP && rail->writes < rail->outlet->facts.depth && known;
}
