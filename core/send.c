/* send.c - posts a peer's buckets chunk by chunk and keeps the books of what is in flight. */
#include <string.h>

#include "peer.h"
#include "status.h"

#define POLL_BATCH 64

static uint8_t *header_at(weft_trainer *trainer, const weft_peer *peer, uint32_t slot)
{
    return trainer->headers +
           ((uint64_t)weft_peer_index(trainer, peer) * trainer->slots_most + slot) * WEFT_HEADER_STRIDE;
}

static weft_region *region_of(const weft_trainer *trainer, const weft_peer *peer, const uint8_t *data)
{
    const weft_arena *arena = &trainer->journal.arena;
    bool in_arena = data >= arena->memory && data < arena->memory + arena->bytes;
    return in_arena ? peer->lane->arena : peer->lane->slabs;
}

/* A free slot, in turn, so that a late write of an old bucket meets its slot as late as can be. */
static uint32_t take_slot(weft_peer *peer)
{
    while (peer->flights[peer->next_slot].used)
        peer->next_slot = (peer->next_slot + 1) % peer->hello.slots;
    uint32_t slot = peer->next_slot;
    peer->next_slot = (peer->next_slot + 1) % peer->hello.slots;
    return slot;
}

static void begin_bucket(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns)
{
    uint32_t slot = take_slot(peer);
    weft_wire_bucket *header = &peer->bucket.header;
    weft_flight *flight = &peer->flights[slot];
    header->epoch = peer->hello.epoch;
    header->slot = slot;
    header->sequence = peer->sequence++;
    header->incarnation = trainer->session->incarnation;
    memcpy(header->layout, trainer->session->layout->hash, sizeof header->layout);
    weft_wire_put_bucket(header_at(trainer, peer, slot), header);
    flight->used = true;
    flight->receipted = false;
    flight->writes = 0;
    flight->sequence = header->sequence;
    flight->bytes = header->payload_bytes;
    flight->posted_ns = now_ns;
    flight->update = peer->bucket_update;
    flight->slab = peer->bucket_slab;
    peer->slots_free--;
    peer->posting = true;
    peer->posting_slot = slot;
    peer->posting_extent = peer->posting_chunk = 0;
    peer->posting_offset = peer->payload_offset = 0;
}

/* The next chunk to write through a port: chunk 0 is the header, the others are parts of extents. */
static weft_write next_chunk(weft_trainer *trainer, const weft_peer *peer, uint32_t port)
{
    const weft_wire_port *more = port ? &peer->hello.more[port - 1] : NULL;
    uint64_t slot = more ? more->region_address : peer->hello.region_address;
    weft_write write = {.remote_key = more ? more->region_key : peer->hello.region_key, .cookie = peer->posting_slot};
    slot += peer->posting_slot * peer->hello.slot_stride;
    write.immediate = weft_wire_immediate(peer->hello.epoch, peer->posting_slot, peer->posting_chunk);
    if (peer->posting_chunk == 0) {
        write.region = peer->lane->headers;
        write.data = header_at(trainer, peer, peer->posting_slot);
        write.bytes = WEFT_BUCKET_HEADER_BYTES;
        write.remote_address = slot;
        return write;
    }
    const weft_extent *extent = &peer->bucket.extents[peer->posting_extent];
    uint64_t left = extent->bytes - peer->posting_offset;
    write.data = extent->data + peer->posting_offset;
    write.region = region_of(trainer, peer, write.data);
    write.bytes = left < peer->chunk_bytes ? left : peer->chunk_bytes;
    write.remote_address = slot + WEFT_SLOT_HEADER_BYTES + peer->payload_offset;
    return write;
}

static void posted(weft_peer *peer, const weft_write *write, uint64_t now_ns)
{
    peer->flights[peer->posting_slot].writes++;
    peer->writes++;
    peer->progress_ns = now_ns;
    if (peer->posting_chunk++ > 0) {
        peer->posting_offset += write->bytes;
        peer->payload_offset += write->bytes;
        if (peer->posting_offset == peer->bucket.extents[peer->posting_extent].bytes) {
            peer->posting_extent++;
            peer->posting_offset = 0;
        }
    }
    if (peer->posting_extent == peer->bucket.extent_count)
        peer->posting = false;
}

/* Writes the next chunk through the first port, from the one whose turn it is, that takes it. */
static weft_status write_chunk(weft_trainer *trainer, weft_peer *peer, weft_write *write, uint64_t now_ns)
{
    weft_status status = WEFT_AGAIN;
    bool refused = false;
    for (uint32_t i = 0; i < peer->port_count && status == WEFT_AGAIN; i++) {
        uint32_t at = (peer->next_port + i) % peer->port_count;
        if (peer->port_writes[at] >= peer->lane->facts.depth)
            continue;
        *write = next_chunk(trainer, peer, at);
        status = peer->lane->provider->write(peer->ports[at], write);
        refused = status == WEFT_AGAIN;
        if (status != WEFT_OK)
            continue;
        peer->port_writes[at]++;
        peer->next_port = at + 1;
    }
    if (refused && !peer->again)
        peer->progress_ns = now_ns; /* a link that was idle stands still from now on, not from its last write */
    peer->again = refused;
    return status;
}

/* What goes through a relay goes over the relay's link, at the rate of that. */
static weft_pace *pace_of(weft_peer *peer)
{
    while (peer->parent)
        peer = peer->parent;
    return &peer->pace;
}

/* Posts chunks until the bucket is out, WEFT_AGAIN when the provider or the rate limit holds. */
static weft_status post_chunks(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    while (peer->posting) {
        weft_write write;
        uint64_t pause_ns = weft_pace_wait(pace_of(peer), now_ns);
        if (pause_ns) {
            weft_waits_until(waits, now_ns + pause_ns);
            return WEFT_AGAIN;
        }
        weft_status status = write_chunk(trainer, peer, &write, now_ns);
        if (peer->again)
            waits->blind = true; /* nothing may be under way whose end would wake us */
        if (status != WEFT_OK)
            return status;
        weft_pace_charge(pace_of(peer), write.bytes);
        posted(peer, &write, now_ns);
    }
    return WEFT_OK;
}

weft_status weft_send_pump(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) {
        status = post_chunks(trainer, peer, now_ns, waits);
        if (status != WEFT_OK || peer->slots_free == 0)
            break;
        status = weft_stream_next(trainer, peer);
        if (status == WEFT_OK)
            begin_bucket(trainer, peer, now_ns);
    }
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

/* A slot is free again when the peer granted it and the provider no longer reads its memory. */
static void release(weft_trainer *trainer, weft_peer *peer, weft_flight *flight)
{
    if (!flight->used || !flight->receipted || flight->writes > 0)
        return;
    if (flight->update)
        flight->update->readers--;
    if (flight->slab >= 0) {
        trainer->slabs.free[trainer->slabs.free_count++] = (uint32_t)flight->slab;
        peer->slabs_used--;
    }
    flight->used = false;
    flight->update = NULL;
    peer->slots_free++;
}

static weft_status poll_port(weft_peer *peer, uint32_t at, weft_trainer *trainer, uint64_t now_ns, bool *any)
{
    weft_completion list[POLL_BATCH];
    size_t count = peer->lane->provider->poll(peer->ports[at], list, POLL_BATCH);
    *any = *any || count > 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind == WEFT_COMPLETION_FAILED)
            return weft_fail_quiet(WEFT_E_PEER_LOST, "the fabric reports a failed write (%s)",
                                   weft_status_name(list[i].status));
        if (list[i].kind != WEFT_COMPLETION_WRITTEN || list[i].cookie >= WEFT_SLOTS_MAX)
            continue;
        weft_flight *flight = &peer->flights[list[i].cookie];
        flight->writes--;
        peer->writes--;
        peer->port_writes[at]--;
        peer->progress_ns = now_ns;
        release(trainer, peer, flight);
    }
    return WEFT_OK;
}

weft_status weft_send_poll(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, bool *any)
{
    weft_status status = WEFT_OK;
    *any = false;
    for (uint32_t at = 0; at < peer->port_count && status == WEFT_OK; at++)
        status = poll_port(peer, at, trainer, now_ns, any);
    trainer->session->stirred |= *any;
    return status;
}

weft_status weft_send_receipt(weft_trainer *trainer, weft_peer *peer, const weft_wire_receipt *receipt, uint64_t now_ns)
{
    weft_flight *flight = receipt->slot < peer->hello.slots ? &peer->flights[receipt->slot] : NULL;
    bool whole = !peer->posting || receipt->slot != peer->posting_slot;
    if (!flight || !whole || !flight->used || flight->receipted || flight->sequence != receipt->sequence)
        return weft_fail(WEFT_E_PROTOCOL, "%s: receipt for bucket %llu in slot %u, which is not on its way", peer->name,
                         (unsigned long long)receipt->sequence, receipt->slot);
    const weft_bucket_times times = {flight->bytes, flight->posted_ns, now_ns, receipt->waited_ns, receipt->take_ns};
    weft_estimate_receipt(&peer->estimate, &times);
    peer->last_receipt_ns = now_ns;
    flight->receipted = true;
    release(trainer, peer, flight);
    return WEFT_OK;
}

void weft_send_abandon(weft_trainer *trainer, weft_peer *peer)
{
    for (uint32_t slot = 0; slot < WEFT_SLOTS_MAX; slot++) {
        peer->flights[slot].receipted = true;
        peer->flights[slot].writes = 0;
        release(trainer, peer, &peer->flights[slot]);
    }
    peer->writes = 0;
    peer->posting = peer->again = false;
}
