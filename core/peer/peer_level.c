/* peer_level.c - which level a peer wants, judged when it holds a version, so that a publish has nothing to weigh; and
 * which ones a publish encodes: those that connected peers want. */
#include <string.h>

#include "peer/peer.h"

/* Share of the journal that one update may take at a level that weft chose. */
#define ROOM_SHARE 8

/* `wanting`: how many peers want each level, this one among them. */
static weft_level_wish wish_of(const weft_trainer *trainer, const weft_peer *peer, const uint32_t *wanting)
{
    weft_level_wish wish = {.site = &peer->site,
                            .estimate = &peer->estimate,
                            .decoding = &peer->decoding,
                            .habit = &trainer->habit,
                            .slot_payload = peer->hello.slot_payload,
                            .levels = peer->hello.levels,
                            .in_use = 1u << WEFT_JOURNAL_LEVEL,
                            .encode_workers = trainer->encoder.team.workers,
                            .room = trainer->journal.arena.bytes / ROOM_SHARE,
                            .staging = peer->hello.staging_bytes,
                            .present = peer->wanted};
    for (uint32_t level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (wanting[level] > (level == (uint32_t)peer->wanted))
            wish.in_use |= 1u << level;
    return wish;
}

void weft_peer_level_judge(weft_trainer *trainer, weft_peer *peer)
{
    if (peer->site.level != WEFT_CHOICE_AUTO)
        return;
    weft_level_wish wish = wish_of(trainer, peer, trainer->wanting);
    weft_level level = weft_level_choose(&wish);
    if (level == peer->wanted)
        return;
    weft_log(WEFT_LOG_INFO, "%s: level %s instead of %s: %.1f ms instead of %.1f at %.1f MB/s, %.3f %% changed",
             peer->name, weft_level_name(level), weft_level_name(peer->wanted), 1e3 * weft_level_seconds(&wish, level),
             1e3 * weft_level_seconds(&wish, peer->wanted), peer->estimate.rate_bytes_s / 1e6,
             100 * trainer->habit.density);
    trainer->wanting[peer->wanted]--;
    trainer->wanting[level]++;
    peer->wanted = level;
}

void weft_peer_levels(weft_trainer *trainer)
{
    memset(trainer->wanting, 0, sizeof trainer->wanting);
    trainer->levels = 1u << WEFT_JOURNAL_LEVEL;
    for (uint32_t i = 0; i < trainer->peer_count; i++) {
        const weft_peer *peer = &trainer->peers[i];
        if (!peer->greeted)
            continue;
        trainer->wanting[peer->wanted]++;
        trainer->levels |= 1u << peer->wanted;
    }
}

void weft_peer_levels_note(weft_trainer *trainer, const weft_update *update, double seconds)
{
    uint64_t bytes[WEFT_LEVEL_COUNT] = {0};
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        bytes[level] = update->levels >> level & 1 ? update->chain[level].bytes : 0;
    weft_habit_note_encoding(&trainer->habit, update->changed, update->levels, seconds);
    if (!update->snapshot_only)
        weft_habit_note(&trainer->habit, update->changed, update->levels, bytes);
}
