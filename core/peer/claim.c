/* claim.c - gives a guest the record of the name that it claims. Each name has one connection.
 *
 * A record of that name that is not connected becomes the guest's. If the peer of that name seems to be gone, the
 * newcomer takes the name over. If the peer lives, the newcomer is refused. While that is not known, the newcomer is to
 * come again. If all places are taken, a peer that held nothing for long gives way. */
#include "peer/claim.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "peer/peer.h"

/* Returns true if a newcomer of the same name is the peer itself, or its next life. A live peer is heard every quarter
 * of its heartbeat. So one that is silent for half of it is the connection of a process that is gone. */
static bool succeeds(const weft_peer *peer, const weft_wire_hello *hello)
{
    uint64_t silence_ns = weft_clock_ns() - peer->connection.control.heard_ns;
    bool silent = silence_ns > peer->site.heartbeat_ms * WEFT_NS_PER_MS / 2;
    return hello->incarnation == peer->claim.hello.incarnation ||
           (silent && hello->incarnation > peer->claim.hello.incarnation);
}

/* Time for which a rival's question stands: twice the longest pause of a rollout between two dials, and some more. */
#define RIVAL_NS (2500 * WEFT_NS_PER_MS)

/* Returns true if it is not known yet whether another incarnation may have the name. It may be the next life of a peer
 * whose end nobody has reported here. Even an earlier incarnation may be, because its clock may have gone back. It
 * comes again until the old one was heard once more, and so lives, or has been silent for long enough. One rival asks
 * at a time, until it has its answer. Otherwise two rivals would replace each other for ever. */
static bool may_succeed(weft_peer_table *peers, weft_peer *peer, const weft_wire_hello *hello)
{
    const uint64_t now_ns = weft_clock_ns();
    if (peer->claim.rival == 0 || now_ns > peer->claim.rival_ns + RIVAL_NS) {
        peer->claim.rival = hello->incarnation;
        peer->claim.rival_ns = now_ns;
        peer->connection.pinged_ns = 0; /* so the peer is asked at once */
        peers->again = true;
    }
    if (peer->claim.rival != hello->incarnation || peer->connection.control.heard_ns <= peer->claim.rival_ns)
        return true;
    peer->claim.rival = 0;
    return false;
}

/* Ends an idle peer, because another wants its name or its place, and it kept that for long enough. */
static void give_way(weft_peer_table *peers, weft_peer *peer, weft_peer_event event, const char *to)
{
    char why[192];
    snprintf(why, sizeof why, "it held and took nothing for io_deadline + heartbeat, and gives way to %s", to);
    weft_peer_move(peer, event);
    weft_peer_lose(peers, peer, WEFT_E_PEER_LOST, why);
}

static weft_status refuse_later(const weft_peer *idle, const weft_wire_hello *hello)
{
    weft_fail_quiet(WEFT_E_SYSTEM,
                    "%s has to wait: who has its %s holds nothing yet, and gives way in %llu ms at the latest",
                    hello->name, strcmp(idle->claim.name, hello->name) == 0 ? "name" : "place",
                    (unsigned long long)(weft_peer_stays_ns(idle) / WEFT_NS_PER_MS + 1));
    weft_fail_outside("%s", weft_last_error());
    return WEFT_E_SYSTEM;
}

/* Returns true if the site gives a live peer's name to a later incarnation that proved it. An earlier one never gets it
 * back, because two that live would throw each other out for ever. */
static bool replaces(const weft_peer *peer, const weft_peer *guest, const weft_wire_hello *hello)
{
    return guest->connection.control.guard && guest->session->site->replace == WEFT_REPLACE_YES &&
           hello->incarnation > peer->claim.hello.incarnation;
}

/* Ends the connection of the peer whose name is wanted, or refuses the newcomer. */
static weft_status take_name(weft_peer_table *peers, weft_peer *peer, const weft_peer *guest,
                             const weft_wire_hello *hello)
{
    if (succeeds(peer, hello) || replaces(peer, guest, hello)) {
        weft_peer_move(peer, WEFT_ON_REPLACED);
        weft_peer_lose(peers, peer, WEFT_E_PEER_LOST, "it came back on a new connection");
        return WEFT_OK;
    }
    if (weft_peer_is_idle(peer) && weft_peer_stays_ns(peer) == 0) {
        give_way(peers, peer, WEFT_ON_REPLACED, "another of its name");
        return WEFT_OK;
    }
    const bool unknown = may_succeed(peers, peer, hello);
    if (weft_peer_is_idle(peer))
        return refuse_later(peer, hello);
    if (unknown) {
        weft_fail_quiet(WEFT_E_SYSTEM, "whether the peer named %s at %s is gone is not known yet", hello->name,
                        peer->connection.control.peer);
        weft_fail_outside("whether the peer named %s that was here is gone is not known yet", hello->name);
        return WEFT_E_SYSTEM;
    }
    weft_fail(WEFT_E_REFUSED, "a peer named %s is live already, from %s; two peers cannot share a name", hello->name,
              peer->connection.control.peer);
    weft_fail_outside("a peer named %s is live already; two peers cannot share a name", hello->name);
    return WEFT_E_REFUSED;
}

/* Makes a place for a newcomer, because all are taken: ends the peer that has been idle for longest. */
static weft_status take_place(weft_peer_table *peers, const weft_wire_hello *hello)
{
    weft_peer *idle = NULL;
    for (uint32_t i = 0; i < peers->count; i++) {
        weft_peer *peer = &peers->list[i];
        if (weft_peer_is_idle(peer) && (!idle || weft_peer_stays_ns(peer) < weft_peer_stays_ns(idle)))
            idle = peer;
    }
    if (!idle)
        return weft_fail(WEFT_E_REFUSED, "%s: max_peers are live already", hello->name);
    if (weft_peer_stays_ns(idle) > 0)
        return refuse_later(idle, hello);
    give_way(peers, idle, WEFT_ON_EVICTED, hello->name);
    return WEFT_OK;
}

weft_status weft_claim_take(weft_peer_table *peers, weft_peer *guest, const weft_wire_hello *hello, weft_peer **record)
{
    uint32_t others = 0;
    *record = guest;
    for (uint32_t i = 0; i < peers->count; i++) {
        weft_peer *peer = &peers->list[i];
        if (peer == guest || !peer->claim.known)
            continue;
        if (strcmp(peer->claim.name, hello->name) != 0) {
            others += peer->connection.greeted;
            continue;
        }
        weft_status status = peer->connection.greeted ? take_name(peers, peer, guest, hello) : WEFT_OK;
        if (status != WEFT_OK)
            return status;
        *record = peer;
    }
    weft_status status = WEFT_OK;
    if (others >= guest->session->site->trainer.max_peers)
        status = take_place(peers, hello);
    if (status != WEFT_OK)
        return status;
    if (*record != guest) {
        weft_control swap = (*record)->connection.control;
        peers->again = true; /* this step has passed the record */
        (*record)->connection.control = guest->connection.control;
        guest->connection.control = swap;
        (*record)->connection.opened_ns = guest->connection.opened_ns;
        (*record)->connection.leaving = false;
    }
    return WEFT_OK;
}
