/* send.c - posts a receiver's buckets chunk by chunk, and keeps the books of what is in flight.
 *
 * In comes a step of the owner: a trainer's for one peer (peer/feed.c), or a relay's for one child
 * (relay/relay_child.c). weft_send_poll first takes the completions of earlier writes, because a completed write may
 * free a slot. weft_send_post then posts what is left, and says whether there is a slot for another bucket. If so, the
 * owner fills the posting: header, extents of registered memory.
 *
 * The bucket takes a slot and becomes a flight (flights.c). Its chunks are posted one at a time, the header first, at
 * the pace that the site allows. Each chunk goes by the rail on which it would land first. A rail that refuses a write
 * is passed over; a rail that fails is closed, and what it had goes again by the others (rail_watch.c, rail_again.c).
 *
 * Out go remote writes into the receiver's slots, each with an immediate that the receiver counts. The receiver answers
 * with a RECEIPT over the control connection, which frees the flight (weft_flight_receipt). */
#include <string.h>

#include "base/status.h"
#include "send/send.h"

#define POLL_BATCH 64

/* Takes a free slot, in turn, so that a late write of an old bucket meets its slot as late as can be. */
static uint32_t take_slot(weft_sender *sender)
{
    while (sender->flights.list[sender->flights.next_slot].used)
        sender->flights.next_slot = (sender->flights.next_slot + 1) % sender->flights.slots;
    uint32_t slot = sender->flights.next_slot;
    sender->flights.next_slot = (sender->flights.next_slot + 1) % sender->flights.slots;
    return slot;
}

void weft_send_begin(weft_sender *sender, uint64_t now_ns)
{
    uint32_t slot = take_slot(sender);
    weft_wire_bucket *header = &sender->posting.bucket.header;
    weft_flight *flight = &sender->flights.list[slot];
    header->epoch = sender->hello->epoch;
    header->slot = slot;
    header->sequence = sender->flights.sequence++;
    weft_wire_put_bucket(weft_rail_header(&sender->flights, slot), header);
    flight->used = true;
    flight->receipted = flight->resent = false;
    flight->writes = 0;
    memset(flight->by, 0, sizeof flight->by);
    flight->sequence = header->sequence;
    flight->bytes = header->payload_bytes;
    flight->posted_ns = now_ns;
    flight->update = sender->posting.update;
    flight->slab = sender->posting.slab;
    sender->flights.slots_free--;
    sender->posting.busy = true;
    sender->posting.slot = slot;
    sender->posting.chunk = 0;
    weft_parcel_begin(sender, slot);
}

/* Returns the next chunk. A chunk that is to go again comes first, because its bucket has waited longest. */
static weft_chunk next_chunk(const weft_sender *sender)
{
    weft_chunk chunk = {.slot = sender->posting.slot};
    if (!weft_parcel_next(sender, &chunk) && sender->posting.chunk > 0) {
        chunk = weft_parcel_chunk(sender->posting.bucket.extents, sender->posting.bucket.extent_count,
                                  sender->posting.chunk_bytes, sender->posting.chunk);
        chunk.slot = sender->posting.slot;
    }
    if (chunk.number == 0) {
        chunk.data = weft_rail_header(&sender->flights, chunk.slot);
        chunk.bytes = WEFT_BUCKET_HEADER_BYTES;
    }
    return chunk;
}

static void note_sent(weft_sent *sent, uint64_t bytes, bool fresh)
{
    sent->writes++;
    sent->bytes += bytes;
    sent->resent_bytes += fresh ? 0 : bytes;
}

static void posted(weft_sender *sender, const weft_chunk *chunk, uint32_t at, uint64_t now_ns)
{
    weft_rail *rail = &sender->rails.list[at];
    weft_flight *flight = &sender->flights.list[chunk->slot];
    bool fresh = sender->posting.busy && chunk->slot == sender->posting.slot && chunk->number == sender->posting.chunk;
    weft_rail_note_posted(rail, chunk->bytes, now_ns);
    note_sent(&rail->sent, chunk->bytes, fresh);
    note_sent(&rail->outlet->sent, chunk->bytes, fresh);
    flight->writes++;
    flight->by[at]++;
    sender->flights.writes++;
    sender->flights.progress_ns = now_ns;
    if (chunk->number > 0)
        sender->rails.next = at + 1;
    weft_parcel_note(sender, chunk, at);
    if (fresh)
        sender->posting.busy = sender->posting.chunk++ < sender->posting.bucket.header.chunks;
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
static weft_status write_chunk(weft_sender *sender, const weft_chunk *chunk, uint64_t now_ns)
{
    weft_status status = WEFT_AGAIN;
    uint32_t refused = 0, at;
    while (status == WEFT_AGAIN && (at = choose_rail(&sender->rails, chunk, refused)) < sender->rails.count) {
        weft_rail *rail = &sender->rails.list[at];
        status = weft_rail_write_chunk(sender, rail, chunk);
        if (status == WEFT_OK) {
            encourage(&sender->rails, at);
            posted(sender, chunk, at, now_ns);
        } else if (status == WEFT_AGAIN) {
            refused |= 1u << at;
            weft_rail_note_refused(sender->session->site, rail, now_ns);
        } else {
            status = weft_rail_fail(sender, rail, weft_last_error());
            status = status == WEFT_OK ? WEFT_AGAIN : status; /* then the chunk goes by another */
        }
    }
    bool again = status == WEFT_AGAIN && refused;
    if (again && !sender->posting.again)
        sender->flights.progress_ns =
            now_ns; /* a link that was idle stands still from now on, not from its last write */
    sender->posting.again = again;
    return status;
}

weft_status weft_send_post(weft_sender *sender, weft_pace *pace, uint64_t now_ns, weft_waits *waits)
{
    if (!weft_rail_carries(&sender->rails))
        return WEFT_AGAIN;
    while (sender->posting.busy || sender->flights.again_chunks) {
        uint64_t pause_ns = weft_pace_wait(pace, now_ns);
        if (pause_ns) {
            weft_waits_until(waits, now_ns + pause_ns);
            return WEFT_AGAIN;
        }
        const weft_chunk chunk = next_chunk(sender);
        weft_status status = write_chunk(sender, &chunk, now_ns);
        if (sender->posting.again)
            waits->blind = true; /* because nothing may be under way whose end would wake this thread */
        if (status != WEFT_OK)
            return status;
        weft_pace_charge(pace, chunk.bytes);
    }
    return sender->flights.slots_free > 0 ? WEFT_OK : WEFT_AGAIN;
}

static weft_status poll_rail(weft_sender *sender, uint32_t at, uint64_t now_ns, bool *any)
{
    weft_completion list[POLL_BATCH];
    weft_rail *rail = &sender->rails.list[at];
    size_t count = rail->outlet->provider->poll(rail->port, list, POLL_BATCH);
    *any = *any || count > 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind == WEFT_COMPLETION_FAILED) {
            weft_fail_quiet(WEFT_E_PEER_LOST, "the fabric reports a failed write (%s)",
                            weft_status_name(list[i].status));
            return weft_rail_fail(sender, rail, weft_last_error());
        }
        if (list[i].kind != WEFT_COMPLETION_WRITTEN)
            continue;
        rail->writes--;
        rail->moved_ns = now_ns;
        if (list[i].cookie >= WEFT_SLOTS_MAX)
            continue;
        weft_flight *flight = &sender->flights.list[list[i].cookie];
        flight->writes--;
        flight->by[at]--;
        sender->flights.writes--;
        sender->flights.progress_ns = now_ns;
        weft_flight_release(&sender->flights, flight);
    }
    return WEFT_OK;
}

weft_status weft_send_poll(weft_sender *sender, uint64_t now_ns, bool *any)
{
    weft_status status = WEFT_OK;
    *any = false;
    for (uint32_t at = 0; at < sender->rails.count && status == WEFT_OK; at++)
        if (sender->rails.list[at].port)
            status = poll_rail(sender, at, now_ns, any);
    sender->session->stirred |= *any;
    return status;
}

/* ---- from one connection to the next */

void weft_send_bind(weft_sender *sender, weft_outlets *outlets, uint32_t place)
{
    weft_buffers *buffers = outlets->buffers;
    const uint64_t first = (uint64_t)place * buffers->slots_most;
    sender->session = outlets->session;
    sender->outlets = outlets;
    sender->flights.slabs = &buffers->slabs;
    sender->flights.slots_most = buffers->slots_most;
    sender->flights.headers = buffers->headers + first * WEFT_HEADER_STRIDE;
    sender->flights.parcels = buffers->parcels ? buffers->parcels + first : NULL;
}

void weft_send_open(weft_sender *sender)
{
    weft_flights *flights = &sender->flights;
    flights->slots = sender->hello->slots < flights->slots_most ? sender->hello->slots : flights->slots_most;
    flights->slots_free = flights->slots;
    flights->next_slot = 0;
    flights->sequence = 0;
    flights->progress_ns = weft_clock_ns();
    memset(flights->list, 0, sizeof flights->list);
    weft_pace_begin(&sender->posting.pace, sender->site->rate_limit);
}

void weft_send_close(weft_sender *sender)
{
    weft_rail_close(&sender->rails);
    weft_flights_abandon(&sender->flights);
    sender->posting.busy = sender->posting.again = false;
}

/* ---- time */

bool weft_send_stalls(const weft_sender *sender, uint64_t now_ns)
{
    const uint64_t io_ns = sender->session->site->session.io_deadline_ms * WEFT_NS_PER_MS;
    return (sender->flights.writes || sender->posting.again) && now_ns > sender->flights.progress_ns + io_ns;
}

void weft_send_wait(const weft_sender *sender, weft_waits *waits)
{
    for (uint32_t at = 0; at < sender->rails.count; at++) {
        const weft_rail *rail = &sender->rails.list[at];
        if (rail->port && (rail->writes || sender->posting.again))
            weft_waits_port(waits, rail->outlet->provider, rail->port);
    }
}
