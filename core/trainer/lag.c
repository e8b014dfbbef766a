/* lag.c - says how many versions peers lack, and does what the site wants done about that. */
#include <stdio.h>

#include "base/status.h"
#include "trainer/publish.h"

uint64_t weft_peer_lag_ns(weft_journal *journal, const weft_newest *newest, const weft_peer *peer)
{
    uint64_t since_ns = peer->connection.opened_ns, now_ns = weft_clock_ns();
    if (peer->standing.held_order == newest->order)
        return 0;
    if (peer->standing.held_order != WEFT_ORDER_UNKNOWN) {
        const weft_update *missed = weft_journal_at(journal, peer->standing.held_order + 1);
        if (!missed)
            missed = weft_journal_oldest(journal);
        since_ns = missed ? missed->published_ns : now_ns;
    }
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

/* Returns how many versions the peer did not take of those published since it joined. What the peer lacked then does
 * not count. */
static uint64_t owed(const weft_newest *newest, const weft_standing *standing)
{
    uint64_t from = standing->joined_order;
    if (standing->held_order != WEFT_ORDER_UNKNOWN && standing->held_order > from)
        from = standing->held_order;
    return newest->order - from;
}

void weft_lag_judge(weft_publisher *publisher, weft_peer *peer)
{
    uint64_t most = peer->site.max_lag, lag = owed(&publisher->newest, &peer->standing);
    bool before = peer->standing.lagging;
    char text[192];
    peer->standing.lagging = most > 0 && lag > most && peer->feed.kind != WEFT_FEED_SNAPSHOT;
    if (!peer->standing.lagging || before)
        return;
    snprintf(text, sizeof text, "lags %llu versions, %.1f s; max_lag = %llu", (unsigned long long)lag,
             (double)weft_peer_lag_ns(&publisher->journal, &publisher->newest, peer) / 1e9, (unsigned long long)most);
    weft_log(WEFT_LOG_WARN, "%s %s", peer->claim.name, text);
    weft_session_event(publisher->session, WEFT_EVENT_LAGGING, WEFT_OK, peer->claim.name, &peer->standing.held, text);
    if (peer->site.lag_action != WEFT_LAG_DROP)
        return;
    weft_peer_move(peer, WEFT_ON_EVICTED);
    weft_peer_lose(publisher->peers, peer, WEFT_E_PEER_LOST, text);
}
