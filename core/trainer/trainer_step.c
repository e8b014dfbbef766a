/* trainer_step.c - takes one step of the trainer's session: the stages for each peer, in order. */
#include <stdio.h>

#include "base/status.h"
#include "peer/peer.h"
#include "trainer/publish.h"

/* ---- guests */

/* Finds a record for a guest. One that was lost is forgotten for a newcomer. */
static weft_control *find_record(void *owner, uint32_t *place)
{
    weft_peer_table *peers = owner;
    weft_peer *found = NULL;
    for (uint32_t i = 0; i < peers->count && (!found || found->claim.known); i++)
        if (!weft_peer_connected(&peers->list[i]) && (!found || !peers->list[i].claim.known))
            found = &peers->list[i];
    if (!found)
        return NULL;
    if (found->claim.known) {
        weft_peer_move(found, WEFT_ON_FORGOTTEN);
        weft_log_limit_end(&found->claim.limit);
        found->claim.known = false;
    }
    *place = weft_peer_index(peers, found);
    return &found->connection.control;
}

static uint32_t list_guests(void *owner, weft_guest guests[WEFT_GUESTS_MOST])
{
    const weft_peer_table *peers = owner;
    uint32_t count = 0;
    for (uint32_t i = 0; i < peers->count && count < WEFT_GUESTS_MOST; i++) {
        const weft_connection *connection = &peers->list[i].connection;
        if (weft_peer_connected(&peers->list[i]) && !connection->greeted)
            guests[count++] = (weft_guest){&connection->control, connection->opened_ns, connection->leaving, i};
    }
    return count;
}

static void clear_record(void *owner, uint32_t place)
{
    weft_peer_table *peers = owner;
    weft_peer_lose(peers, &peers->list[place], WEFT_OK, "it made room");
}

static void take_guest(void *owner, uint32_t place)
{
    weft_peer_table *peers = owner;
    weft_connection *connection = &peers->list[place].connection;
    connection->opened_ns = weft_clock_ns();
    connection->greeted = connection->leaving = false;
    peers->watch.stirred[place] = true;
}

const weft_door_places weft_trainer_places = {list_guests, find_record, clear_record, take_guest};

/* ---- peers */

/* Takes what moved before deadlines are judged, because that may have waited for this end. */
static weft_status poll_data(weft_peer *peer, weft_waits *waits)
{
    bool any = false;
    if (!peer->connection.greeted || peer->connection.leaving)
        return WEFT_OK;
    weft_status status = weft_send_poll(&peer->sender, weft_clock_ns(), &any);
    waits->busy = waits->busy || (status == WEFT_OK && any);
    return status;
}

/* Waits for the ports with writes under way, because the others have nothing to report. */
static void wait_for_ports(const weft_peer_table *peers, weft_waits *waits)
{
    for (uint32_t i = 0; i < peers->count; i++)
        if (peers->watch.stirred[i])
            weft_send_wait(&peers->list[i].sender, waits);
}

static void serve(weft_trainer *trainer, weft_peer *peer, bool work, weft_waits *waits)
{
    weft_peer_listen(trainer, peer, waits);
    if (!weft_peer_connected(peer))
        return;
    weft_status status = poll_data(peer, waits);
    uint64_t now_ns = weft_clock_ns();
    if (status == WEFT_OK)
        status = weft_peer_check_time(trainer, peer, now_ns, waits);
    if (status == WEFT_OK && work && peer->connection.greeted && !peer->connection.leaving)
        status = weft_feed_pump(&trainer->publisher, peer, now_ns, waits);
    if (status == WEFT_OK)
        status = weft_control_flush(&peer->connection.control);
    if (status != WEFT_OK) {
        weft_peer_lose(&trainer->peers, peer, status, weft_last_error());
        return;
    }
    bool writes = weft_control_wants_write(&peer->connection.control);
    if (peer->connection.leaving && !writes)
        weft_peer_lose(&trainer->peers, peer, WEFT_OK, "turned away");
    else if (!weft_watch_control(&trainer->peers.watch, &peer->connection.control,
                                 weft_peer_index(&trainer->peers, peer), !peer->connection.leaving, writes))
        waits->blind = true;
}

/* Returns true if a peer is to be looked at in every step: data are on their way to it, or only other peers will wake
 * it. Anything else comes on its connection, at a time, or with weft_session_wake. */
static bool is_active(const weft_peer *peer)
{
    bool streams = peer->feed.kind == WEFT_FEED_UPDATE || peer->feed.kind == WEFT_FEED_SNAPSHOT;
    bool sends = streams && peer->sender.flights.slots_free > 0; /* because a slot comes back with a receipt */
    return weft_peer_connected(peer) &&
           (sends || peer->sender.posting.busy || peer->sender.flights.again_chunks || peer->sender.flights.writes ||
            weft_rail_writes(&peer->sender.rails) || peer->sender.posting.again || peer->sender.flights.starved);
}

/* Serves a peer and notes when it is to be served next. */
static void serve_due(weft_trainer *trainer, uint32_t index, bool work, weft_waits *waits)
{
    weft_peer *peer = &trainer->peers.list[index];
    uint64_t wake_ns = waits->wake_ns;
    peer->sender.flights.starved = peer->sender.flights.starved && !work;
    trainer->peers.watch.stirred[index] = false;
    waits->wake_ns = UINT64_MAX;
    weft_log_sink *before =
        weft_log_enter(peer->connection.greeted ? &peer->claim.limit.sink : &trainer->door.strangers.sink);
    if (weft_peer_connected(peer))
        serve(trainer, peer, work, waits);
    weft_log_enter(before);
    trainer->peers.watch.due_ns[index] = weft_peer_connected(peer) ? waits->wake_ns : UINT64_MAX;
    trainer->peers.watch.stirred[index] |= is_active(peer) || (!work && weft_peer_connected(peer));
    weft_waits_until(waits, wake_ns);
}

/* Reports, each second, what was left out of the log. */
static void tell_left_out(weft_trainer *trainer)
{
    const uint64_t now_ns = weft_clock_ns();
    if (now_ns < trainer->told_ns + 1000 * WEFT_NS_PER_MS)
        return;
    trainer->told_ns = now_ns;
    weft_log_limit_tell(&trainer->door.strangers);
    weft_log_limit_tell(&trainer->comers);
    for (uint32_t i = 0; i < trainer->peers.count; i++)
        weft_log_limit_tell(&trainer->peers.list[i].claim.limit);
}

void weft_trainer_step(weft_session *session, bool work, weft_waits *waits)
{
    weft_trainer *trainer = session->trainer;
    char full[96];
    bool starved = false, all = session->woken || trainer->peers.again;
    trainer->peers.again = false;
    tell_left_out(trainer);
    session->woken = session->woken && !work;
    snprintf(full, sizeof full, "a connection was closed: %u peers and guests are connected", trainer->peers.count);
    weft_door_accept(&trainer->door, full, waits);
    weft_watch_gather(&trainer->peers.watch);
    uint64_t now_ns = weft_clock_ns();
    for (uint32_t i = 0; i < trainer->peers.count; i++) {
        if (all || weft_watch_due(&trainer->peers.watch, i, now_ns)) {
            serve_due(trainer, i, work, waits);
            starved = starved || (work && trainer->peers.list[i].sender.flights.starved);
        } else {
            weft_waits_until(waits, trainer->peers.watch.due_ns[i]);
        }
    }
    if (trainer->peers.again || (starved && trainer->buffers.slabs.free_count))
        waits->busy = true;
    weft_waits_fd(waits, trainer->peers.watch.fd, POLLIN);
    wait_for_ports(&trainer->peers, waits);
}
