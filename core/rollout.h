/* rollout.h - the rollout's end: joins, receives buckets into slots, stages what they hold, commits.
 *
 *   away -- dial --> dialing -- HELLO --> greeting -- WELCOME --> joined
 *    ^                                        |                     |
 *    +---- connection lost, fault, goodbye ---+---------------------+      REFUSE --> refused (final)
 *
 * Within `joined` one update is received and decoded at a time; while one is staged the next waits in its slots. */
#ifndef WEFT_CORE_ROLLOUT_H
#define WEFT_CORE_ROLLOUT_H

#include "codec/planes.h"
#include "control.h"
#include "journal.h"
#include "proof.h"
#include "session.h"
#include "staging.h"

typedef enum weft_join {
    WEFT_JOIN_AWAY,
    WEFT_JOIN_DIALING,
    WEFT_JOIN_GREETING,
    WEFT_JOIN_JOINED,
    WEFT_JOIN_REFUSED
} weft_join;

typedef enum weft_phase {
    WEFT_PHASE_RECEIVING, /* buckets of the first queued update are taken and decoded */
    WEFT_PHASE_STAGED,    /* it is whole and proved */
    WEFT_PHASE_COMMITTING /* the caller's thread moves the weights; nothing here may read them */
} weft_phase;

#define WEFT_CHUNK_WORDS 64u /* 4096 chunks of a slot, one bit each */

typedef struct weft_slot {
    uint64_t arrived[WEFT_CHUNK_WORDS];
    uint32_t count;  /* chunks arrived */
    bool has_header; /* chunk 0 was read and judged */
    weft_wire_bucket header;
} weft_slot;

/* Registered memory that buckets land in; the header page of each slot stands before its payload. */
typedef struct weft_slots {
    uint8_t *memory;
    uint64_t bytes, stride, payload;
    uint32_t count;
    weft_slot *slot;
} weft_slots;

/* An update on its way: its header, and its trailer once that came. */
typedef struct weft_incoming {
    weft_wire_update header;
    weft_wire_trailer trailer;
    bool has_trailer;
} weft_incoming;

/* A bucket copied out of its slot and checked: nobody else can write it. */
typedef struct weft_taken {
    uint8_t *memory;
    uint64_t capacity, bytes, used; /* used: decoded so far */
    bool delta;                     /* of a snapshot: frames with a base, for tiles already there */
} weft_taken;

/* What was received of the first queued update. */
typedef struct weft_receipt_book {
    uint64_t buckets, frames, frame_bytes, changed;
    uint64_t bytes; /* headers and trailer too */
    uint64_t attachment_got;
    uint64_t next_unit; /* snapshot: first unit that has not come */
    uint64_t begun_ns, whole_ns, decode_ns;
} weft_receipt_book;

struct weft_rollout {
    weft_session *session;
    weft_site_peer site;
    weft_binding weights;
    bool bound;
    bool holds; /* held and digests say what the weights are */
    weft_version held;
    uint64_t *digests; /* of the weights held, one per part */
    uint64_t *staged;  /* of the version being staged */
    weft_blob *attachment, *incoming_attachment;

    weft_join join;
    bool said_goodbye; /* the trainer left in good order and has not been seen since */
    weft_status refusal;
    char refusal_text[256];
    char trainers[WEFT_CONTROL_ADDRESSES][64]; /* numeric addresses of the trainer, dialed in turn */
    uint32_t trainer_count, dials;
    uint64_t away_since_ns, retry_ns, dialed_ns;
    char away_text[192];      /* why the last connection ended or was not made */
    bool doubt;               /* the weights may not be what is held: digested anew before the next HELLO */
    bool digesting;           /* that pass is under way, without the lock */
    uint32_t retries, faults; /* faults in a row, without a commit between */
    weft_control control;
    weft_wire_welcome welcome;
    uint64_t pinged_ns;
    uint32_t heartbeat_ms;

    const weft_provider *provider;
    weft_link *link;
    weft_link_facts facts;
    weft_port *port;
    weft_region *region;
    uint32_t epoch;
    weft_slots slots;
    uint64_t next_sequence;
    weft_incoming queue[WEFT_UPDATES_AHEAD];
    uint32_t queued;
    weft_taken taken;
    weft_receipt_book book, last; /* last: of the version committed last */
    weft_staging staging;
    weft_unpacker unpacker;
    weft_proof proof; /* of a snapshot's tiles */
    weft_phase phase;
    bool offered; /* a snapshot waits for the caller's commit */
    weft_version offer;
    bool into_image; /* [commit] snapshot = staged */
    uint8_t *image;
    weft_binding image_binding;
    bool snapshot_runs; /* ACCEPT was sent and the snapshot is not whole yet */
    weft_status snapshot_failed;
    uint64_t moved_ns; /* last time a chunk came, a bucket was taken, or an update was begun or announced whole */
};

/* ---- join.c */
weft_status weft_join_open(weft_rollout *rollout);
void weft_join_close(weft_rollout *rollout);
/* Dials, greets, keeps the connection alive. */
void weft_join_step(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits);
/* The connection is gone or must go: closes everything on it and dials again later. */
void weft_join_lose(weft_rollout *rollout, weft_status status, const char *why);
/* A version failed here: tells the trainer, finds out what is really held if `doubt`, and joins again. */
void weft_join_fault(weft_rollout *rollout, weft_status status, bool doubt);
weft_status weft_join_send(weft_rollout *rollout, weft_message type, const weft_out *body);

/* ---- hear.c */
/* Reads and acts on what the trainer said; afterwards the connection may be closed (refusal, goodbye). */
weft_status weft_hear_step(weft_rollout *rollout);

/* ---- receive.c */
weft_status weft_receive_open(weft_rollout *rollout);
void weft_receive_close(weft_rollout *rollout);
/* Forgets everything of the connection. */
void weft_receive_reset(weft_rollout *rollout);
/* Takes arrivals off the port; true if there were any. */
weft_status weft_receive_poll(weft_rollout *rollout, bool *any);
/* Copies the next bucket in sequence out of its slot, checks it and grants the slot again. WEFT_AGAIN: none is whole.
 */
weft_status weft_receive_take(weft_rollout *rollout);

/* ---- stage.c */
/* Decodes and proves what was taken; WEFT_AGAIN when there is nothing to do now. */
weft_status weft_stage_step(weft_rollout *rollout);
/* Moves the weights to the staged version, outside the lock. */
weft_status weft_stage_commit(weft_rollout *rollout);
/* The first queued update was committed: `held` and digests move, the trainer is told, the next may be staged. */
void weft_stage_settle(weft_rollout *rollout, uint64_t commit_ns);
/* Starts with the next queued update afresh. */
void weft_stage_clear(weft_rollout *rollout);

/* ---- rollout.c: the public calls, under the lock */
weft_status weft_rollout_bind(weft_rollout *rollout, const weft_piece *pieces, uint64_t count, const void *attachment,
                              uint64_t attachment_bytes, bool empty);
weft_status weft_rollout_staged(weft_rollout *rollout, uint32_t deadline_ms, weft_staged_info *info);
weft_status weft_rollout_commit(weft_rollout *rollout, uint64_t version, weft_version *held);
weft_status weft_rollout_scrub(weft_rollout *rollout);

#endif
