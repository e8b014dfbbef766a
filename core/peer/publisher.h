/* publisher.h - what a trainer has for its weights, apart from what it has for each peer. */
#ifndef WEFT_CORE_PUBLISHER_H
#define WEFT_CORE_PUBLISHER_H

#include "encode/encode.h"
#include "journal/frame_copies.h"
#include "journal/history.h"
#include "peer/bridge.h"
#include "peer/feed_eager.h"
#include "peer/peer_view.h"
#include "peer/shadow_read.h"

/* Newest: the version published last. The publisher owns it; hand-over alone moves it on, under the lock. */
struct weft_newest {
    weft_version version;
    uint64_t order;        /* place among all updates of this run */
    weft_blob *attachment; /* NULL: none */
    uint64_t *digests;     /* one for each part */
};

/* Encoding: how publish finds and codes what changed. The publisher owns it; the caller of weft_publish works with it,
 * without the lock. */
typedef struct weft_encoding {
    weft_encoder encoder;
    weft_frame_copies copies; /* of the journal, with the frames of a device */
    uint64_t *delta;          /* by part: how the update moves the digests */
    uint64_t *discard;        /* by part: as delta, counted again to compare */
    uint64_t need; /* bytes of blocks that the update encoded last takes, whether the journal has them or not */
    uint64_t said; /* bytes of journal that the log named last, for an update that did not fit; 0: none */
} weft_encoding;

/* Publisher: makes versions of weights, and keeps what leads from one to the next. The trainer owns it. */
struct weft_publisher {
    weft_session *session;  /* the trainer's */
    weft_peer_table *peers; /* the trainer's: who reads what is published */
    uint64_t run;           /* drawn at open; in each version's name */
    weft_binding weights;   /* the caller's, as bound last */
    bool bound;             /* there is a version, and peers may join */
    bool away;              /* weft_unbind was called since */
    bool publishing;        /* weft_publish is at work, from diff to hand-over */
    bool sealing;           /* publish may still amend the newest version */
    weft_newest newest;
    weft_journal journal;
    weft_history history;
    weft_shadow shadow;
    weft_encoding encoding;
    weft_eager eager;
    weft_bridge bridge;
    weft_peer_views views;          /* keys that peers take */
    struct weft_recorder *recorder; /* writes versions into a store; NULL: the site names none */
};

#endif
