/* rollout.h - the rollout's end: joins, receives buckets into slots, stages their frames, commits.
 *
 * The parts that a rollout has once are the weights (current) and the course of the version that comes next. All other
 * parts are there once for each trainer. */
#ifndef WEFT_CORE_ROLLOUT_H
#define WEFT_CORE_ROLLOUT_H

#include "rollout/arriving.h"
#include "rollout/course.h"
#include "rollout/intake.h"
#include "rollout/joining.h"
#include "rollout/searching.h"

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

/* The weights and the version that they are. stage.c moves them on, rollout_bind.c binds them. */
typedef struct weft_current {
    weft_binding weights;
    bool bound;
    bool known; /* version and digests say what the weights are */
    weft_version version;
    uint64_t *digests; /* digests of the weights, one for each part */
    uint64_t *fresh;   /* digests of the weights, made anew to be compared */
    weft_blob *attachment;
    bool doubt;     /* the weights may be another version: they are digested anew before the next HELLO */
    bool digesting; /* that pass is under way, without the lock */
} weft_current;

struct weft_rollout {
    weft_session *session;
    weft_site_peer site;
    weft_current current;
    weft_course course;
    weft_joining joining;
    weft_intake intake;
    weft_arriving arriving;
    weft_stage stage;
    weft_searching searching;
    weft_relay *relay; /* NULL: the rollout is no relay */
    const weft_relay_hooks *hooks;
};

/* After so many faults in a row the bits held are no longer trusted to lead anywhere: a snapshot is asked for. */
#define WEFT_ROLLOUT_FAULTS 3u

/* Whether what is held may still serve as a base: not once several versions in a row failed on it. */
static inline bool weft_rollout_trusts(const weft_current *current, const weft_joining *joining)
{
    return current->known && joining->faults < WEFT_ROLLOUT_FAULTS;
}

static inline weft_status weft_rollout_send(weft_joining *joining, weft_message type, const weft_out *body)
{
    return weft_control_send(&joining->control, type, body ? body->data : NULL, body ? body->used : 0);
}

/* ---- rollout.c */
/* Opens a rollout; `hooks` serve it if the site makes it a relay. */
weft_status weft_rollout_make(const weft_site *site, const char *peer, const weft_layout *layout,
                              const weft_options *options, const weft_relay_hooks *hooks, weft_session **session);

/* ---- join.c */
weft_status weft_join_open(weft_rollout *rollout);
void weft_join_close(weft_intake *intake, weft_joining *joining);
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
weft_status weft_inlet_connect(weft_intake *intake, weft_joining *joining, const weft_wire_welcome *welcome);
/* Closes all, the fence of the connection; with `links` those too. */
void weft_inlet_close(weft_intake *intake, bool links);
uint32_t weft_inlet_used(const weft_intake *intake);
/* Describes the rails; returns how many there are. */
uint32_t weft_inlet_rails(const weft_intake *intake, const weft_site_peer *site, weft_rail_info rails[WEFT_RAILS_MAX]);
/* An inlet reports that it failed. Errors: WEFT_E_PEER_LOST when there is no other. */
weft_status weft_inlet_fail(weft_intake *intake, weft_joining *joining, weft_inlet *inlet, weft_status why);
/* LOOK, CLOSE and OPEN. */
weft_status weft_inlet_tell(weft_intake *intake, weft_joining *joining);
weft_status weft_inlet_shut(weft_intake *intake, weft_joining *joining, const uint8_t *body, uint64_t length);
weft_status weft_inlet_reopen(weft_rollout *rollout, const uint8_t *body, uint64_t length);
/* Says which inlets may have something to say. */
void weft_inlet_wait(const weft_arriving *arriving, const weft_intake *intake, weft_waits *waits);

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
bool weft_gateway_again(const weft_joining *joining, const weft_site_peer *site, uint64_t now_ns);
/* How long to wait for an answer there: a relay is given up after a heartbeat; one that has not even greeted, where
 * another was lost and there are more, after an eighth of one, since it does that by itself. */
uint64_t weft_gateway_patience_ms(const weft_joining *joining, const weft_site_peer *site, uint64_t most_ms);
/* "the trainer", or "relay NAME". */
void weft_gateway_name(const weft_route *route, char name[WEFT_SITE_NAME + 8]);

/* ---- dispatch.c */
/* Reads what the trainer said and acts on it; `verdict` says what becomes of the connection. */
weft_status weft_dispatch_step(weft_rollout *rollout);

/* ---- ask.c */
/* The trainer's offer may be taken up. */
weft_status weft_ask_offered(weft_rollout *rollout);
/* Sends a message that UPDATE or OFFER is to answer in its time, and moves the course by `event`. */
weft_status weft_ask_send(weft_rollout *rollout, weft_course_event event, weft_message type, const weft_out *body);

/* ---- search.c */
/* Staged bits do not have the target's digest: asks in which tile; WEFT_AGAIN when the question is under way. */
weft_status weft_search_target(weft_rollout *rollout);
/* The weights bound are no version that the trainer knows: asks which tile keeps them from being one. */
weft_status weft_search_join(weft_rollout *rollout);
weft_status weft_search_answer(weft_rollout *rollout, const uint8_t *body, uint64_t length);
/* While a search is on: ends it when it is done or has taken io_deadline; the fault that waited for it, if one did. */
weft_status weft_search_check(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits);
weft_status weft_search_open(weft_searching *searching, weft_session *session);
void weft_search_close(weft_searching *searching);
/* Forgets it: the connection is gone. */
void weft_search_drop(weft_searching *searching);

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
void weft_receive_close(weft_arriving *arriving, weft_intake *intake);
/* Forgets everything of the connection. */
void weft_receive_reset(weft_arriving *arriving, weft_intake *intake);
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
const weft_binding *weft_stage_target(const weft_current *current, const weft_stage *stage);

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
weft_status weft_rollout_ended(weft_session *session);

#endif
