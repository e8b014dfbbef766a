/* bridge_entries.c - the merged updates and repairs that a bridge keeps, and which of them it gives up. */
#include <stdatomic.h>

#include "peer/peer.h"

bool weft_bridged_is_personal(const weft_bridged *entry)
{
    return entry->repair.count > 0 || entry->catch_up.limits;
}

void weft_bridge_release(weft_bridge *bridge, weft_bridged *entry)
{
    weft_arena *arena = &bridge->publisher->journal.arena;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (entry->update.levels >> level & 1)
            bridge->blocks -= weft_chain_free(arena, &entry->update.chain[level]);
    weft_blob_drop(entry->update.attachment);
    *entry = (weft_bridged){0};
}

static bool idle(const weft_bridged *entry)
{
    return entry->state == WEFT_BRIDGED_FAILED || (entry->state == WEFT_BRIDGED_READY && entry->update.readers == 0);
}

/* Returns true if the peer still names the version that a merge was asked for by name. */
static bool names(weft_journal *journal, const weft_peer *peer, const weft_bridged *entry)
{
    const weft_update *last = weft_journal_at(journal, entry->catch_up.to);
    return peer->wish.open && last && last->target.number == peer->wish.number;
}

/* Returns true if the peer may go on with the entry. What is ready also serves those that may name its version yet. */
static bool may_go_on(weft_journal *journal, const weft_peer *peer, const weft_bridged *entry)
{
    if (weft_bridged_is_personal(entry))
        return peer->feed.made == entry && peer->feed.made_turn == entry->turn;
    const bool by_name = entry->state == WEFT_BRIDGED_WANTED && entry->catch_up.to;
    return weft_feed_stands_at(&peer->feed, &peer->standing, entry->update.from) &&
           (!by_name || names(journal, peer, entry));
}

static bool needed(weft_publisher *publisher, const weft_bridged *entry)
{
    const weft_peer_table *peers = publisher->peers;
    for (uint32_t i = 0; i < peers->count; i++) {
        const weft_peer *peer = &peers->list[i];
        const bool wants = may_go_on(&publisher->journal, peer, entry);
        if (peer->connection.greeted && wants)
            return true;
    }
    return false;
}

void weft_bridge_forsake(weft_bridge *bridge)
{
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_bridged *entry = &bridge->entries[i];
        if (entry->state == WEFT_BRIDGED_WANTED && entry->catch_up.to && !weft_bridged_is_personal(entry) &&
            !needed(bridge->publisher, entry))
            weft_bridge_release(bridge, entry);
    }
}

bool weft_bridge_yield(weft_bridge *bridge)
{
    weft_bridged *oldest = NULL;
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_bridged *entry = &bridge->entries[i];
        if (entry->state == WEFT_BRIDGED_READY && idle(entry) &&
            (!weft_bridged_is_personal(entry) || !needed(bridge->publisher, entry)) &&
            (!oldest || entry->turn < oldest->turn))
            oldest = entry;
    }
    if (oldest)
        weft_bridge_release(bridge, oldest);
    return oldest != NULL;
}

void weft_bridge_sweep(weft_bridge *bridge)
{
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_bridged *entry = &bridge->entries[i];
        bool current = entry->update.order == bridge->publisher->newest.order && !weft_bridged_is_personal(entry);
        bool over = entry->state == WEFT_BRIDGED_WANTED || (idle(entry) && !current);
        bool stale = entry->state == WEFT_BRIDGED_FAILED && !current && !weft_bridged_is_personal(entry);
        if (stale || (over && !needed(bridge->publisher, entry)))
            weft_bridge_release(bridge, entry);
    }
}

uint32_t weft_bridge_claim(const weft_bridge *bridge)
{
    uint32_t has = atomic_load(&bridge->blocks);
    return has < bridge->share ? bridge->share - has : 0;
}
