/* trainer_step.c - one step of the trainer's session: the order of the stages for its peers. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/status.h"
#include "peer/peer.h"
#include "trainer/publish.h"
#include "wire/guest.h"

static weft_peer *free_record(weft_trainer *trainer)
{
    weft_peer *lost = NULL;
    for (uint32_t i = 0; i < trainer->peer_count; i++) {
        weft_peer *peer = &trainer->peers[i];
        if (weft_peer_connected(peer))
            continue;
        if (!peer->known)
            return peer;
        lost = lost ? lost : peer;
    }
    if (!lost)
        return NULL;
    weft_peer_move(trainer, lost, WEFT_ON_FORGOTTEN);
    weft_log_limit_end(&lost->limit);
    lost->known = false;
    return lost;
}

/* Those who have not said who they are; their count. */
static uint32_t list_guests(weft_trainer *trainer, weft_guest guests[WEFT_GUESTS_MOST],
                            weft_peer *records[WEFT_GUESTS_MOST])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < trainer->peer_count && count < WEFT_GUESTS_MOST; i++) {
        weft_peer *peer = &trainer->peers[i];
        if (!weft_peer_connected(peer) || peer->greeted)
            continue;
        records[count] = peer;
        guests[count++] = (weft_guest){&peer->control, peer->opened_ns, peer->leaving};
    }
    return count;
}

/* For a newcomer; `turned` counts the guests that made room for one. NULL: there is none. */
static weft_peer *find_place(weft_trainer *trainer, uint32_t *turned)
{
    weft_guest guests[WEFT_GUESTS_MOST];
    weft_peer *records[WEFT_GUESTS_MOST];
    const uint32_t count = list_guests(trainer, guests, records);
    weft_peer *place = count < WEFT_GUESTS_MOST ? free_record(trainer) : NULL;
    if (place || count == 0)
        return place;
    weft_peer *guest = records[weft_guest_pick(guests, count)];
    ++*turned;
    weft_log(WEFT_LOG_DEBUG, "%s makes room: it did not say who it is", guest->control.peer);
    weft_peer_lose(trainer, guest, WEFT_OK, "it made room");
    return free_record(trainer);
}

/* False: no descriptor can be had now; what waits is left for a later step. */
static bool accept_guests(weft_trainer *trainer)
{
    uint32_t turned = 0;
    while (turned < WEFT_GUESTS_TURN) {
        int fd = accept4(trainer->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && weft_descriptors_short(errno))
            continue;
        if (fd < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        weft_peer *guest = find_place(trainer, &turned);
        if (!guest) {
            close(fd);
            weft_log_sink *before = weft_log_enter(&trainer->strangers.sink);
            weft_log(WEFT_LOG_WARN, "a connection was closed: %u peers and guests are connected", trainer->peer_count);
            weft_log_enter(before);
            continue;
        }
        weft_control_adopt(&guest->control, fd, trainer->session->site->session.io_deadline_ms);
        weft_control_guard(&guest->control, trainer->session->guard, NULL);
        guest->opened_ns = weft_clock_ns();
        guest->greeted = guest->leaving = false;
        trainer->watch.stirred[weft_peer_index(trainer, guest)] = true;
    }
    return true;
}

/* Takes what moved before deadlines are judged: it may have waited for this end. */
static weft_status poll_data(weft_trainer *trainer, weft_peer *peer, weft_waits *waits)
{
    bool any = false;
    if (!peer->greeted || peer->leaving)
        return WEFT_OK;
    weft_status status = weft_send_poll(trainer, peer, weft_clock_ns(), &any);
    waits->busy = waits->busy || (status == WEFT_OK && any);
    return status;
}

/* Ports without writes under way have nothing to say. */
static void wait_for_ports(weft_trainer *trainer, weft_waits *waits)
{
    for (uint32_t i = 0; i < trainer->peer_count; i++) {
        const weft_peer *peer = &trainer->peers[i];
        for (uint32_t at = 0; trainer->watch.stirred[i] && at < peer->rail_count; at++)
            if (peer->rails[at].port && (peer->rails[at].writes || peer->again))
                weft_waits_port(waits, peer->outlet->provider, peer->rails[at].port);
    }
}

static void serve(weft_trainer *trainer, weft_peer *peer, bool work, weft_waits *waits)
{
    weft_peer_listen(trainer, peer);
    if (!weft_peer_connected(peer))
        return;
    weft_status status = poll_data(trainer, peer, waits);
    uint64_t now_ns = weft_clock_ns();
    if (status == WEFT_OK)
        status = weft_peer_check_time(trainer, peer, now_ns, waits);
    if (status == WEFT_OK && work && peer->greeted && !peer->leaving)
        status = weft_send_pump(trainer, peer, now_ns, waits);
    if (status == WEFT_OK)
        status = weft_control_flush(&peer->control);
    if (status != WEFT_OK) {
        weft_peer_lose(trainer, peer, status, weft_last_error());
        return;
    }
    bool writes = weft_control_wants_write(&peer->control);
    if (peer->leaving && !writes)
        weft_peer_lose(trainer, peer, WEFT_OK, "turned away");
    else if (!weft_watch_control(&trainer->watch, &peer->control, weft_peer_index(trainer, peer), !peer->leaving,
                                 writes))
        waits->blind = true;
}

/* Whether a peer is to be looked at in every step: data are on their way to it, or only other peers' doings will wake
 * it. All else that concerns it comes on its connection, at a time, or with weft_session_wake. */
static bool is_active(const weft_peer *peer)
{
    bool streams = peer->feed.kind == WEFT_FEED_UPDATE || peer->feed.kind == WEFT_FEED_SNAPSHOT;
    bool sends = streams && peer->slots_free > 0; /* a slot comes back with a receipt */
    return weft_peer_connected(peer) && (sends || peer->posting || peer->again_chunks || peer->writes ||
                                         weft_rail_writes(peer) || peer->again || peer->starved);
}

/* Serves a peer and notes when it is to be served next. */
static void serve_due(weft_trainer *trainer, uint32_t index, bool work, weft_waits *waits)
{
    weft_peer *peer = &trainer->peers[index];
    uint64_t wake_ns = waits->wake_ns;
    peer->starved = peer->starved && !work;
    trainer->watch.stirred[index] = false;
    waits->wake_ns = UINT64_MAX;
    weft_log_sink *before = weft_log_enter(peer->greeted ? &peer->limit.sink : &trainer->strangers.sink);
    if (weft_peer_connected(peer))
        serve(trainer, peer, work, waits);
    weft_log_enter(before);
    trainer->watch.due_ns[index] = weft_peer_connected(peer) ? waits->wake_ns : UINT64_MAX;
    trainer->watch.stirred[index] |= is_active(peer) || (!work && weft_peer_connected(peer));
    weft_waits_until(waits, wake_ns);
}

/* Each second: what was left out of the log. */
static void tell_left_out(weft_trainer *trainer)
{
    const uint64_t now_ns = weft_clock_ns();
    if (now_ns < trainer->told_ns + 1000 * WEFT_NS_PER_MS)
        return;
    trainer->told_ns = now_ns;
    weft_log_limit_tell(&trainer->strangers);
    weft_log_limit_tell(&trainer->comers);
    for (uint32_t i = 0; i < trainer->peer_count; i++)
        weft_log_limit_tell(&trainer->peers[i].limit);
}

void weft_trainer_step(weft_session *session, bool work, weft_waits *waits)
{
    weft_trainer *trainer = session->trainer;
    bool starved = false, all = session->woken || trainer->again;
    trainer->again = false;
    tell_left_out(trainer);
    session->woken = session->woken && !work;
    if (accept_guests(trainer))
        weft_waits_fd(waits, trainer->listen_fd, POLLIN);
    weft_watch_gather(&trainer->watch);
    uint64_t now_ns = weft_clock_ns();
    for (uint32_t i = 0; i < trainer->peer_count; i++) {
        if (all || weft_watch_due(&trainer->watch, i, now_ns)) {
            serve_due(trainer, i, work, waits);
            starved = starved || (work && trainer->peers[i].starved);
        } else {
            weft_waits_until(waits, trainer->watch.due_ns[i]);
        }
    }
    if (trainer->again || (starved && trainer->slabs.free_count))
        waits->busy = true;
    weft_waits_fd(waits, trainer->watch.fd, POLLIN);
    wait_for_ports(trainer, waits);
}
