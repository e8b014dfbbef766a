/* peer_level.c - chooses the level that each peer wants, and with that the levels that a publish encodes.
 *
 * A peer's level is judged when it reports a version as held, so that a publish has nothing to weigh. */
#include <string.h>

#include "peer/peer.h"

/* One byte in so many of the journal may go to one update at a level that weft chose. */
#define ROOM_SHARE 8

/* Collects what decides a peer's level. `wanting`: how many peers want each level, with this one. */
static weft_level_wish wish_of(const weft_demand *demand, const weft_peer *peer, const uint32_t *wanting)
{
    weft_level_wish wish = {.site = &peer->site,
                            .estimate = &peer->tuning.estimate,
                            .decoding = &peer->tuning.decoding,
                            .habit = &demand->habit,
                            .slot_payload = peer->claim.hello.slot_payload,
                            .levels = peer->claim.hello.levels,
                            .in_use = 1u << WEFT_JOURNAL_LEVEL,
                            .encode_workers = demand->encode_workers,
                            .room = demand->room,
                            .staging = peer->claim.hello.staging_bytes,
                            .present = peer->tuning.wanted};
    for (uint32_t level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (wanting[level] > (level == (uint32_t)peer->tuning.wanted))
            wish.in_use |= 1u << level;
    return wish;
}

void weft_peer_levels_begin(weft_demand *demand, const weft_layout *layout, uint32_t workers, uint64_t journal_bytes)
{
    demand->levels = 1u << WEFT_JOURNAL_LEVEL;
    demand->encode_workers = workers;
    demand->room = journal_bytes / ROOM_SHARE;
    weft_habit_begin(&demand->habit, layout->elements, layout->bytes);
}

void weft_peer_level_judge(weft_demand *demand, weft_peer *peer)
{
    weft_level_wish wish = wish_of(demand, peer, demand->wanting);
    weft_level level = weft_level_choose(&wish);
    if (level == peer->tuning.wanted)
        return;
    weft_log(WEFT_LOG_INFO, "%s: level %s instead of %s: %.1f ms instead of %.1f at %.1f MB/s, %.3f %% changed",
             peer->claim.name, weft_level_name(level), weft_level_name(peer->tuning.wanted),
             1e3 * weft_level_seconds(&wish, level), 1e3 * weft_level_seconds(&wish, peer->tuning.wanted),
             peer->tuning.estimate.rate_bytes_s / 1e6, 100 * demand->habit.density);
    demand->wanting[peer->tuning.wanted]--;
    demand->wanting[level]++;
    peer->tuning.wanted = level;
}

void weft_peer_levels(weft_demand *demand, const weft_peer_table *peers)
{
    memset(demand->wanting, 0, sizeof demand->wanting);
    demand->levels = 1u << WEFT_JOURNAL_LEVEL;
    for (uint32_t i = 0; i < peers->count; i++) {
        const weft_peer *peer = &peers->list[i];
        if (!peer->connection.greeted)
            continue;
        demand->wanting[peer->tuning.wanted]++;
        demand->levels |= 1u << peer->tuning.wanted;
    }
}

void weft_peer_levels_note(weft_demand *demand, const weft_update *update, double seconds)
{
    uint64_t bytes[WEFT_LEVEL_COUNT] = {0};
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        bytes[level] = update->levels >> level & 1 ? update->chain[level].bytes : 0;
    weft_habit_note_encoding(&demand->habit, update->changed, update->levels, seconds);
    if (!update->snapshot_only)
        weft_habit_note(&demand->habit, update->changed, update->levels, bytes);
}
