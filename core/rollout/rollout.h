/* rollout.h - the rollout's end at one trainer: joins, receives buckets into slots, stages their frames, commits.
 *
 * A rollout of several sources has one such end for each, and core/joint moves them as one. */
#ifndef WEFT_CORE_ROLLOUT_H
#define WEFT_CORE_ROLLOUT_H

#include "rollout/arriving.h"
#include "rollout/course.h"
#include "rollout/intake.h"
#include "rollout/joining.h"
#include "rollout/searching.h"
#include "rollout/wishing.h"

typedef struct weft_relay weft_relay;
typedef struct weft_rollout weft_rollout;

/* Functions of a relay for the buckets that its rollout receives. The room relay stands above this one and fills the
 * table. */
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
    bool away;  /* weft_unbind was called: version and digests say what the weights were */
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
    const weft_division *division; /* cells that this end receives, and their layout */
    weft_layout *layout;           /* the division's */
    weft_site_peer site;
    weft_current current;
    weft_course course;
    weft_joining joining;
    weft_intake intake;
    weft_arriving arriving;
    weft_stage stage;
    weft_searching searching;
    weft_wishing wishing;
    weft_relay *relay; /* NULL: the rollout is no relay */
    const weft_relay_hooks *hooks;
};

/* Faults in a row after which the bits held are no longer trusted to lead anywhere: a snapshot is asked for. */
#define WEFT_ROLLOUT_FAULTS 3u

/* Returns true if the version held may still serve as a base: not after several versions in a row failed on it. */
static inline bool weft_rollout_trusts(const weft_current *current, const weft_joining *joining)
{
    return current->known && joining->faults < WEFT_ROLLOUT_FAULTS;
}

static inline weft_status weft_rollout_send(weft_joining *joining, weft_message type, const weft_out *body)
{
    return weft_control_send(&joining->control, type, body ? body->data : NULL, body ? body->used : 0);
}

/* The part of its process that an end is: its source, and its share of memory. */
typedef struct weft_rollout_share {
    bool several;  /* the trainer is one of several sources, and `source` its number */
    uint32_t ends; /* ends of the process */
    uint32_t source;
    double of_bytes; /* share of the process's weights, from 0 to 1 */
} weft_rollout_share;

/* ---- sizes_rollout.c */
/* Adds up what an end takes with the staging that it has now, because more could not be had. */
void weft_rollout_sizes_lower(weft_sizes *sizes, const weft_rollout *rollout);

/* ---- rollout.c */
/* Lists the digests that an end keeps. */
weft_mem_list weft_rollout_digests(weft_rollout *rollout, const weft_layout *layout);
/* Opens an end. `hooks` serve it if `row` makes it a relay. The session and the division outlive the end. */
weft_status weft_rollout_make(weft_session *session, const weft_site_peer *row, const weft_division *division,
                              const weft_rollout_share *share, const weft_relay_hooks *hooks, weft_rollout **made);
/* Takes another order of the same tensors, while nothing is received or staged: the weights are bound as `fresh`, which
 * the end owns, and what is held keeps its label. `from` is of weft_division_match. The division outlives the end.
 * Errors, after which the session is ended, because a half of the end is not there: WEFT_E_MEMORY, WEFT_E_DEVICE, those
 * of the relay's open. */
weft_status weft_rollout_lay(weft_rollout *rollout, const weft_division *division, weft_binding *fresh,
                             const uint64_t *from);
/* Takes one step of the session for this end. */
void weft_rollout_step(weft_rollout *rollout, bool work, weft_waits *waits);
/* Waits until a relay's children have what is on its way to them, because the relay leaves in good order. */
void weft_rollout_let_pass(weft_rollout *rollout, uint64_t deadline_ns);
/* Undoes a commit that is held, and says goodbye. The session's thread has ended. */
void weft_rollout_leave(weft_rollout *rollout, uint64_t deadline_ns);
void weft_rollout_give_back(weft_rollout *rollout);

/* ---- rollout_bind.c, rollout_commit.c, rollout_end.c: the public calls, under the lock */
/* Returns true if weights were bound before, so that others must have their bits. */
static inline bool weft_rollout_was_bound(const weft_current *current)
{
    return current->bound || current->away;
}
/* Checks that weights may be bound: at first that they fit, later that they have the bits of the version held. After
 * weft_rollout_unbind they may be `empty`. */
weft_status weft_rollout_try(weft_rollout *rollout, const weft_binding *fresh, bool empty);
/* Returns WEFT_OK, or WEFT_E_STATE because a version is staged, so that weights may not be bound again now. */
weft_status weft_rollout_unstaged(const weft_rollout *rollout);
/* Binds weights that weft_rollout_try let pass, and owns the binding then. Before the first bind the weights are
 * digested, unless they are `empty`. Errors of the first bind: WEFT_E_MEMORY, those of weft_session_digest. */
weft_status weft_rollout_bind(weft_rollout *rollout, weft_binding *fresh, weft_blob *attachment, bool empty);
/* Takes a first bind back. */
void weft_rollout_bind_undo(weft_rollout *rollout);
/* Lets the weights go, and leaves the trainer until others are bound. */
void weft_rollout_unbind(weft_rollout *rollout);
/* Tells why nothing will ever come. */
weft_status weft_rollout_check_end(const weft_rollout *rollout);
/* Returns for how long the trainer has been away since the rollout was joined, in ms. 0: it is there, or was never. */
double weft_rollout_away_ms(const weft_rollout *rollout);
/* Tells why nothing will come until a trainer does, unless the rollout is to wait for one without a word. */
weft_status weft_rollout_check_trainer(const weft_rollout *rollout);
/* Describes what is ready to commit. False: nothing is. */
bool weft_rollout_describe(const weft_rollout *rollout, weft_staged_info *info);
weft_status weft_rollout_staged(weft_rollout *rollout, uint32_t deadline_ms, weft_staged_info *info);
/* Receives the snapshots that are offered to these ends in place. The caller's thread makes the steps, so that weft's
 * own never writes weights. Ends whose snapshot is whole are ready to commit, also after an error of another. */
weft_status weft_rollout_receive(weft_rollout *const *ends, uint32_t count);
weft_status weft_rollout_commit(weft_rollout *rollout, uint64_t version, void *stream, uint32_t flags,
                                weft_version *held);
/* Checks whether `version` is what is staged, and may be committed with these flags. */
weft_status weft_rollout_check_commit(const weft_rollout *rollout, uint64_t version, uint32_t flags);
/* Returns WEFT_OK, or WEFT_E_PEER_LOST because `version` was staged here and given up before its commit. */
weft_status weft_rollout_check_given_up(const weft_rollout *rollout, uint64_t version);
/* The two ends of a commit that others move: begins that of what is staged; and notes the status that came of it. */
void weft_rollout_commit_begin(weft_rollout *rollout);
void weft_rollout_commit_end(weft_rollout *rollout, uint64_t begun_ns, weft_status status, bool hold);
/* Ends a commit that is held, and of which no weight is moved. WEFT_OK: the version is staged again. Other statuses
 * give the version up. */
void weft_rollout_unmoved(weft_rollout *rollout, weft_status status);
weft_status weft_rollout_settle(weft_rollout *rollout, weft_settlement how, void *stream, weft_version *held);
/* Returns WEFT_OK, or WEFT_E_STATE because a commit waits for weft_settle; `call` names the call that has to wait. */
weft_status weft_rollout_settled(const weft_rollout *rollout, const char *call);
/* Tells once that a commit waits for weft_settle beyond [commit] deadline. */
void weft_rollout_check_held(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits);
weft_status weft_rollout_scrub(weft_rollout *rollout);
/* Takes the weights as bits without a label, because the digests in current.fresh are not those held. */
void weft_rollout_admit(weft_rollout *rollout, uint64_t root);
/* Ends the session's steps if `status` says that the device failed. The last error says how. */
void weft_rollout_end(weft_rollout *rollout, weft_status status);
/* Ends the session, because the memory for the trainer's order could not be had. The last error says why. */
void weft_rollout_end_unlaid(weft_rollout *rollout, weft_status status);
/* Returns WEFT_OK, or the status that the session ended with, with its text. */
weft_status weft_rollout_ended(weft_session *session);

#endif
