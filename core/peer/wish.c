/* wish.c - takes, looks up and passes over the versions that peers name. */
#include "peer/wish.h"

#include "base/status.h"
#include "peer/peer.h"

weft_status weft_wish_take(weft_peer *peer, const uint8_t *body, uint64_t length)
{
    uint64_t number;
    weft_status status = weft_wire_get_word(body, length, &number);
    if (status != WEFT_OK)
        return status;
    if (!peer->wish.named)
        return weft_fail(WEFT_E_PROTOCOL, "%s wants version %llu, and its HELLO says that it gets each version",
                         peer->claim.name, (unsigned long long)number);
    peer->wish.number = number;
    peer->wish.since_ns = weft_clock_ns();
    peer->wish.open = true;
    return WEFT_OK;
}

void weft_wish_overtake(weft_wish *wish, const weft_version *version)
{
    wish->open = wish->open && version->number <= wish->number;
}

void weft_wish_renew(weft_wish *wish, uint64_t newest)
{
    const bool later = wish->open && wish->number > newest;
    if (!wish->named || later)
        return;
    wish->open = true;
    wish->number = newest;
}

bool weft_wish_equal(const weft_wish *a, const weft_wish *b)
{
    return a->named == b->named && (!a->named || (a->open == b->open && a->number == b->number));
}

/* Finds the version after `order`. False: it is not kept. */
static bool version_at(weft_publisher *publisher, uint64_t order, weft_version *version)
{
    const weft_update *own = weft_journal_at(&publisher->journal, order),
                      *next = weft_journal_at(&publisher->journal, order + 1);
    if (order != publisher->newest.order && !own && !next)
        return false;
    *version = order == publisher->newest.order ? publisher->newest.version : own ? own->target : next->base;
    return true;
}

static weft_wish_answer passed(const weft_peer *peer, weft_wire_pass reason, uint64_t below, uint64_t above)
{
    return (weft_wish_answer){.state = WEFT_WISH_PASSED, .passed = {peer->wish.number, reason, below, above}};
}

/* Goes back from the newest version to what the peer was sent. Versions of another run, which came out of a store, lie
 * before all of this run, and nobody wants them. */
static weft_wish_answer search(weft_publisher *publisher, const weft_peer *peer)
{
    weft_version version;
    uint64_t above = 0;
    for (uint64_t order = publisher->newest.order; order > peer->standing.sent_order; order--) {
        if (!version_at(publisher, order, &version))
            return (weft_wish_answer){.state = WEFT_WISH_GONE};
        if (version.run != publisher->run)
            break;
        if (version.number == peer->wish.number)
            return (weft_wish_answer){.state = WEFT_WISH_AHEAD, .order = order};
        if (version.number < peer->wish.number)
            return passed(peer, WEFT_PASS_SKIPPED, version.number, above);
        above = version.number;
    }
    return passed(peer, WEFT_PASS_BEHIND, 0, above);
}

weft_wish_answer weft_wish_look(weft_publisher *publisher, const weft_peer *peer)
{
    const weft_newest *newest = &publisher->newest;
    weft_version sent;
    if (!peer->wish.open || peer->wish.number > newest->version.number ||
        peer->standing.sent_order == WEFT_ORDER_UNKNOWN)
        return (weft_wish_answer){.state = WEFT_WISH_NONE};
    if (version_at(publisher, peer->standing.sent_order, &sent) && sent.run == publisher->run &&
        sent.number == peer->wish.number)
        return (weft_wish_answer){.state = WEFT_WISH_REACHED};
    return search(publisher, peer);
}

weft_status weft_wish_offer(const weft_newest *newest, weft_peer *peer)
{
    if (!peer->wish.named)
        return WEFT_OK;
    return weft_control_word(&peer->connection.control, WEFT_MESSAGE_OFFERED, newest->version.number);
}

weft_status weft_wish_pass(weft_peer *peer, const weft_wire_passed *passed)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_passed(&out, passed);
    peer->wish.open = false;
    weft_log(WEFT_LOG_INFO, "%s: version %llu is passed over: %s", peer->claim.name, (unsigned long long)passed->number,
             weft_wire_pass_text(passed->reason));
    return weft_control_send(&peer->connection.control, WEFT_MESSAGE_PASSED, out.data, out.used);
}
