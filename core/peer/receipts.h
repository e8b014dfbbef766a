/* receipts.h - what a peer has still to report: buckets taken, and versions held. */
#ifndef WEFT_CORE_RECEIPTS_H
#define WEFT_CORE_RECEIPTS_H

#include "codec/frame.h"
#include "peer/peer_state.h"
#include "session/session.h"
#include "wire/wire.h"

/* An expected version: sent whole, and not yet reported as held. */
typedef struct weft_expected {
    uint64_t order;
    weft_version version;
    bool withdrawn; /* order and version are those that the peer holds already, and is to report again */
    weft_level level;
    uint64_t changed; /* elements; a snapshot: 0 */
    uint64_t frame_bytes;
    uint64_t bytes; /* all of it: headers, frames, trailer */
    uint64_t begun_ns;
    uint64_t end; /* sequence of the bucket after its last */
} weft_expected;

/* Receipts: the reports that a peer owes. The peer's record owns them; a lost connection ends all of them. */
struct weft_receipts {
    weft_expected expected[WEFT_UPDATES_AHEAD]; /* versions, oldest first */
    uint32_t count;                             /* of them */
    uint64_t last_ns;                           /* when the last receipt came */
    uint64_t due, due_ns; /* sequence of the bucket that is to be taken next, and since when; due_ns 0: none is due */
};

/* Takes a receipt. Errors: WEFT_E_PROTOCOL, because no such bucket is on its way. */
weft_status weft_receipts_take(weft_peer *peer, const weft_wire_receipt *receipt, uint64_t now_ns);
/* Looks whether a receipt is overdue, and says in `waits` when to look again. Errors: WEFT_E_PEER_LOST, because the
 * peer has not taken a bucket that it could have for longer than a healthy peer may. */
weft_status weft_receipts_check(weft_peer *peer, uint64_t now_ns, weft_waits *waits);

#endif
