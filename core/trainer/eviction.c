/* eviction.c - gives up parts of the journal when publish needs room, first what is cheapest to have again. */
#include "base/status.h"
#include "trainer/publish.h"

static bool reads(const weft_peer *peer, const weft_update *update)
{
    const weft_feed *feed = &peer->feed;
    bool found = feed->update == update;
    for (uint32_t slot = 0; slot < peer->sender.flights.slots; slot++)
        found = found || (peer->sender.flights.list[slot].used && peer->sender.flights.list[slot].update == update);
    return found || (peer->sender.posting.busy && peer->sender.posting.update == update);
}

/* Gives up levels beside the journal's own, of versions that are no longer the newest. Peers go on with fast. */
static bool give_up_levels(weft_journal *journal, const weft_newest *newest)
{
    for (uint64_t order = journal->oldest; order < newest->order; order++) {
        weft_update *update = weft_journal_at(journal, order);
        if (update->readers || !(update->levels & ~(1u << WEFT_JOURNAL_LEVEL)))
            continue;
        for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
            if (level != WEFT_JOURNAL_LEVEL && update->levels >> level & 1)
                weft_chain_free(&journal->arena, &update->chain[level]);
        update->levels = 1u << WEFT_JOURNAL_LEVEL;
        return true;
    }
    return false;
}

/* Finds the oldest update with frames that no peer reads. With `pinned` that may be one that a merge reads. */
static weft_update *oldest_unread(weft_journal *journal, bool pinned)
{
    for (uint64_t order = journal->oldest; order < journal->next; order++) {
        weft_update *update = weft_journal_at(journal, order);
        if (update->levels && update->readers == 0 && (pinned || update->pins == 0))
            return update;
    }
    return NULL;
}

static bool give_up_unread(weft_publisher *publisher)
{
    weft_update *update = oldest_unread(&publisher->journal, false);
    if (!update)
        update = oldest_unread(&publisher->journal, true);
    if (!update)
        return false;
    weft_bridge_break(&publisher->bridge, update);
    weft_journal_empty(&publisher->journal, update);
    return true;
}

void weft_eviction_of_readers(weft_peer_table *peers, const weft_update *update)
{
    for (uint32_t i = 0; update->readers && i < peers->count; i++)
        if (peers->list[i].connection.greeted && reads(&peers->list[i], update)) {
            weft_peer_move(&peers->list[i], WEFT_ON_EVICTED);
            weft_peer_lose(peers, &peers->list[i], WEFT_E_PEER_LOST,
                           "it lags and the journal is full; raise [trainer] journal, or its link is too slow");
        }
}

static bool give_up_read(weft_publisher *publisher)
{
    weft_journal *journal = &publisher->journal;
    for (uint64_t order = journal->oldest; order < journal->next; order++) {
        weft_update *update = weft_journal_at(journal, order);
        if (!update->levels)
            continue;
        weft_eviction_of_readers(publisher->peers, update);
        weft_bridge_break(&publisher->bridge, update);
        weft_journal_empty(journal, update);
        return true;
    }
    return false;
}

bool weft_eviction_give_up(weft_publisher *publisher)
{
    weft_log_sink *before = weft_session_enter(publisher->session);
    bool made = weft_eager_give_up(publisher, false) || give_up_levels(&publisher->journal, &publisher->newest) ||
                weft_bridge_yield(&publisher->bridge) || give_up_unread(publisher) ||
                weft_eager_give_up(publisher, true) || give_up_read(publisher);
    weft_session_leave(publisher->session, before);
    return made;
}

void weft_eviction_make_place(weft_publisher *publisher)
{
    weft_journal *journal = &publisher->journal;
    while (weft_journal_full(journal)) {
        weft_update *oldest = weft_journal_oldest(journal);
        weft_eviction_of_readers(publisher->peers, oldest);
        weft_bridge_break(&publisher->bridge, oldest);
        weft_journal_drop(journal);
    }
}

/* Merges keep their share as long as anything else can be given up. */
bool weft_eviction_extend(weft_publisher *publisher, weft_chain *chain)
{
    weft_arena *arena = &publisher->journal.arena;
    while (!weft_chain_extend_leaving(arena, chain, weft_bridge_claim(&publisher->bridge)))
        if (!weft_eviction_give_up(publisher))
            return weft_chain_extend(arena, chain);
    return true;
}
