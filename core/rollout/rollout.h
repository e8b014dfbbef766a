/* rollout.h - the rollout's end: joins, receives buckets into slots, stages what they hold, commits.
 *
 *   away -- dial --> dialing --> knocking -- GREETING, HELLO --> greeting -- WELCOME --> joined
 *    ^                                        |                     |
 *    +---- connection lost, fault, goodbye ---+---------------------+      REFUSE --> refused (final)
 *
 * Within `joined` one update is received and decoded at a time; while one is staged the next waits in its slots. */
#ifndef WEFT_CORE_ROLLOUT_H
#define WEFT_CORE_ROLLOUT_H

#include "codec/planes.h"
#include "encode/proof.h"
#include "encode/staging.h"
#include "journal/journal.h"
#include "layout/part.h"
#include "session/session.h"
#include "wire/control.h"
#include "wire/resolver.h"

typedef enum weft_join {
    WEFT_JOIN_AWAY,
    WEFT_JOIN_DIALING,
    WEFT_JOIN_KNOCKING,
    WEFT_JOIN_GREETING,
    WEFT_JOIN_JOINED,
    WEFT_JOIN_REFUSED
} weft_join;

typedef enum weft_phase {
    WEFT_PHASE_RECEIVING, /* buckets of the first queued update are taken and decoded */
    WEFT_PHASE_STAGED,    /* it is whole and proved */
    WEFT_PHASE_COMMITTING /* the caller's thread moves the weights; nothing here may read them */
} weft_phase;

typedef struct weft_slot {
    uint8_t by[WEFT_CHUNKS_MAX + 1]; /* the inlet that each chunk came by, counted from 1; 0: it has not come */
    uint32_t count;                  /* chunks arrived */
    uint64_t whole_ns;               /* when the last did */
    bool has_header;                 /* chunk 0 was read and judged */
    weft_wire_bucket header;
} weft_slot;

static inline bool weft_slot_whole(const weft_slot *slot)
{
    return slot->has_header && slot->count == slot->header.chunks + 1;
}

/* Registered memory that buckets land in; the header page of each slot stands before its payload. */
typedef struct weft_slots {
    uint8_t *memory;
    uint64_t bytes, stride, payload;
    uint32_t count;
    weft_slot *slot;
} weft_slots;

static inline uint64_t weft_slots_stride(uint64_t payload)
{
    return WEFT_SLOT_HEADER_BYTES + (payload + 4095) / 4096 * 4096;
}

/* What the bucket headers of a connection must say. */
typedef struct weft_slots_law {
    const uint64_t *layout;
    uint32_t epoch;
    uint64_t incarnation;
} weft_slots_law;

/* A port that buckets land through, with the slots registered for it. */
typedef struct weft_inlet {
    weft_port *port; /* NULL: closed */
    weft_region *region;
    uint32_t turn;     /* how often it was opened before */
    bool failed;       /* the fabric reports so: the trainer is told, and has it closed */
    uint64_t arrivals; /* since it was opened */
} weft_inlet;

/* An update on its way: its header, and its trailer once that came. */
typedef struct weft_incoming {
    weft_wire_update header;
    weft_wire_trailer trailer;
    bool has_trailer;
    bool withdrawn; /* as the trailer says: it comes to nothing */
} weft_incoming;

/* A bucket copied out of its slot and checked: nobody else can write it. */
typedef struct weft_taken {
    uint8_t *memory;
    uint64_t capacity, bytes, used; /* used: decoded so far */
    bool delta;                     /* of a snapshot: frames with a base, for tiles already there */
    bool unpacked;                  /* the frame admitted last stands in the unpacker */
} weft_taken;

/* What was received of the first queued update. */
typedef struct weft_receipt_book {
    uint64_t buckets, frames, frame_bytes, changed;
    uint64_t bytes; /* headers and trailer too */
    uint64_t attachment_got;
    uint64_t next_unit; /* first unit that has not come, or cannot come any more */
    bool proved;        /* all of it came and leads to the target */
    uint64_t verified;  /* [commit] verify = full: units of the weights found to be what is held */
    uint64_t begun_ns, whole_ns, decode_ns;
} weft_receipt_book;

typedef enum weft_search_reason {
    WEFT_SEARCH_NONE,
    WEFT_SEARCH_TARGET, /* staged bits do not lead to the target: the fault waits */
    WEFT_SEARCH_JOIN    /* the bits bound are no version that the trainer knows: the offer waits */
} weft_search_reason;

/* Looking for the tensor and the tile in which bits differ from a version: search.c. */
typedef struct weft_search {
    weft_search_reason reason;
    bool tiles;           /* of `tensor`; else the tensors are gone through */
    bool done;            /* found, or there is nothing to find */
    uint32_t late;        /* searches given up with a question under way: so many answers are passed over first */
    const uint64_t *mine; /* digests of parts here; borrowed */
    weft_wire_query query;
    weft_version version;           /* compared with; all 0: the newest */
    uint64_t tensor, next;          /* whose tiles; next tensor or tile to ask for */
    uint64_t count, first;          /* tensors of the version that differ so far, and the first of them */
    weft_version nearest;           /* the version with the fewest */
    uint64_t nearest_count;         /* that differ from it */
    uint32_t walked;                /* versions gone through */
    bool all;                       /* every unit that differs is looked for, for a repair */
    uint64_t units, staged_bytes;   /* found, and what staging needs for them */
    char name[WEFT_PART_TEXT + 40]; /* "": not found */
    uint64_t until_ns;
} weft_search;

/* Where a rollout may join: the addresses of the relays that its site names, in order, then the trainer's. Each of
 * these has one way at least. */
typedef struct weft_gateway {
    char address[64];           /* numeric; "": its name is not known */
    char relay[WEFT_SITE_NAME]; /* "": the trainer */
    uint32_t place;             /* of the relay, or the trainer, in that order */
} weft_gateway;
#define WEFT_GATEWAYS ((WEFT_SITE_VIAS + 1) * WEFT_CONTROL_ADDRESSES)

/* Gateways of a rollout, dialed in turn at each join from the first on. gateway.c owns it. */
typedef struct weft_route {
    weft_gateway gateways[WEFT_GATEWAYS];
    uint32_t count, at;
    uint32_t silent;      /* place, counted from 1, of the relay that was lost by its silence: passed over at first */
    bool brief;           /* a relay was lost: the others are asked in turn, none for long */
    weft_resolver *names; /* answers to the gateways' names, which may come later; NULL: nobody asked */
    uint64_t since_ns;    /* time when the present gateway was dialed first; 0: not yet */
} weft_route;

typedef struct weft_relay weft_relay;
typedef struct weft_rollout weft_rollout;

/* What a relay does with what its rollout receives. The room relay stands above this one and fills the table. */
typedef struct weft_relay_hooks {
    weft_status (*open)(weft_rollout *rollout); /* sets rollout->relay, also where it fails later */
    void (*close)(weft_rollout *rollout);
    uint64_t (*bytes)(const weft_relay *relay);
    /* Serves the children: accepts, passes on; `waits` says which ports may have something to say. */
    void (*step)(weft_relay *relay, weft_waits *waits);
    void (*wait)(const weft_relay *relay, weft_waits *waits);
    /* Whether an update is on its way to a child. */
    bool (*busy)(const weft_relay *relay);
    /* Buckets of the relay's own stream may be whole: passes them on before they leave their slots. */
    void (*pass)(weft_relay *relay);
    weft_status (*follow)(weft_relay *relay, const uint8_t *body, uint64_t length);
    /* An update was withdrawn, and all that came of it passed on: nobody follows what comes under its name. */
    void (*unfollow)(weft_relay *relay, const weft_version *target);
    /* The relay's own connection is lost, and with it all children's; WEFT_OK: by a goodbye, which is passed on. */
    void (*lose)(weft_relay *relay, weft_status status, const char *why);
    /* Sends the last words of children that are to go. Blocks until they have them or the deadline, after the
     * session's thread has ended. */
    void (*flush)(weft_relay *relay, uint64_t deadline_ns);
} weft_relay_hooks;

/* What a message of the trainer has decided about the connection; the next step of join.c carries it out. */
typedef enum weft_connection_verdict {
    WEFT_VERDICT_NONE,
    WEFT_VERDICT_LATER,   /* the other end has nothing to join yet */
    WEFT_VERDICT_REFUSED, /* `refusal` says why */
    WEFT_VERDICT_GOODBYE
} weft_connection_verdict;

struct weft_rollout {
    weft_session *session;
    weft_site_peer site;
    weft_binding weights;
    bool bound;
    bool holds; /* held and digests say what the weights are */
    weft_version held;
    uint64_t *digests; /* of the weights held, one per part */
    uint64_t *staged;  /* of the version being staged */
    uint64_t *fresh;   /* of the weights, digested anew to be compared */
    weft_blob *attachment, *incoming_attachment;

    weft_join join;
    bool said_goodbye; /* the trainer left in good order and has not been seen since */
    bool later;        /* the last answer was that nothing can be joined yet */
    bool unproved;     /* refused for good because one end does not take the other's proof */
    weft_status refusal;
    char refusal_text[256];
    weft_route route;
    bool was_joined;   /* in this process */
    weft_relay *relay; /* NULL: it is none */
    const weft_relay_hooks *hooks;
    weft_connection_verdict verdict;
    weft_version over; /* target of the update that the last step found withdrawn; run 0: none */
    uint64_t away_since_ns, retry_ns, dialed_ns;
    char away_text[192];      /* why the last connection ended or was not made */
    weft_status away_status;  /* the same */
    bool doubt;               /* the weights may not be what is held: digested anew before the next HELLO */
    bool digesting;           /* that pass is under way, without the lock */
    uint32_t retries, faults; /* faults in a row, without a commit between */
    weft_control control;
    weft_wire_welcome welcome;
    uint64_t pinged_ns;
    uint32_t heartbeat_ms;

    const weft_provider *provider;
    /* One of each address: inlet i is on the one of its place modulo link_count. NULL: that one is away. */
    weft_link *links[WEFT_SITE_RAILS];
    uint32_t link_count;
    char address[WEFT_SITE_NAME]; /* of the first, chosen where the site names none */
    uint64_t link_writes[WEFT_SITE_RAILS], link_failures[WEFT_SITE_RAILS];
    weft_link_facts facts; /* of the first that was there; chunk_bytes of the smallest */
    weft_inlet inlets[WEFT_PORTS_MAX];
    uint32_t inlet_count;
    uint32_t epoch;
    weft_slots slots;
    uint64_t next_sequence;
    weft_incoming queue[WEFT_UPDATES_AHEAD];
    uint32_t queued;
    weft_taken taken;
    weft_receipt_book book, last; /* last: of the version committed last */
    const char *level;            /* of that version; "" before the first */
    weft_staging staging;
    weft_unpacker unpacker;
    weft_proof proof; /* of a snapshot's tiles */
    weft_search search;
    uint8_t *tensors, *nearest_tensors; /* a bit a tensor: differs from the version gone through, from the nearest */
    uint8_t *wrong;                     /* a bit a unit: differs from the nearest */
    bool searched;                      /* on this connection: an offer is a snapshot now */
    bool told;                          /* that the weights held are no version, and where */
    weft_phase phase;
    bool offered; /* a snapshot waits for the caller's commit */
    weft_version offer;
    bool into_image; /* [commit] snapshot = staged */
    uint8_t *image;
    weft_binding image_binding;
    void *stream;       /* the caller's, of the commit under way */
    bool snapshot_runs; /* ACCEPT was sent and the snapshot is not whole yet */
    bool asked;         /* ACCEPT or REPAIR was sent, and neither UPDATE nor OFFER came since */
    weft_status snapshot_failed;
    uint64_t
        moved_ns; /* last time a chunk came, a bucket was taken, an update was begun or announced whole or asked for */
};

/* After so many faults in a row the bits held are no longer trusted to lead anywhere: a snapshot is asked for. */
#define WEFT_ROLLOUT_FAULTS 3u

/* Whether what is held may still serve as a base: not once several versions in a row failed on it. */
static inline bool weft_rollout_trusts(const weft_rollout *rollout)
{
    return rollout->holds && rollout->faults < WEFT_ROLLOUT_FAULTS;
}

static inline weft_status weft_rollout_send(weft_rollout *rollout, weft_message type, const weft_out *body)
{
    return weft_control_send(&rollout->control, type, body ? body->data : NULL, body ? body->used : 0);
}

/* ---- rollout.c */
/* Opens a rollout; `hooks` serve it if the site makes it a relay. */
weft_status weft_rollout_make(const weft_site *site, const char *peer, const weft_layout *layout,
                              const weft_options *options, const weft_relay_hooks *hooks, weft_session **session);

/* ---- join.c */
weft_status weft_join_open(weft_rollout *rollout);
void weft_join_close(weft_rollout *rollout);
/* Dials, greets, keeps the connection alive. */
void weft_join_step(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits);
/* The connection is gone or must go: closes everything on it and dials again later. */
void weft_join_lose(weft_rollout *rollout, weft_status status, const char *why);
/* A version failed here: tells the trainer, finds out what is really held if `doubt`, and joins again. */
void weft_join_fault(weft_rollout *rollout, weft_status status, bool doubt);

/* ---- greet.c */
/* Opens the inlets and says HELLO on a connection that was greeted. */
weft_status weft_greet_hello(weft_rollout *rollout);

/* ---- inlet.c */
/* Opens a link on each of the addresses; `first` stands for the first of them. Of several one will do, but for a relay:
 * the others are opened when the trainer asks for them. */
weft_status weft_inlet_links(weft_rollout *rollout, const char *first);
/* Opens all inlets of a new connection and names them. */
weft_status weft_inlet_open(weft_rollout *rollout, weft_wire_hello *hello);
/* Joins them with the trainer's ports and closes those that it will not use. */
weft_status weft_inlet_connect(weft_rollout *rollout, const weft_wire_welcome *welcome);
/* Closes all, the fence of the connection; with `links` those too. */
void weft_inlet_close(weft_rollout *rollout, bool links);
uint32_t weft_inlet_used(const weft_rollout *rollout);
/* Describes the rails; returns how many there are. */
uint32_t weft_inlet_rails(const weft_rollout *rollout, weft_rail_info rails[WEFT_RAILS_MAX]);
/* An inlet reports that it failed. Errors: WEFT_E_PEER_LOST when there is no other. */
weft_status weft_inlet_fail(weft_rollout *rollout, weft_inlet *inlet, weft_status why);
/* LOOK, CLOSE and OPEN. */
weft_status weft_inlet_tell(weft_rollout *rollout);
weft_status weft_inlet_shut(weft_rollout *rollout, const uint8_t *body, uint64_t length);
weft_status weft_inlet_reopen(weft_rollout *rollout, const uint8_t *body, uint64_t length);
/* Says which inlets may have something to say. */
void weft_inlet_wait(const weft_rollout *rollout, weft_waits *waits);

/* ---- gateway.c */
/* "host:port" of the relays that a peer joins through, in order, and of the trainer, if it may turn there. */
uint32_t weft_gateway_hosts(const weft_site *site, const weft_site_peer *peer,
                            char hosts[WEFT_RESOLVER_NAMES][WEFT_SITE_TEXT]);
/* Finds the addresses of the ways, of one at least. Blocks for the name server, at most connect_deadline. Errors:
 * WEFT_E_CONFIG, WEFT_E_UNREACHABLE, WEFT_E_MEMORY. */
weft_status weft_gateway_open(weft_rollout *rollout);
void weft_gateway_close(weft_route *route);
/* No way led anywhere: names may be other addresses by now. Asks, and takes over what it asked for before. */
void weft_gateway_renew(weft_rollout *rollout);
/* The first address that is known. */
const char *weft_gateway_known(const weft_route *route);
/* The way to dial first at a new join: that of the first relay; after faults one further, so that a relay that damages
 * is gone round. `silent`: who was joined says nothing any more. A stopped process still lets itself be dialed, so that
 * a relay is tried last then. */
void weft_gateway_begin(weft_route *route, uint32_t faults, bool silent);
/* The way just dialed led nowhere: the next. False: all were tried. */
bool weft_gateway_next(weft_route *route);
/* Whether the way just dialed is to be dialed again: at the first join a relay may be starting just now, as everybody
 * is, so that it has a heartbeat to be there; one that was there and is gone has not. */
bool weft_gateway_again(const weft_rollout *rollout, uint64_t now_ns);
/* How long to wait for an answer there: a relay is given up after a heartbeat; one that has not even greeted, where
 * another was lost and there are more, after an eighth of one, since it does that by itself. */
uint64_t weft_gateway_patience_ms(const weft_rollout *rollout, uint64_t most_ms);
/* The name that the end of the present way proves: the relay's, or the trainer's. */
const char *weft_gateway_owner(const weft_route *route);
/* "the trainer", or "relay NAME". */
void weft_gateway_name(const weft_route *route, char name[WEFT_SITE_NAME + 8]);

/* ---- dispatch.c */
/* Reads what the trainer said and acts on it; `verdict` says what becomes of the connection. */
/* Ends the connection because one end does not take the other's proof, as the last error says: for good if this process
 * never joined, because nobody waits for a key that may be right later; else it is tried again. */
weft_status weft_dispatch_unproved(weft_rollout *rollout);
weft_status weft_dispatch_step(weft_rollout *rollout);

/* ---- ask.c */
/* The trainer's offer may be taken up. */
weft_status weft_ask_offered(weft_rollout *rollout);
/* Sends a message that UPDATE or OFFER is to answer in its time. */
weft_status weft_ask_send(weft_rollout *rollout, weft_message type, const weft_out *body);

/* ---- search.c */
/* Staged bits do not have the target's digest: asks in which tile; WEFT_AGAIN when the question is under way. */
weft_status weft_search_target(weft_rollout *rollout);
/* The weights bound are no version that the trainer knows: asks which tile keeps them from being one. */
weft_status weft_search_join(weft_rollout *rollout);
weft_status weft_search_answer(weft_rollout *rollout, const uint8_t *body, uint64_t length);
/* While a search is on: ends it when it is done or has taken io_deadline; the fault that waited for it, if one did. */
weft_status weft_search_check(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits);
weft_status weft_search_open(weft_rollout *rollout);
void weft_search_close(weft_rollout *rollout);
/* Forgets it: the connection is gone. */
void weft_search_drop(weft_rollout *rollout);

/* ---- verify.c */
/* Compares the next unit of the weights with what is held. Errors: WEFT_E_BASE, naming tensor and tile. */
weft_status weft_verify_step(weft_rollout *rollout);
/* A frame did not decode: names its units. WEFT_E_BASE if their weights are not what is held, else `why`. */
weft_status weft_verify_frame(weft_rollout *rollout, const weft_frame_header *frame, weft_status why);
/* Names the first tile of units whose weights are not what is held. */
void weft_verify_name(weft_rollout *rollout, uint64_t unit, uint64_t units, char name[WEFT_PART_TEXT]);

/* ---- slots.c */
/* Counts an arrival by an inlet into its slot and judges the bucket's header. */
weft_status weft_slots_count(weft_slots *slots, const weft_slots_law *law, uint32_t inlet, uint32_t immediate,
                             uint64_t now_ns);
/* Forgets what came by an inlet of buckets that are not whole; says in `whole`, a bit a slot, which are. */
void weft_slots_forget(weft_slots *slots, uint32_t inlet, uint8_t whole[WEFT_SLOTS_MAX / 8]);

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
/* Moves the weights to the staged version, outside the lock. After WEFT_E_DEVICE they are those of no version. */
weft_status weft_stage_commit(weft_rollout *rollout);
/* The first queued update was committed: `held` and digests move, the trainer is told, the next may be staged. */
void weft_stage_settle(weft_rollout *rollout, uint64_t commit_ns);
/* Starts with the next queued update afresh. */
void weft_stage_clear(weft_rollout *rollout);
/* Decodes or stores frames of the bucket that was taken: one, or some windows full. */
weft_status weft_stage_frames(weft_rollout *rollout);
/* Where a snapshot goes. */
const weft_binding *weft_stage_target(const weft_rollout *rollout);

/* ---- rollout_bind.c, rollout_commit.c, rollout_end.c: the public calls, under the lock */
/* Takes the binding over, after an error too. */
weft_status weft_rollout_bind(weft_rollout *rollout, weft_binding *fresh, const void *attachment,
                              uint64_t attachment_bytes, bool empty);
weft_status weft_rollout_staged(weft_rollout *rollout, uint32_t deadline_ms, weft_staged_info *info);
weft_status weft_rollout_commit(weft_rollout *rollout, uint64_t version, void *stream, weft_version *held);
weft_status weft_rollout_scrub(weft_rollout *rollout);
/* If `status` says that the device failed, as the last error has it: the session makes no more steps. */
void weft_rollout_end(weft_rollout *rollout, weft_status status);
/* WEFT_OK, or what the session ended with, said. */
weft_status weft_rollout_ended(const weft_rollout *rollout);

#endif
