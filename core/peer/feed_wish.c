/* feed_wish.c - what a peer is sent that names its versions: one update to the version that it wants. */
#include "base/status.h"
#include "peer/feed.h"
#include "peer/peer.h"

/* Nothing more is wanted. What a peer with the newest bits still lacks is their attachment, and the version's name. */
static weft_status reached(weft_publisher *publisher, weft_peer *peer, bool idle)
{
    if (!idle && peer->standing.sent_order == publisher->newest.order &&
        weft_feed_owes_attachment(&publisher->newest, &peer->standing))
        return WEFT_AGAIN;
    peer->wish.open = false;
    return peer->standing.sent_order == publisher->newest.order ? weft_feed_attachment(publisher, peer, idle)
                                                                : WEFT_AGAIN;
}

/* Finds one update to the version of that order: the journal's next, or a merged one. WEFT_AGAIN: it is being made.
 * WEFT_E_BUDGET: there is none that the peer can take. */
static weft_status find(weft_publisher *publisher, weft_peer *peer, uint64_t order, weft_update **update)
{
    const uint64_t from = peer->standing.sent_order;
    weft_level level = weft_feed_merged_level(peer);
    *update = weft_journal_after(&publisher->journal, from);
    if ((*update)->order == order)
        return weft_feed_fits(peer, &publisher->journal.arena, *update) ? WEFT_OK : WEFT_E_BUDGET;
    weft_status status = weft_bridge_want(&publisher->bridge, from, order, level, update);
    const bool large = status == WEFT_OK && !weft_feed_fits(peer, &publisher->journal.arena, *update);
    if ((status == WEFT_E_BUDGET || large) && level != WEFT_LEVEL_FAST)
        status = weft_bridge_want(&publisher->bridge, from, order, WEFT_LEVEL_FAST, update);
    if (status == WEFT_OK && !weft_feed_fits(peer, &publisher->journal.arena, *update))
        status = WEFT_E_BUDGET;
    return status;
}

/* A snapshot brings the peer to the newest version, which is the one that it wants or a later one. So the wish stays
 * open, and is not passed over. A snapshot is offered to a peer that owes nothing. */
static weft_status by_snapshot(weft_publisher *publisher, weft_peer *peer, const weft_update *next, bool idle)
{
    return idle ? weft_feed_instead(publisher, peer, next) : WEFT_AGAIN;
}

/* No update that the peer can take brings it to what it wants. A nearer version may do, which is named. */
static weft_status too_large(weft_publisher *publisher, weft_peer *peer, bool idle)
{
    const weft_update *next = weft_journal_after(&publisher->journal, peer->standing.sent_order);
    if (!next || next->target.run != publisher->run || !weft_feed_fits(peer, &publisher->journal.arena, next))
        return by_snapshot(publisher, peer, next, idle);
    const weft_wire_passed passed = {
        .number = peer->wish.number, .reason = WEFT_PASS_LARGE, .below = next->target.number};
    weft_status status = weft_wish_pass(peer, &passed);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

weft_status weft_feed_wish(weft_publisher *publisher, weft_peer *peer, bool idle)
{
    const weft_wish_answer answer = weft_wish_look(publisher, peer);
    weft_update *update = NULL;
    weft_status status;
    switch (answer.state) {
    case WEFT_WISH_NONE:
        return WEFT_AGAIN;
    case WEFT_WISH_REACHED:
        return reached(publisher, peer, idle);
    case WEFT_WISH_GONE:
        return by_snapshot(publisher, peer, NULL, idle);
    case WEFT_WISH_PASSED:
        status = weft_wish_pass(peer, &answer.passed);
        return status == WEFT_OK ? WEFT_AGAIN : status;
    case WEFT_WISH_AHEAD:
        break;
    }
    if (!weft_feed_leads(&publisher->journal, peer->standing.sent_order, answer.order))
        return by_snapshot(publisher, peer, NULL, idle);
    status = find(publisher, peer, answer.order, &update);
    if (status == WEFT_OK)
        return weft_feed_begin(publisher, peer, update);
    return status == WEFT_AGAIN ? status : too_large(publisher, peer, idle);
}
