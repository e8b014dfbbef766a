/* rail_again.c - remembers which chunk of which bucket went by which rail, so that the chunk can go again by
 * another. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "send/send.h"

static bool is_several(const weft_site_peer *peer)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    return peer->streams * weft_site_rails(peer->address, list) > 1;
}

bool weft_parcels_wanted(const weft_site *site)
{
    bool several = false, pattern;
    weft_site_peer row;
    for (size_t i = 0; !several && weft_site_row(site, i, &row, &pattern); i++)
        several = is_several(&row);
    return several;
}

void weft_parcel_begin(weft_sender *sender, uint32_t slot)
{
    if (sender->rails.used < 2)
        return;
    weft_parcel *parcel = &sender->flights.parcels[slot];
    parcel->extent_count = sender->posting.bucket.extent_count;
    memcpy(parcel->extents, sender->posting.bucket.extents, parcel->extent_count * sizeof parcel->extents[0]);
    parcel->chunks = parcel->again = 0;
}

void weft_parcel_note(weft_sender *sender, const weft_chunk *chunk, uint32_t rail)
{
    if (sender->rails.used < 2)
        return;
    weft_parcel *parcel = &sender->flights.parcels[chunk->slot];
    if (chunk->number < parcel->chunks) {
        parcel->again--;
        sender->flights.again_chunks--;
    } else {
        parcel->chunks++;
    }
    parcel->rail[chunk->number] = (uint8_t)rail;
}

static uint32_t mark(weft_parcel *parcel, uint32_t rail)
{
    uint32_t marked = 0;
    for (uint32_t number = 0; number < parcel->chunks; number++) {
        if (parcel->rail[number] != rail)
            continue;
        parcel->rail[number] = WEFT_RAIL_AGAIN;
        marked++;
    }
    parcel->again += marked;
    return marked;
}

weft_status weft_parcel_again(weft_sender *sender, uint32_t rail, const weft_wire_closed *closed, uint32_t *chunks)
{
    *chunks = 0;
    for (uint32_t slot = 0; slot < sender->flights.slots; slot++) {
        weft_flight *flight = &sender->flights.list[slot];
        weft_parcel *parcel = &sender->flights.parcels[slot];
        bool whole = closed->whole[slot / 8] >> slot % 8 & 1;
        bool posted = flight->used && !(sender->posting.busy && slot == sender->posting.slot) && parcel->again == 0;
        if (whole && !posted)
            return weft_fail(WEFT_E_PROTOCOL, "%s says that the bucket in slot %u is whole, which it cannot be",
                             sender->hello->name, slot);
        if (whole || !flight->used || flight->receipted)
            continue;
        uint32_t marked = mark(parcel, rail);
        flight->resent = flight->resent || marked > 0;
        *chunks += marked;
    }
    sender->flights.again_chunks += *chunks;
    return WEFT_OK;
}

weft_chunk weft_parcel_chunk(const weft_extent *extents, uint32_t count, uint32_t chunk_bytes, uint32_t number)
{
    uint64_t before = 0, left = number - 1; /* bytes and chunks */
    uint32_t at = 0;
    for (; at + 1 < count; at++) {
        uint64_t chunks = (extents[at].bytes + chunk_bytes - 1) / chunk_bytes;
        if (left < chunks)
            break;
        left -= chunks;
        before += extents[at].bytes;
    }
    uint64_t offset = left * chunk_bytes, rest = extents[at].bytes - offset;
    return (weft_chunk){.number = number,
                        .data = extents[at].data + offset,
                        .bytes = rest < chunk_bytes ? rest : chunk_bytes,
                        .offset = WEFT_SLOT_HEADER_BYTES + before + offset};
}

bool weft_parcel_next(const weft_sender *sender, weft_chunk *chunk)
{
    for (uint32_t slot = 0; sender->flights.again_chunks > 0 && slot < sender->flights.slots; slot++) {
        const weft_parcel *parcel = &sender->flights.parcels[slot];
        if (!sender->flights.list[slot].used || parcel->again == 0)
            continue;
        uint32_t number = 0;
        while (parcel->rail[number] != WEFT_RAIL_AGAIN)
            number++;
        *chunk = number ? weft_parcel_chunk(parcel->extents, parcel->extent_count, sender->posting.chunk_bytes, number)
                        : (weft_chunk){.number = 0};
        chunk->slot = slot;
        return true;
    }
    return false;
}
