/* peer.h - one rollout as the trainer sees it: its connection, its slots, its stream, what it has proved to hold. Its
 * states are a table of their own (peer_state.h).
 *
 * A stream gives a peer either the journal's updates one after the other, or a snapshot from the shadow. At most
 * WEFT_UPDATES_AHEAD versions are under way beyond what it holds. */
#ifndef WEFT_CORE_PEER_H
#define WEFT_CORE_PEER_H

#include "base/log_limit.h"
#include "bucket/bucket.h"
#include "bucket/choice.h"
#include "codec/planes.h"
#include "encode/encode.h"
#include "encode/staging.h"
#include "journal/history.h"
#include "peer/bridge.h"
#include "peer/peer_state.h"
#include "peer/rail.h"
#include "session/session.h"
#include "wire/control.h"
#include "wire/watch.h"

typedef enum weft_feed_kind {
    WEFT_FEED_NONE,
    WEFT_FEED_UPDATE,
    WEFT_FEED_OFFERED,
    WEFT_FEED_REPAIR, /* it is being made */
    WEFT_FEED_SNAPSHOT,
    WEFT_FEED_FOLLOWING /* its relay passes on what the relay itself is sent */
} weft_feed_kind;

/* Where a snapshot stands. Tiles are read from the shadow as they are sent, each at the newest version then: a tile
 * lacks what was published since, which weft_peer.limits remembers. */
typedef struct weft_tiles {
    uint64_t unit;  /* first not sent yet */
    uint64_t order; /* after which the last was read: none was read from newer bits */
    uint64_t from;  /* updates up to this order were brought to all tiles before `unit` that lacked them */
    uint64_t
        caught_unit; /* 0, or to the units before it all up to the order `caught` were brought: the others follow */
    uint64_t caught;
    uint64_t end;           /* of the catch-up being sent: units from here on are not in it */
    uint64_t credit;        /* bytes of tiles that go before another catch-up is begun */
    uint32_t failures;      /* of catch-ups, one after the other, for no other's sake */
    uint32_t failed_blocks; /* that other merges had when one failed: none is asked for until they have less; 0: is */
} weft_tiles;

typedef struct weft_feed {
    weft_feed_kind kind;
    weft_update *update; /* being sent, held; NULL: only an attachment, or tiles */
    weft_bridged *made;  /* repair or catch-up that is being made, if its turn is still `made_turn`; NULL: none */
    uint64_t made_turn;
    uint64_t order; /* what it leads to; snapshot: the newest */
    weft_level level;
    weft_cursor cursor; /* in the update */
    bool eager;         /* the update was being encoded when this began */
    weft_tiles tiles;
    weft_blob *attachment; /* to be sent with it; NULL: none */
    uint64_t attachment_sent;
    weft_version alone; /* an update that only brings the attachment: the version it belongs to, as announced */
    uint64_t buckets, frames, frame_bytes;
    uint64_t bytes; /* all of it: headers, frames, trailer */
    uint64_t begun_ns;
} weft_feed;

/* A version sent whole and not yet held. */
typedef struct weft_expected {
    uint64_t order;
    weft_version version;
    bool withdrawn; /* order and version are those that it holds, and is to say so */
    weft_level level;
    uint64_t changed; /* a snapshot: 0 */
    uint64_t frame_bytes;
    uint64_t bytes;
    uint64_t begun_ns;
    uint64_t end; /* sequence of the bucket behind its last */
} weft_expected;

/* A bucket between post and receipt, by its slot. */
typedef struct weft_flight {
    bool used; /* the slot is taken */
    bool receipted;
    bool resent;                 /* some of it went again by another rail: its times say nothing */
    uint32_t writes;             /* posted and not completed locally */
    uint16_t by[WEFT_PORTS_MAX]; /* of them by each rail */
    uint64_t sequence;
    uint64_t bytes;
    uint64_t posted_ns;
    weft_update *update; /* whose chain it reads, held; NULL: none */
    int32_t slab;        /* -1: none */
} weft_flight;

struct weft_peer {
    char name[WEFT_SITE_NAME];
    bool known;            /* the record is in use, by a name seen in this run */
    bool greeted;          /* HELLO was accepted on the present connection */
    bool leaving;          /* REFUSE, LAYOUT or BYE is on its way out; closed when flushed */
    weft_peer_state state; /* written by weft_peer_move only */
    weft_site_peer site;
    weft_control control;
    uint64_t opened_ns;
    weft_outlet *outlet; /* one by which it can come */
    weft_rail rails[WEFT_PORTS_MAX];
    uint32_t rail_count;   /* places, as HELLO has them */
    uint32_t rails_used;   /* of them that both ends have */
    uint32_t next_rail;    /* whose turn it is: chunks go over all of them */
    uint32_t again_chunks; /* to be sent again */
    uint64_t looked_ns;    /* last LOOK */
    bool looking;          /* which is not answered yet */
    weft_wire_hello hello;
    uint32_t chunk_bytes;
    weft_version held;
    uint64_t held_order;      /* UINT64_MAX: unknown bits */
    uint64_t sent_attachment; /* hash of the attachment it will have after what was sent */
    uint64_t sent_order;      /* last update sent or being sent */
    uint64_t joined_order;    /* the newest when it joined */
    uint64_t joined_ns;       /* its HELLO was accepted then */
    bool lagging;             /* it lacks more than max_lag, and that was said */
    uint64_t single_until;    /* up to this order no merged update is asked for: there is none that it could take */
    weft_level level;         /* of the update sent last */
    weft_level wanted;        /* at which updates are to be coded for it */
    weft_feed feed;
    uint32_t limits[WEFT_JOURNAL_UPDATES]; /* by order: units of its snapshot that were sent when that was published */
    weft_expected expected[WEFT_UPDATES_AHEAD];
    uint32_t expected_count;
    weft_flight flights[WEFT_SLOTS_MAX];
    uint32_t slots_free;
    uint32_t next_slot;
    uint32_t slabs_used;
    uint64_t sequence;
    weft_bucket bucket;         /* being posted */
    weft_update *bucket_update; /* whose chain it reads, held; NULL: none */
    int32_t bucket_slab;        /* -1: none */
    bool posting;
    uint32_t posting_slot, posting_chunk;
    uint32_t writes;      /* posted and not completed */
    uint64_t progress_ns; /* last time a write was taken or completed */
    uint64_t last_receipt_ns;
    uint64_t due, due_ns; /* sequence of the bucket that it is to take next, and since when; 0: it owes none */
    uint64_t pinged_ns;
    uint64_t told_ns; /* last PASSING */
    weft_pace pace;
    bool again;         /* the provider took no write last time */
    bool starved;       /* waits for a slab of the pool */
    uint64_t slab_turn; /* slabs.turn when it took its last; 0: never */
    weft_estimate estimate;
    weft_decoding decoding;
    weft_bucket_bound bound;
    weft_peer_info info;     /* counters and last figures; the rest is filled in when asked */
    weft_peer *parent;       /* the relay that it is behind; NULL: none */
    uint32_t children;       /* peers behind it */
    bool followed;           /* the update sent last came from the relay's stream */
    uint64_t waits_since_ns; /* for its relay to begin an update; 0: it does not */
    weft_log_limit limit;    /* of lines about it that its own doings bring about */
    uint64_t rival;          /* another incarnation that asked for its name and had no answer yet, or 0 */
    uint64_t rival_ns;       /* when it first asked */
    uint64_t staging_said;   /* bytes of staging that the log named last, for an update that did not fit; 0: none */
    uint64_t apart_until;    /* order of the update up to which it is served alone; 0: it is not */
};

#define WEFT_ORDER_UNKNOWN UINT64_MAX
#define WEFT_GUESTS        8u   /* connections that have not said who they are */
#define WEFT_SLABS_MAX     16u  /* of the pool */
#define WEFT_HEADER_STRIDE 256u /* of the ring of bucket headers: whole cache lines, no two slots share one */

/* Slab pool: registered memory for frames made on the fly (snapshots) and attachments. */
typedef struct weft_slabs {
    uint8_t *memory;
    uint64_t slab_bytes;
    uint32_t count;
    uint32_t free_count;
    uint32_t *free;
    uint64_t turn; /* slabs taken so far */
} weft_slabs;

/* An update that goes out while it is encoded: eager.c. */
typedef struct weft_eager {
    weft_update *update; /* at its place in the journal's ring; NULL: none. Its chains are as long as may be read */
    uint64_t shown_bytes, shown_ns; /* when more of it was let out last */
    weft_update withdrawn;          /* what writes under way still read of one that came to nothing; readers 0: none */
    uint64_t bytes[WEFT_LEVEL_COUNT]; /* of the last version, and what staging needed for it: so will the next */
    uint64_t staged[WEFT_LEVEL_COUNT];
} weft_eager;

struct weft_trainer {
    weft_session *session;
    int listen_fd;
    uint64_t run;
    weft_binding weights, shadow;
    uint8_t *shadow_image;
    weft_memory_kind shadow_kind; /* HOST or DEVICE */
    weft_backend_state *host;     /* the host backend's, if that works on the shadow and the session's is another */
    weft_pipeline shadow_jobs;    /* on the shadow alone: publish's; */
    weft_pipeline shadow_loads;   /* those of the steps; */
    weft_pipeline bridge_loads;   /* and of the bridge's thread */
    bool bound;
    uint64_t *digests; /* of the shadow, one per part */
    uint64_t *delta;   /* scratch of publish */
    uint64_t *discard; /* the same: what is counted to compare */
    weft_encoder encoder;
    weft_staging scratch; /* some frames' changes, for bringing the shadow up to date */
    weft_version newest;
    uint64_t newest_order;
    weft_blob *attachment; /* of the newest version */
    weft_journal journal;
    weft_history history;
    uint64_t
        journal_need; /* bytes of blocks that the update encoded last takes, whether it has them or not; publish's */
    uint64_t journal_said; /* the size that the log named last for one that did not fit; 0: none */
    weft_slabs slabs;
    weft_packer packer;   /* of what goes into slabs */
    uint8_t *headers;     /* bucket headers, one per peer and slot */
    weft_parcel *parcels; /* as many; NULL: no peer of the site has several rails */
    uint64_t parcels_bytes;
    uint32_t slots_most; /* that a peer may use */
    uint64_t headers_bytes;
    uint8_t *layout_bytes; /* LAYOUT message's body */
    uint64_t layout_length;
    weft_outlet *outlets;
    uint32_t outlet_count;
    weft_peer *peers;
    uint32_t peer_count;                /* max_peers and a few guests */
    weft_log_limit strangers;           /* lines about who did not say a HELLO of the site's */
    weft_log_limit comers;              /* and about who did, and is not joined */
    uint64_t told_ns;                   /* when those were last looked at */
    weft_watch watch;                   /* of their connections, by index */
    uint32_t levels;                    /* mask of levels in use: the journal's and those that connected peers want */
    uint32_t wanting[WEFT_LEVEL_COUNT]; /* how many peers want each: those connected at the last publish or since */
    weft_habit habit;
    weft_bridge bridge;
    weft_eager eager;
    bool again;               /* something happened to a peer that this step had passed: take another */
    bool publishing;          /* publish is at work, from diff to hand-over */
    bool shadow_busy;         /* publish brings it up to date: snapshots stand still */
    _Atomic bool shadow_lost; /* it has the bits of no version, or is gone with its device, and never will have again */
};

/* The level a site key asks for. */
static inline weft_level weft_peer_level(weft_choice_level choice)
{
    static const weft_level levels[] = {WEFT_LEVEL_FAST, WEFT_LEVEL_FULL, WEFT_LEVEL_PAIRS, WEFT_LEVEL_FAST,
                                        WEFT_LEVEL_TIGHT};
    return levels[choice];
}

/* ---- peer_level.c: which levels are encoded */
/* Before a publish: counts what connected peers want, and with that trainer->levels. */
void weft_peer_levels(weft_trainer *trainer);
/* The peer holds a version, its estimates are new: which level it wants from the next publish on. */
void weft_peer_level_judge(weft_trainer *trainer, weft_peer *peer);
/* An update was encoded, in so many seconds of one core. */
void weft_peer_levels_note(weft_trainer *trainer, const weft_update *update, double seconds);

/* ---- record.c: questions that a record answers by itself */
uint32_t weft_peer_index(const weft_trainer *trainer, const weft_peer *peer);
uint64_t weft_peer_lag(const weft_trainer *trainer, const weft_peer *peer);
bool weft_peer_connected(const weft_peer *peer);
/* Whether it holds no version known here and takes none, as a stranger that only says PING, or an engine that warms up;
 * and for how long it may go on so before it gives way to who wants its name or its place, 0: no longer. */
bool weft_peer_is_idle(const weft_peer *peer);
uint64_t weft_peer_stays_ns(const weft_trainer *trainer, const weft_peer *peer);
/* The most slots that the site gives any peer: what one grants beyond it is not used. */
uint32_t weft_trainer_slots(const weft_site *site);

/* ---- loss.c: the end of a connection */
/* Closes the connection and all operations on it; the record stays. `status` OK: an orderly goodbye. Who knows a more
 * telling event than a goodbye, a broken protocol or a lost connection has moved the peer before. */
void weft_peer_lose(weft_trainer *trainer, weft_peer *peer, weft_status status, const char *why);
/* A peer is lost: those behind it are lost with it. */
void weft_loss_of_children(weft_trainer *trainer, weft_peer *peer);

/* ---- peer.c: what a peer says */
/* Reads and acts on what the peer said. Errors end the connection: weft_peer_lose. */
weft_status weft_peer_listen(weft_trainer *trainer, weft_peer *peer);
/* Heartbeats and deadlines. */
weft_status weft_peer_check_time(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits);

/* ---- greet.c: the handshake */
weft_status weft_peer_greet(weft_trainer *trainer, weft_peer *peer, const uint8_t *body, uint64_t length,
                            weft_peer **greeted);

/* ---- feed.c: what a peer is sent next */
/* Starts, continues and ends streams; fills peer->bucket. WEFT_AGAIN: nothing to send now. */
weft_status weft_feed_next(weft_trainer *trainer, weft_peer *peer);
/* The peer accepted the offer: its snapshot begins. */
weft_status weft_feed_snapshot(weft_trainer *trainer, weft_peer *peer);
weft_status weft_feed_offer(weft_trainer *trainer, weft_peer *peer);
/* Says that none can be had any more: the shadow is lost. */
weft_status weft_feed_no_snapshot(const weft_peer *peer);
/* Whether the journal does not lead from what a peer holds, which joins now, to the newest version. */
bool weft_feed_needs_snapshot(weft_trainer *trainer, const weft_peer *peer);
/* A publish appended `update`: a snapshot under way takes note. */
void weft_feed_follow(weft_peer *peer, const weft_update *update);
uint8_t *weft_slab_at(const weft_slabs *slabs, int32_t slab);

/* Ends the peer's stream of an update that comes to nothing: it drops what it has of that, and says so. */
weft_status weft_feed_withdraw(weft_trainer *trainer, weft_peer *peer);
/* ---- feed_state.c: questions that the state of a feed answers by itself */
void weft_feed_end(weft_peer *peer);
/* Whether the peer will go on from the version after `order` when it is sent something next. */
bool weft_feed_stands_at(const weft_peer *peer, uint64_t order);
/* Whether the peer is yet to say that it dropped an update: until then it is sent nothing, since the next one may look
 * the same. */
bool weft_feed_drops(const weft_peer *peer);

/* ---- shadow_read.c */
/* Copies units out of the shadow to `to`, one behind the other; with `framed` each behind room for a frame's header and
 * padded as its payload. Under the lock, in a window of the calling thread's. Errors: WEFT_E_DEVICE, and the shadow is
 * lost. */
weft_status weft_shadow_read(weft_trainer *trainer, weft_pipeline *window, uint64_t unit, uint64_t units, bool framed,
                             uint8_t *to);

/* ---- feed_eager.c: the update that is being encoded, as a peer sees it */
/* Whether the peer may begin the update that is being encoded. */
bool weft_eager_may(const weft_trainer *trainer, const weft_peer *peer);
/* Whether so much is there that the next bucket is worth sending. */
bool weft_eager_ripe(const weft_peer *peer, const weft_update *update);
/* Whether the peer has begun the update that is being encoded. */
bool weft_eager_waits(const weft_trainer *trainer, const weft_peer *peer);
/* Bytes of an update at a level, as far as can be told. */
uint64_t weft_eager_bytes(const weft_trainer *trainer, const weft_update *update, weft_level level);

/* ---- follow.c: peers behind relays */
/* Finds the relay that a HELLO names. Errors: WEFT_E_SYSTEM, which is not final for the peer. */
weft_status weft_follow_join(weft_trainer *trainer, weft_peer *peer);
/* The trainer closes: nobody is lost for another. */
void weft_follow_forget(weft_trainer *trainer);
/* A relay dropped the peer: it is served alone for a while. */
void weft_follow_dropped(const weft_trainer *trainer, weft_peer *peer);
/* Whether an idle peer's next update is about to come from its relay's stream. */
bool weft_follow_waits(const weft_trainer *trainer, weft_peer *peer);
/* Before `relay` is told by `header` of an update that goes as the stream `sent`: tells those behind it that take the
 * same, and the relay who does. The relay's sent_order and sent_attachment are still those of what it has. */
weft_status weft_follow_begin(weft_trainer *trainer, weft_peer *relay, const weft_feed *sent, const weft_update *update,
                              const weft_out *header);
/* The relay has all of it: so have they. */
void weft_follow_finish(weft_trainer *trainer, weft_peer *relay, const weft_out *trailer,
                        const weft_expected *expected);

/* ---- answer.c: digests of versions for a peer that looks for a wrong bit */
weft_status weft_answer(weft_trainer *trainer, weft_peer *peer, const uint8_t *body, uint64_t length);

/* The order after which the version stood; WEFT_ORDER_UNKNOWN: its digests are not kept. */
uint64_t weft_answer_order(weft_trainer *trainer, const weft_version *version);

/* ---- repair.c: units of a peer whose bits are no version */
weft_status weft_repair_ask(weft_trainer *trainer, weft_peer *peer, const uint8_t *body, uint64_t length);

/* ---- rail_write.c: one write by one rail */
/* Returns where the header of the bucket in a slot lies. */
uint8_t *weft_rail_header(weft_trainer *trainer, const weft_peer *peer, uint32_t slot);
/* Posts a chunk by a rail. Errors: WEFT_AGAIN, the provider's. */
weft_status weft_rail_write_chunk(const weft_trainer *trainer, const weft_peer *peer, const weft_rail *rail,
                                  const weft_chunk *chunk);
/* Posts the write that shows whether a rail carries. Errors: WEFT_AGAIN, the provider's. */
weft_status weft_rail_probe(weft_trainer *trainer, weft_peer *peer, weft_rail *rail);
/* Notes that the provider took a write of so many bytes, or took none. */
void weft_rail_note_posted(weft_rail *rail, uint64_t bytes, uint64_t now_ns);
void weft_rail_note_refused(const weft_trainer *trainer, weft_rail *rail, uint64_t now_ns);
/* Returns true if a rail is up and may be given a write. */
bool weft_rail_has_room(const weft_peer *peer, const weft_rail *rail);

/* ---- flights.c: buckets between their first write and their receipt */
/* Frees the slot if the peer granted the slot again and the provider no longer reads the bucket's memory. */
void weft_flight_release(weft_trainer *trainer, weft_peer *peer, weft_flight *flight);
/* Takes a receipt. Errors: WEFT_E_PROTOCOL, because no such bucket is on its way. */
weft_status weft_flight_receipt(weft_trainer *trainer, weft_peer *peer, const weft_wire_receipt *receipt,
                                uint64_t now_ns);
/* Returns true if all of the bucket in a used slot was posted, and nothing of the bucket is to go again. */
bool weft_flight_is_whole(weft_trainer *trainer, const weft_peer *peer, uint32_t slot);
/* Writes off the writes of a rail, because the rail's port is closed. */
void weft_flights_write_off(weft_trainer *trainer, weft_peer *peer, uint32_t rail);
/* Writes off every bucket in flight, because all ports are closed. */
void weft_flights_abandon(weft_trainer *trainer, weft_peer *peer);

/* ---- send.c: buckets onto the fabric */
/* Posts what can be posted; says in `waits` what holds it up. */
weft_status weft_send_pump(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits);
/* Takes completions; true if there were any. */
weft_status weft_send_poll(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, bool *any);

/* ---- receipts.c: receipts that are due */
/* Errors: WEFT_E_PEER_LOST, when a peer has not taken a bucket that it could have for longer than a healthy one may.
 * Says in `waits` when to look again. */
weft_status weft_receipts_check(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits);

#endif
