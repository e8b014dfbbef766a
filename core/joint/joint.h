/* joint.h - the ends of one rollout, moved as one: one wish, one version, one commit.
 *
 * A rollout of one trainer has one end, and all here hands on to that. A rollout of several sources has an end at each
 * source that contributes to its view. Ends join, receive and stage by themselves; here they agree on a number, and the
 * weights are moved when all of them have it. */
#ifndef WEFT_CORE_JOINT_H
#define WEFT_CORE_JOINT_H

#include "rollout/rollout.h"
#include "shard/naming.h"

/* The number that the ends are brought to. accord.c owns it. */
typedef struct weft_accord {
    uint64_t run; /* run of all trainers, when they had the same last; 0: none yet */
    bool open;    /* `number` is wanted of all ends */
    uint64_t number;
    bool named; /* the caller named `wanted`, which comes next */
    uint64_t wanted;
    bool shuns; /* some trainer passed `shunned` over */
    uint64_t shunned;
    uint64_t below;    /* a number near `shunned` that can be had; 0: none */
    uint64_t apart[2]; /* runs that were told of last, because they differ; 0: all trainers had one since */
} weft_accord;

/* The commit that is queued on the caller's stream. joint_queue.c owns it. */
typedef struct weft_joint_queue {
    weft_queued_commit commit;
    weft_rollout *ends[WEFT_SOURCES_MAX]; /* those that move */
    uint32_t count;
    bool open; /* the device has it */
} weft_joint_queue;

/* Slices and weights by the caller's numbers of tensors, kept because an end's trainer may have another order.
 * joint_order.c owns them. */
typedef struct weft_said {
    weft_slice_list view;                       /* slices of the rollout */
    weft_slice_list holdings[WEFT_SOURCES_MAX]; /* slices of each source */
    weft_naming bound;                          /* weights that are bound; none: never bound */
    bool reading;                               /* a call of the caller's reads weights without the lock */
} weft_said;

typedef struct weft_joint {
    weft_session *session;
    bool several; /* the options name sources, if only one */
    weft_rollout *ends[WEFT_SOURCES_MAX];
    weft_division *divisions[WEFT_SOURCES_MAX]; /* divisions of the ends; NULL: the session's */
    uint32_t count;
    weft_said said;
    weft_joint_queue queue;
    /* All that follows is of several sources. */
    weft_version held;   /* version of the weights, as far as they are of one */
    bool whole;          /* the weights are of one version */
    bool moving;         /* a commit is under way */
    uint64_t taking;     /* run of a commit that takes snapshots */
    bool held_back;      /* a commit waits for weft_settle */
    bool told;           /* WEFT_EVENT_STAGED was raised for what is ready to commit */
    weft_wishing wishes; /* what cannot be had, for the caller */
    weft_accord accord;
} weft_joint;

/* ---- joint.c */
/* Opens a rollout of all its trainers. `hooks` serve it if the site makes it a relay. */
weft_status weft_joint_open(const weft_site *site, const char *peer, const weft_layout *layout,
                            const weft_options *options, const weft_relay_hooks *hooks, weft_session **session);

/* ---- joint_ends.c */
/* Divides the model for each source, and proves that the sources together have all of the view, each element once.
 * Sources that contribute nothing to the view get no end. Errors: WEFT_E_ARGUMENT, WEFT_E_LAYOUT, WEFT_E_MEMORY. */
weft_status weft_joint_divide(weft_joint *joint, const weft_options *options, uint32_t sources[WEFT_SOURCES_MAX]);

/* ---- joint_order.c */
/* Keeps the slices of the options. Errors: WEFT_E_MEMORY. */
weft_status weft_joint_keep(weft_joint *joint, const weft_options *options);
void weft_joint_forget(weft_joint *joint);
/* Gives ends whose trainer has the same tensors in another order that order. A part of the session's step. */
void weft_joint_order_step(weft_joint *joint, weft_waits *waits);

/* ---- joint_bind.c: the public calls, under the lock */
/* The call owns the attachment. */
weft_status weft_joint_bind(weft_joint *joint, const weft_naming *by, weft_blob *attachment, bool empty);
weft_status weft_joint_unbind(weft_joint *joint);
weft_status weft_joint_scrub(weft_joint *joint);

/* ---- accord.c */
/* Agrees on the next number, and asks the ends for it. A part of the session's step. */
void weft_accord_step(weft_joint *joint);
/* Notes which version the weights are. */
void weft_accord_note(weft_joint *joint);
/* Returns the version noted last, without its name if an end has found other bits in its weights since. */
weft_version weft_accord_held(const weft_joint *joint);
weft_status weft_joint_want(weft_joint *joint, uint64_t number);
weft_status weft_joint_offered(weft_joint *joint, uint64_t after, uint32_t deadline_ms, uint64_t *number);

/* ---- joint_commit.c: the public calls, under the lock */
bool weft_joint_held(const weft_joint *joint, weft_version *held);
weft_status weft_joint_commit(weft_joint *joint, uint64_t version, void *stream, uint32_t flags, weft_version *held);
weft_status weft_joint_settle(weft_joint *joint, weft_settlement how, void *stream, weft_version *held);
/* Waits for a change. WEFT_OK: look again. WEFT_AGAIN: the deadline passed. */
weft_status weft_joint_await(weft_joint *joint, uint64_t deadline_ns);
/* Tells why nothing will ever come, or with `away` why nothing comes until a trainer does. */
weft_status weft_joint_check(const weft_joint *joint, bool away);

/* ---- joint_staged.c */
/* Figures of the ends, for a commit of all. */
typedef struct weft_joint_figures {
    uint32_t staged, offered, snapshots; /* ends; an offer is a snapshot too */
    bool ready;                          /* each end has something to commit, or has weights */
    bool one;                            /* each end has, or has staged, the version `target` */
    weft_version target;                 /* of the trainers' run, if there is one, and of the largest number */
} weft_joint_figures;
weft_joint_figures weft_joint_survey(const weft_joint *joint);
/* Returns true if an end is offered a snapshot, or has staged one. */
bool weft_joint_is_snapshot(const weft_rollout *end);
/* Returns true if a snapshot is offered that may be taken. A commit takes those of one run. */
bool weft_joint_is_offered(const weft_joint *joint, const weft_rollout *end);
/* Describes what is ready to commit. False: nothing is. */
bool weft_joint_describe(const weft_joint *joint, weft_staged_info *info);
/* Returns true if a commit has to bring the ends to one number by itself, because what the trainers gave leads to
 * others: snapshots, and repairs of bits that are no version. */
bool weft_joint_has_to_join(const weft_joint *joint);
weft_status weft_joint_staged(weft_joint *joint, uint32_t deadline_ms, weft_staged_info *info);

/* ---- joint_queue.c */
/* Queues what the ends have staged, and holds it for weft_settle. WEFT_AGAIN: the device cannot do that by itself, and
 * nothing was done (a snapshot, an encoded update, no device). Other errors are the commit's, as of weft_commit. */
weft_status weft_joint_queue_begin(weft_joint *joint, void *stream);
/* Waits for the device before a commit is settled. WEFT_OK: the weights are the new version's, or nothing was queued.
 * WEFT_AGAIN: it was to be undone, and no weight was moved. Errors, after which the old weights are there and nothing
 * is held: WEFT_E_BASE; WEFT_E_DEVICE. */
weft_status weft_joint_queue_end(weft_joint *joint, weft_settlement how);
/* Waits for the device before the ends are closed, when the session's thread has ended. */
void weft_joint_queue_drop(weft_joint *joint);

/* ---- what the parts ask of an end */
/* Returns true if the end has staged a version of that number and run. */
static inline bool weft_joint_has_staged(const weft_rollout *end, uint64_t run, uint64_t number)
{
    const weft_version *target = &end->arriving.queue[0].trailer.target;
    return end->course.state == WEFT_COURSE_STAGED && target->run == run && target->number == number;
}

/* Returns the number of a version of the run that all trainers have. Versions of other runs come before: 0. */
static inline uint64_t weft_joint_number(const weft_joint *joint, const weft_version *version)
{
    return version->run == joint->accord.run ? version->number : 0;
}

/* Returns the run that the end has: its trainer's, or while that is away the run of what the end goes on with. */
static inline uint64_t weft_joint_run_of(const weft_rollout *end)
{
    if (end->joining.state == WEFT_JOIN_JOINED)
        return end->joining.welcome.run;
    return end->course.state == WEFT_COURSE_STAGED ? end->arriving.queue[0].trailer.target.run
                                                   : end->current.version.run;
}

/* Returns true if the end's weights are the version of that number and run. */
static inline bool weft_joint_is_at(const weft_rollout *end, uint64_t run, uint64_t number)
{
    const weft_current *current = &end->current;
    return current->known && current->version.run == run && current->version.number == number;
}

#endif
