/* session.h - what both ends have in common: the lock, the progress thread, events, log lines, the backend.
 *
 * `lock` guards everything in a session except two things. The bound weights are the caller's thread's, and the
 * progress thread reads them while it stages. An update is publish's before publish hands it over. The progress thread
 * takes one `step` at a time under the lock and sleeps outside it. */
#ifndef WEFT_CORE_SESSION_H
#define WEFT_CORE_SESSION_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/turn.h"
#include "encode/pipeline.h"
#include "port/port_provider.h"
#include "security/guard.h"
#include "shard/division.h"
#include "site/site.h"

#define WEFT_EVENTS    256u
#define WEFT_LOG_LINES 256u
#define WEFT_LOG_KEPT  256u /* bytes kept of a line that waits for the callback */

/* Descriptors and times that a step waits for before the next one. */
typedef struct weft_waits {
    struct pollfd *fds;
    uint32_t count, capacity;
    uint64_t wake_ns; /* take the next step at this time at the latest */
    bool busy;        /* there is more to do at once */
    bool blind;       /* something without a descriptor is under way: poll it with an adaptive sleep */
} weft_waits;

void weft_waits_fd(weft_waits *waits, int fd, short events);
void weft_waits_until(weft_waits *waits, uint64_t ns);
/* A port's descriptor, or `blind`, or `busy` when it must be polled before sleeping. Last of all, since arming may
 * block for a moment: nothing is done when the step is busy anyway. */
void weft_waits_port(weft_waits *waits, const weft_provider *provider, weft_port *port);

typedef struct weft_trainer weft_trainer;
typedef struct weft_rollout weft_rollout;
typedef struct weft_joint weft_joint;

struct weft_session {
    weft_site *site;
    weft_guard *guard; /* who may be at the other end of its connections; NULL: anybody */
    weft_options options;
    bool has_share;         /* the options name slices: the process has a part of the model */
    weft_division division; /* how the caller's model is divided */
    weft_layout *layout;    /* the division's: what is diffed, sent and digested */
    const weft_backend *backend;
    weft_backend_state *device;
    weft_pipeline calls;  /* jobs of the caller's thread, in what it does outside the steps */
    weft_status ended;    /* not WEFT_OK: nothing can be done any more */
    char ended_text[320]; /* why */
    char backend_name[24];
    uint64_t incarnation;
    weft_turn turn;        /* which calls are under way, and in which process */
    weft_trainer *trainer; /* one of the two */
    weft_rollout *rollout; /* a rollout's first end */
    weft_joint *joint;     /* all of them */
    /* One step: makes what progress can be made without waiting and says what to wait for. `work` false: heartbeats and
     * receipts only (manual progress). */
    void (*step)(weft_session *session, bool work, weft_waits *waits);
    /* While parked, without the lock: something that the caller's thread leaves to this one; false if there is none. */
    bool (*help)(weft_session *session);
    /* Under the lock: fills in what is not counted in `stats` as it happens. */
    void (*figures)(const weft_session *session, weft_stats_info *stats);
    void (*close)(weft_session *session);

    pthread_mutex_t lock;
    pthread_cond_t changed;   /* something a caller may wait for has changed */
    _Atomic uint32_t callers; /* wanting the lock: the progress thread lets them in first */
    pthread_t thread;
    bool running; /* the thread exists */
    bool stopping;
    _Atomic bool parked; /* the caller's thread makes the steps (an in-place snapshot) */
    bool woken;          /* weft_session_wake since the last step that works: look at everything */
    bool stirred; /* a step of the thread took something in that the caller's step should see (manual progress) */
    int wake_fd, caller_fd;
    _Atomic bool interrupted; /* the caller's blocking call is to end */
    uint64_t caller_blind_ns; /* the caller's adaptive sleep */
    weft_waits thread_waits, caller_waits;

    weft_log_sink sink;
    bool own_log;        /* lines go through the ring to options.log */
    atomic_bool retired; /* a thread that was given up says nothing any more */
    char (*lines)[WEFT_LOG_KEPT];
    weft_log_level *line_levels;
    pthread_mutex_t log_lock;
    uint64_t lines_begin, lines_end, lines_lost;
    weft_event *events;
    uint64_t events_begin, events_end;
    weft_stats_info stats;
    uint64_t allocations_before; /* of the process, at open */
};

/* Copies the options that the caller's struct has room for. */
weft_options weft_session_options(const weft_options *options);
/* Returns the number of the device to work on: the site's, or what the options have where the site says "current"; -1:
 * the backend's choice. */
int64_t weft_session_device(int64_t site, const weft_options *options);
/* Divides the model by the site's cuts and the slices of the options, which are a trainer's holding or a rollout's
 * view. Errors: those of weft_division_open_view, WEFT_E_ARGUMENT (the options' size). */
weft_status weft_session_divide(const weft_site *site, const weft_layout *model, const weft_options *options,
                                bool is_trainer, weft_division *division);
/* Builds the common part: copies the site, opens the backend. `fds`: descriptors a step may wait for. Takes the
 * division over, also where it fails. */
weft_status weft_session_make(const weft_site *site, weft_division *division, const weft_options *options,
                              const char *backend, const weft_backend_options *work, uint32_t fds,
                              weft_session **session);
void weft_session_unmake(weft_session *session);
/* Ends all but what a thread that was given up may still touch: the lock, the log, the site and the layout, which stay.
 */
void weft_session_retire(weft_session *session);
/* Starts and stops the progress thread. */
weft_status weft_session_start(weft_session *session);
void weft_session_stop(weft_session *session);

/* Every public call is between these: the lock, and this session's log sink for the thread. */
weft_log_sink *weft_session_enter(weft_session *session);
void weft_session_leave(weft_session *session, weft_log_sink *before);

/* Under the lock: wakes the progress thread; tells callers that something changed. */
void weft_session_wake(weft_session *session);
/* The same, but it looks only at what it would have to look at anyway. Any thread. */
void weft_session_nudge(weft_session *session);
void weft_session_changed(weft_session *session);
/* Under the lock: waits for a change until `deadline_ns` (makes the steps itself in manual mode); false when passed. */
bool weft_session_wait(weft_session *session, uint64_t deadline_ns);
/* Whether the caller's blocking call is to end now; asked once, it is forgotten. */
bool weft_session_interrupted(weft_session *session);
/* Under the lock: one step on the caller's thread, then sleeps outside the lock as the step said, until deadline_ns. */
void weft_session_step_once(weft_session *session, uint64_t deadline_ns);

/* How often an end says PASSING to one that waits: in time for the shorter of the two deadlines by which that gives up.
 */
static inline uint64_t weft_session_passing_ns(const weft_session *session)
{
    const uint64_t io_ms = session->site->session.io_deadline_ms, commit_ms = session->site->commit.deadline_ms;
    return (io_ms < commit_ms ? io_ms : commit_ms) * WEFT_NS_PER_MS / 4;
}

void weft_session_event(weft_session *session, weft_event_kind kind, weft_status status, const char *peer,
                        const weft_version *version, const char *text);

/* ---- session_events.c */
/* The sink's write: to the ring of a session with a log callback, else to standard error's. Waits for nobody. */
void weft_session_line(weft_log_sink *sink, weft_log_level level, const char *line);
/* Hands the lines that wait to the callback, outside every lock but the ring's. */
void weft_session_hand_out(weft_session *session);

/* Root of bound weights and, in `digests` (one word per part), every part's digest; in an empty window. */
weft_status weft_session_digest(weft_pipeline *window, const weft_binding *binding, uint64_t *digests, uint64_t *root);
/* Whether weights may be bound there, for the backend. Errors: WEFT_E_ARGUMENT, with the tensor's name. */
weft_status weft_session_check(const weft_session *session, const weft_binding *binding);
/* Waits, without the lock, until no work that was given up reads weights any more. Errors: WEFT_E_TIMEOUT,
 * WEFT_E_DEVICE. */
weft_status weft_session_rest(weft_session *session);

#endif
