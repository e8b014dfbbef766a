/* send.c - posts a peer's buckets chunk by chunk, and keeps the books of what is in flight.
 *
 * In comes a step of the session (trainer/trainer_step.c), for one peer. weft_send_poll first takes the completions of
 * earlier writes, because a completed write may free a slot. weft_send_pump then asks feed.c for the next bucket, as
 * long as the peer has a free slot. feed.c fills the peer's posting: header, extents of the journal or of a slab.
 *
 * The bucket takes a slot and becomes a flight (flights.c). Its chunks are posted one at a time, the header first, at
 * the pace that the site allows. Each chunk goes by the rail on which it would land first. A rail that refuses a write
 * is passed over; a rail that fails is closed, and what it had goes again by the others (rail_watch.c, rail_again.c).
 *
 * Out go remote writes into the peer's slots, each with an immediate that the peer counts. The peer answers with a
 * RECEIPT over the control connection, which frees the flight (weft_flight_receipt). receipts.c ends a peer that owes
 * a receipt for too long. */
#include <string.h>

#include "base/status.h"
#include "peer/peer.h"

#define POLL_BATCH 64

/* Takes a free slot, in turn, so that a late write of an old bucket meets its slot as late as can be. */
static uint32_t take_slot(weft_peer *peer)
{
    while (peer->flights.list[peer->flights.next_slot].used)
        peer->flights.next_slot = (peer->flights.next_slot + 1) % peer->claim.hello.slots;
    uint32_t slot = peer->flights.next_slot;
    peer->flights.next_slot = (peer->flights.next_slot + 1) % peer->claim.hello.slots;
    return slot;
}

static void begin_bucket(weft_peer *peer, uint64_t now_ns)
{
    uint32_t slot = take_slot(peer);
    weft_wire_bucket *header = &peer->posting.bucket.header;
    weft_flight *flight = &peer->flights.list[slot];
    header->epoch = peer->claim.hello.epoch;
    header->slot = slot;
    header->sequence = peer->flights.sequence++;
    header->incarnation = peer->session->incarnation;
    memcpy(header->layout, weft_peer_view_layout(peer->view, peer->session)->hash, sizeof header->layout);
    weft_wire_put_bucket(weft_rail_header(&peer->flights, slot), header);
    flight->used = true;
    flight->receipted = flight->resent = false;
    flight->writes = 0;
    memset(flight->by, 0, sizeof flight->by);
    flight->sequence = header->sequence;
    flight->bytes = header->payload_bytes;
    flight->posted_ns = now_ns;
    flight->update = peer->posting.update;
    flight->slab = peer->posting.slab;
    peer->flights.slots_free--;
    peer->posting.busy = true;
    peer->posting.slot = slot;
    peer->posting.chunk = 0;
    weft_parcel_begin(peer, slot);
}

/* Returns the next chunk. A chunk that is to go again comes first, because its bucket has waited longest. */
static weft_chunk next_chunk(const weft_peer *peer)
{
    weft_chunk chunk = {.slot = peer->posting.slot};
    if (!weft_parcel_next(peer, &chunk) && peer->posting.chunk > 0) {
        chunk = weft_parcel_chunk(peer->posting.bucket.extents, peer->posting.bucket.extent_count,
                                  peer->posting.chunk_bytes, peer->posting.chunk);
        chunk.slot = peer->posting.slot;
    }
    if (chunk.number == 0) {
        chunk.data = weft_rail_header(&peer->flights, chunk.slot);
        chunk.bytes = WEFT_BUCKET_HEADER_BYTES;
    }
    return chunk;
}

static void posted(weft_peer *peer, const weft_chunk *chunk, uint32_t at, uint64_t now_ns)
{
    weft_rail *rail = &peer->rails.list[at];
    weft_flight *flight = &peer->flights.list[chunk->slot];
    bool fresh = peer->posting.busy && chunk->slot == peer->posting.slot && chunk->number == peer->posting.chunk;
    weft_rail_note_posted(rail, chunk->bytes, now_ns);
    rail->sent_writes++;
    rail->outlet->sent_writes++;
    rail->sent_bytes += chunk->bytes;
    rail->outlet->sent_bytes += chunk->bytes;
    flight->writes++;
    flight->by[at]++;
    peer->flights.writes++;
    peer->flights.progress_ns = now_ns;
    if (chunk->number > 0)
        peer->rails.next = at + 1;
    weft_parcel_note(peer, chunk, at);
    if (fresh) {
        peer->posting.busy = peer->posting.chunk++ < peer->posting.bucket.header.chunks;
        return;
    }
    rail->resent_bytes += chunk->bytes;
    rail->outlet->resent_bytes += chunk->bytes;
}

/* Believes a rail that has nothing to do to be faster than it was, until the rail is tried again. */
static void encourage(weft_rails *rails, uint32_t best)
{
    const double most = rails->list[best].rate_bytes_s;
    for (uint32_t at = 0; at < rails->count; at++) {
        weft_rail *rail = &rails->list[at];
        if (at != best && rail->unlanded == 0 && rail->rate_bytes_s < most)
            rail->rate_bytes_s = rail->rate_bytes_s * 1.05 < most ? rail->rate_bytes_s * 1.05 : most;
    }
}

/* Chooses the rail by which a chunk would land first, of those with room, and in turn if that is all the same. While
 * the rate of any rail is unknown, all count as equally fast. A bucket's header has no turn, and goes by the rail
 * before. Otherwise headers would have every other turn if each bucket lands before the next one goes. All the rest
 * would go by one of two rails. */
static uint32_t choose_rail(const weft_rails *rails, const weft_chunk *chunk, uint32_t refused)
{
    const uint32_t first = rails->next + (chunk->number > 0 ? 0 : rails->count - 1);
    uint32_t best = rails->count;
    double least = 0;
    bool known = true;
    for (uint32_t at = 0; at < rails->count; at++)
        known = known && (rails->list[at].state != WEFT_RAIL_UP || rails->list[at].rate_bytes_s > 0);
    for (uint32_t i = 0; i < rails->count; i++) {
        uint32_t at = (first + i) % rails->count;
        const weft_rail *rail = &rails->list[at];
        if (!weft_rail_has_room(rails, rail) || refused >> at & 1)
            continue;
        double cost = (double)(rail->unlanded + chunk->bytes) / (known ? rail->rate_bytes_s : 1);
        if (best < rails->count && cost >= least)
            continue;
        best = at;
        least = cost;
    }
    return best;
}

/* Writes the next chunk by a rail that takes it. A rail that fails is passed over for the others. */
static weft_status write_chunk(weft_peer *peer, const weft_chunk *chunk, uint64_t now_ns)
{
    weft_status status = WEFT_AGAIN;
    uint32_t refused = 0, at;
    while (status == WEFT_AGAIN && (at = choose_rail(&peer->rails, chunk, refused)) < peer->rails.count) {
        weft_rail *rail = &peer->rails.list[at];
        status = weft_rail_write_chunk(peer, rail, chunk);
        if (status == WEFT_OK) {
            encourage(&peer->rails, at);
            posted(peer, chunk, at, now_ns);
        } else if (status == WEFT_AGAIN) {
            refused |= 1u << at;
            weft_rail_note_refused(peer->session->site, rail, now_ns);
        } else {
            status = weft_rail_fail(peer, rail, weft_last_error());
            status = status == WEFT_OK ? WEFT_AGAIN : status; /* then the chunk goes by another */
        }
    }
    bool again = status == WEFT_AGAIN && refused;
    if (again && !peer->posting.again)
        peer->flights.progress_ns = now_ns; /* a link that was idle stands still from now on, not from its last write */
    peer->posting.again = again;
    return status;
}

/* Returns the pace of the link by which the peer's data go, which is the relay's if the peer comes through one. */
static weft_pace *pace_of(weft_peer *peer)
{
    while (peer->following.parent)
        peer = peer->following.parent;
    return &peer->posting.pace;
}

/* Posts chunks until the bucket is out. WEFT_AGAIN: the provider or the rate limit holds the rest. */
static weft_status post_chunks(weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    while (peer->posting.busy || peer->flights.again_chunks) {
        uint64_t pause_ns = weft_pace_wait(pace_of(peer), now_ns);
        if (pause_ns) {
            weft_waits_until(waits, now_ns + pause_ns);
            return WEFT_AGAIN;
        }
        const weft_chunk chunk = next_chunk(peer);
        weft_status status = write_chunk(peer, &chunk, now_ns);
        if (peer->posting.again)
            waits->blind = true; /* because nothing may be under way whose end would wake this thread */
        if (status != WEFT_OK)
            return status;
        weft_pace_charge(pace_of(peer), chunk.bytes);
    }
    return WEFT_OK;
}

weft_status weft_send_pump(weft_publisher *publisher, weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    weft_status status = weft_rail_carries(&peer->rails) ? WEFT_OK : WEFT_AGAIN;
    while (status == WEFT_OK) {
        status = post_chunks(peer, now_ns, waits);
        if (status != WEFT_OK || peer->flights.slots_free == 0)
            break;
        status = weft_feed_next(publisher, peer);
        if (status == WEFT_OK)
            begin_bucket(peer, now_ns);
    }
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

static weft_status poll_rail(weft_peer *peer, uint32_t at, uint64_t now_ns, bool *any)
{
    weft_completion list[POLL_BATCH];
    weft_rail *rail = &peer->rails.list[at];
    size_t count = rail->outlet->provider->poll(rail->port, list, POLL_BATCH);
    *any = *any || count > 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind == WEFT_COMPLETION_FAILED) {
            weft_fail_quiet(WEFT_E_PEER_LOST, "the fabric reports a failed write (%s)",
                            weft_status_name(list[i].status));
            return weft_rail_fail(peer, rail, weft_last_error());
        }
        if (list[i].kind != WEFT_COMPLETION_WRITTEN)
            continue;
        rail->writes--;
        rail->moved_ns = now_ns;
        if (list[i].cookie >= WEFT_SLOTS_MAX)
            continue;
        weft_flight *flight = &peer->flights.list[list[i].cookie];
        flight->writes--;
        flight->by[at]--;
        peer->flights.writes--;
        peer->flights.progress_ns = now_ns;
        weft_flight_release(&peer->flights, flight);
    }
    return WEFT_OK;
}

weft_status weft_send_poll(weft_peer *peer, uint64_t now_ns, bool *any)
{
    weft_status status = WEFT_OK;
    *any = false;
    for (uint32_t at = 0; at < peer->rails.count && status == WEFT_OK; at++)
        if (peer->rails.list[at].port)
            status = poll_rail(peer, at, now_ns, any);
    peer->session->stirred |= *any;
    return status;
}
