/* peer_level.h - the level at which updates are coded for each peer. */
#ifndef WEFT_CORE_PEER_LEVEL_H
#define WEFT_CORE_PEER_LEVEL_H

#include "bucket/bucket.h"
#include "bucket/choice.h"
#include "journal/journal.h"
#include "peer/peer_state.h"

/* Tuning: what was measured of a peer and its link, and the level chosen from that. The peer's record owns it. */
typedef struct weft_tuning {
    weft_level level;  /* of the update sent last */
    weft_level wanted; /* level at which updates are to be coded for the peer */
    weft_estimate estimate;
    weft_decoding decoding;
    weft_bucket_bound bound; /* what held the size of the last bucket back */
} weft_tuning;

/* Demand: the levels that peers want, and how updates came out at each so far. The trainer owns it. */
typedef struct weft_demand {
    uint32_t levels;                    /* mask of levels in use: the journal's, and those that connected peers want */
    uint32_t wanting[WEFT_LEVEL_COUNT]; /* peers that want each: those connected at the last publish, or since */
    weft_habit habit;
    uint32_t encode_workers; /* threads that encode */
    uint64_t room;           /* bytes of the journal that one update may take at a level that weft chose */
} weft_demand;

/* Returns the level that a site key asks for. */
static inline weft_level weft_peer_level(weft_choice_level choice)
{
    static const weft_level levels[] = {WEFT_LEVEL_FAST, WEFT_LEVEL_FULL, WEFT_LEVEL_PAIRS, WEFT_LEVEL_FAST,
                                        WEFT_LEVEL_TIGHT};
    return levels[choice];
}

/* Begins with the journal's level, before anything is measured. */
void weft_peer_levels_begin(weft_demand *demand, const weft_layout *layout, uint32_t workers, uint64_t journal_bytes);
/* Counts what connected peers want, before a publish. */
void weft_peer_levels(weft_demand *demand, const weft_peer_table *peers);
/* Decides which level the peer wants from the next publish on, because the peer holds a version and its estimates are
 * new. */
void weft_peer_level_judge(weft_demand *demand, weft_peer *peer);
/* Notes that an update was encoded, in so many seconds of one core. */
void weft_peer_levels_note(weft_demand *demand, const weft_update *update, double seconds);

#endif
