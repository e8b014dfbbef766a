/* trainer_step.c - takes one step of the trainer's session: the stages for each peer, in order. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/status.h"
#include "peer/peer.h"
#include "trainer/publish.h"
#include "wire/guest.h"

static weft_peer *free_record(weft_peer_table *peers)
{
    weft_peer *lost = NULL;
    for (uint32_t i = 0; i < peers->count; i++) {
        weft_peer *peer = &peers->list[i];
        if (weft_peer_connected(peer))
            continue;
        if (!peer->claim.known)
            return peer;
        lost = lost ? lost : peer;
    }
    if (!lost)
        return NULL;
    weft_peer_move(lost, WEFT_ON_FORGOTTEN);
    weft_log_limit_end(&lost->claim.limit);
    lost->claim.known = false;
    return lost;
}

/* Lists those who have not said who they are. Returns their count. */
static uint32_t list_guests(weft_peer_table *peers, weft_guest guests[WEFT_GUESTS_MOST],
                            weft_peer *records[WEFT_GUESTS_MOST])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < peers->count && count < WEFT_GUESTS_MOST; i++) {
        weft_peer *peer = &peers->list[i];
        if (!weft_peer_connected(peer) || peer->connection.greeted)
            continue;
        records[count] = peer;
        guests[count++] = (weft_guest){&peer->connection.control, peer->connection.opened_ns, peer->connection.leaving};
    }
    return count;
}

/* Finds a place for a newcomer. `*turned` counts the guests that made room. NULL: there is none. */
static weft_peer *find_place(weft_peer_table *peers, const weft_site *site, uint32_t *turned)
{
    weft_guest guests[WEFT_GUESTS_MOST];
    weft_peer *records[WEFT_GUESTS_MOST];
    const uint32_t count = list_guests(peers, guests, records);
    weft_peer *place = count < site->guests.most ? free_record(peers) : NULL;
    if (place || count == 0)
        return place;
    weft_peer *guest = records[weft_guest_pick(guests, count)];
    ++*turned;
    weft_log(WEFT_LOG_DEBUG, "%s makes room: it did not say who it is", guest->connection.control.peer);
    weft_peer_lose(peers, guest, WEFT_OK, "it made room");
    return free_record(peers);
}

/* Returns true if a newcomer's host has as many guests as it may have. */
static bool is_one_more(weft_peer_table *peers, const weft_peer *newcomer)
{
    weft_guest guests[WEFT_GUESTS_MOST];
    weft_peer *records[WEFT_GUESTS_MOST];
    const uint32_t count = list_guests(peers, guests, records);
    return weft_guest_is_one_more(newcomer->session->site, guests, count, &newcomer->connection.control);
}

static void refuse_one_more(weft_door *door, weft_peer *newcomer)
{
    weft_log_sink *before = weft_log_enter(&door->strangers.sink);
    weft_log(WEFT_LOG_WARN, "a connection from %s was closed: guests_per_address have not said who they are",
             newcomer->connection.control.peer);
    weft_log_enter(before);
    weft_control_hang_up(&newcomer->connection.control);
}

/* Accepts guests. Returns false if no descriptor can be had now; what waits is left for a later step. */
static bool accept_guests(weft_trainer *trainer)
{
    uint32_t turned = 0;
    while (turned < WEFT_GUESTS_TURN) {
        int fd = accept4(trainer->door.listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && weft_descriptors_short(errno))
            continue;
        if (fd < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        weft_peer *guest = find_place(&trainer->peers, trainer->session->site, &turned);
        if (!guest) {
            close(fd);
            weft_log_sink *before = weft_log_enter(&trainer->door.strangers.sink);
            weft_log(WEFT_LOG_WARN, "a connection was closed: %u peers and guests are connected", trainer->peers.count);
            weft_log_enter(before);
            continue;
        }
        weft_control_adopt(&guest->connection.control, fd, trainer->session->site->session.io_deadline_ms);
        weft_control_guard(&guest->connection.control, trainer->session->guard, NULL);
        if (is_one_more(&trainer->peers, guest)) {
            refuse_one_more(&trainer->door, guest);
            continue;
        }
        guest->connection.opened_ns = weft_clock_ns();
        guest->connection.greeted = guest->connection.leaving = false;
        trainer->peers.watch.stirred[weft_peer_index(&trainer->peers, guest)] = true;
    }
    return true;
}

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
static void tell_left_out(weft_door *door, weft_peer_table *peers)
{
    const uint64_t now_ns = weft_clock_ns();
    if (now_ns < door->told_ns + 1000 * WEFT_NS_PER_MS)
        return;
    door->told_ns = now_ns;
    weft_log_limit_tell(&door->strangers);
    weft_log_limit_tell(&door->comers);
    for (uint32_t i = 0; i < peers->count; i++)
        weft_log_limit_tell(&peers->list[i].claim.limit);
}

void weft_trainer_step(weft_session *session, bool work, weft_waits *waits)
{
    weft_trainer *trainer = session->trainer;
    bool starved = false, all = session->woken || trainer->peers.again;
    trainer->peers.again = false;
    tell_left_out(&trainer->door, &trainer->peers);
    session->woken = session->woken && !work;
    if (accept_guests(trainer))
        weft_waits_fd(waits, trainer->door.listen_fd, POLLIN);
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
