/* feed_eager.h - the update that goes out while it is encoded, as peers see it. */
#ifndef WEFT_CORE_FEED_EAGER_H
#define WEFT_CORE_FEED_EAGER_H

#include "journal/journal.h"
#include "peer/peer_state.h"

/* Eager: the update that is being encoded, as far as peers may read it. The publisher owns it; publish writes it under
 * the lock (trainer/eager.c). */
typedef struct weft_eager {
    weft_update *update; /* at its place in the journal's ring; NULL: none. Its chains are as long as may be read */
    uint64_t shown_bytes, shown_ns;    /* how much was let out, and when */
    weft_update withdrawn;             /* frames that writes under way still read of an update that came to nothing */
    uint64_t bytes[WEFT_LEVEL_COUNT];  /* bytes of the last version, because the next will be about as large */
    uint64_t staged[WEFT_LEVEL_COUNT]; /* bytes of staging that the last version needed */
} weft_eager;

/* Returns true if the peer may begin the update that is being encoded. */
bool weft_eager_may(const weft_eager *eager, const weft_peer_table *peers, const weft_peer *peer);
/* Returns true if so much is there that the next bucket is worth sending. */
bool weft_eager_ripe(const weft_peer *peer, const weft_update *update);
/* Returns true if the peer has begun the update that is being encoded. */
bool weft_eager_waits(const weft_eager *eager, const weft_feed *feed);
/* Returns the bytes of an update at a level, as far as can be told. */
uint64_t weft_eager_bytes(const weft_eager *eager, const weft_update *update, weft_level level);

#endif
