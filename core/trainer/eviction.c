/* eviction.c - what the journal gives up when publish needs room: first what is cheapest to have again. */
#include "base/status.h"
#include "trainer/publish.h"

static bool reads(const weft_peer *peer, const weft_update *update)
{
    const weft_feed *stream = &peer->feed;
    bool found = stream->update == update;
    for (uint32_t slot = 0; slot < peer->claim.hello.slots; slot++)
        found = found || (peer->flights.list[slot].used && peer->flights.list[slot].update == update);
    return found || (peer->posting.busy && peer->posting.update == update);
}

/* Levels beside the journal's own, of versions that are no longer the newest: peers go on with fast. */
static bool give_up_levels(weft_trainer *trainer)
{
    weft_journal *journal = &trainer->publisher.journal;
    for (uint64_t order = journal->oldest; order < trainer->publisher.newest.order; order++) {
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

/* The oldest with frames that no peer reads; what a merge reads only if there is nothing else. */
static weft_update *oldest_unread(weft_trainer *trainer, bool pinned)
{
    weft_journal *journal = &trainer->publisher.journal;
    for (uint64_t order = journal->oldest; order < journal->next; order++) {
        weft_update *update = weft_journal_at(journal, order);
        if (update->levels && update->readers == 0 && (pinned || update->pins == 0))
            return update;
    }
    return NULL;
}

static bool give_up_unread(weft_trainer *trainer)
{
    weft_update *update = oldest_unread(trainer, false);
    if (!update)
        update = oldest_unread(trainer, true);
    if (!update)
        return false;
    weft_bridge_break(trainer, update);
    weft_journal_empty(&trainer->publisher.journal, update);
    return true;
}

void weft_eviction_of_readers(weft_trainer *trainer, const weft_update *update)
{
    for (uint32_t i = 0; update->readers && i < trainer->peers.count; i++)
        if (trainer->peers.list[i].connection.greeted && reads(&trainer->peers.list[i], update)) {
            weft_peer_move(trainer, &trainer->peers.list[i], WEFT_ON_EVICTED);
            weft_peer_lose(trainer, &trainer->peers.list[i], WEFT_E_PEER_LOST,
                           "it lags and the journal is full; raise [trainer] journal, or its link is too slow");
        }
}

static bool give_up_read(weft_trainer *trainer)
{
    weft_journal *journal = &trainer->publisher.journal;
    for (uint64_t order = journal->oldest; order < journal->next; order++) {
        weft_update *update = weft_journal_at(journal, order);
        if (!update->levels)
            continue;
        weft_eviction_of_readers(trainer, update);
        weft_bridge_break(trainer, update);
        weft_journal_empty(journal, update);
        return true;
    }
    return false;
}

bool weft_eviction_give_up(weft_trainer *trainer)
{
    weft_log_sink *before = weft_session_enter(trainer->session);
    bool made = weft_eager_give_up(trainer, false) || give_up_levels(trainer) || weft_bridge_yield(trainer) ||
                give_up_unread(trainer) || weft_eager_give_up(trainer, true) || give_up_read(trainer);
    weft_session_leave(trainer->session, before);
    return made;
}

void weft_eviction_make_place(weft_trainer *trainer)
{
    weft_journal *journal = &trainer->publisher.journal;
    while (weft_journal_full(journal)) {
        weft_update *oldest = weft_journal_oldest(journal);
        weft_eviction_of_readers(trainer, oldest);
        weft_bridge_break(trainer, oldest);
        weft_journal_drop(journal);
    }
}

/* Merges keep their share as long as anything else can be given up. */
bool weft_eviction_extend(weft_trainer *trainer, weft_chain *chain)
{
    weft_arena *arena = &trainer->publisher.journal.arena;
    while (!weft_chain_extend_leaving(arena, chain, weft_bridge_claim(&trainer->publisher.bridge)))
        if (!weft_eviction_give_up(trainer))
            return weft_chain_extend(arena, chain);
    return true;
}
