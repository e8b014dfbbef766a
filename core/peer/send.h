/* send.h - the bucket of a peer that is being posted, chunk by chunk. */
#ifndef WEFT_CORE_SEND_H
#define WEFT_CORE_SEND_H

#include "bucket/bucket.h"
#include "peer/peer_state.h"
#include "session/session.h"

/* Posting: the bucket that goes to the fabric now, and the pace at which its chunks may go. The peer's record owns it;
 * feed_bucket.c fills it, and send.c empties it. */
struct weft_posting {
    weft_bucket bucket;
    weft_update *update;  /* update whose chain the bucket reads, held; NULL: none */
    int32_t slab;         /* slab that the bucket reads; -1: none */
    bool busy;            /* some of the bucket is still to be posted */
    bool again;           /* the provider refused the last write */
    uint32_t slot, chunk; /* where the bucket goes, and its next chunk */
    uint32_t chunk_bytes; /* bytes of a chunk, as agreed when the peer joined */
    weft_pace pace;
};

/* Posts what can be posted; says in `waits` what holds the rest up. */
weft_status weft_send_pump(weft_publisher *publisher, weft_peer *peer, uint64_t now_ns, weft_waits *waits);
/* Takes completions, and sets `*any` if there were some. */
weft_status weft_send_poll(weft_peer *peer, uint64_t now_ns, bool *any);

#endif
