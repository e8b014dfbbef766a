/* session.c - what both ends of a connection are made of, and the thread that moves them.
 *
 * A session owns the backend, the site's copy, rings of log lines and events, and two descriptors that wake its
 * threads. weft_trainer_open and weft_rollout_open make one, and give it a `step`: all that the end does about its
 * peers, its messages and its data, once, without blocking. The step says in weft_waits what it waits for next.
 *
 * With progress = thread, `run` takes steps in turn with sleep, on a thread of its own. With progress = manual the
 * caller's waits take them (weft_session_step_once), and a thread is left for urgent work alone. A caller that needs
 * the steps itself, as a commit that receives a snapshot does, parks the thread, which then only helps (`stand_by`).
 * Whoever takes a step holds the lock, and sleeps outside it, so a call never waits for the network to get the lock.
 * Mutexes are not fair, so a busy thread yields to callers that are counted as waiting.
 *
 * A sleep ends at the earliest of: the step's deadline, a descriptor, a wake by a call, and IDLE_NS. Ports that have no
 * descriptor are polled at growing intervals. A clock of the test's own takes the place of time in every one of these
 * waits, which is why the simulator can run a fleet in one thread. */
#include "session/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/thread.h"
#include "layout/digest.h"

/* A session that waits for nothing looks around this often. */
#define IDLE_NS (250 * WEFT_NS_PER_MS)
/* A caller that waits for a change sees weft_interrupt after at most this. */
#define INTERRUPT_NS (100 * WEFT_NS_PER_MS)
/* Adaptive sleep for ports without a descriptor: doubles between these while nothing arrives. */
#define BLIND_MIN_NS (20 * 1000ull)
#define BLIND_MAX_NS (5 * WEFT_NS_PER_MS)

void weft_waits_fd(weft_waits *waits, int fd, short events)
{
    if (fd >= 0 && waits->count < waits->capacity)
        waits->fds[waits->count++] = (struct pollfd){.fd = fd, .events = events};
    else if (fd >= 0)
        waits->blind = true;
}

void weft_waits_until(weft_waits *waits, uint64_t ns)
{
    if (ns < waits->wake_ns)
        waits->wake_ns = ns;
}

void weft_waits_port(weft_waits *waits, const weft_provider *provider, weft_port *port)
{
    if (waits->busy)
        return;
    int fd = provider->wait_fd(port);
    if (fd < 0)
        waits->blind = true;
    else if (provider->wait_arm(port) == WEFT_AGAIN)
        waits->busy = true;
    else
        weft_waits_fd(waits, fd, POLLIN);
}

static weft_status waits_open(weft_waits *waits, uint32_t capacity)
{
    waits->fds = weft_mem_take(capacity, sizeof *waits->fds);
    waits->capacity = capacity;
    return waits->fds ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for %u descriptors", capacity);
}

static weft_status open_rings(weft_session *session)
{
    session->own_log = session->options.log != NULL;
    if (!session->own_log)
        weft_log_start();
    session->lines = weft_mem_take(WEFT_LOG_LINES, WEFT_LOG_KEPT);
    session->line_levels = weft_mem_take(WEFT_LOG_LINES, sizeof *session->line_levels);
    session->events = weft_mem_take(WEFT_EVENTS, sizeof *session->events);
    if (session->lines && session->line_levels && session->events)
        return WEFT_OK;
    return weft_fail(WEFT_E_MEMORY, "no memory for log and event rings");
}

static weft_status open_backend(weft_session *session, const char *backend, const weft_backend_options *work)
{
    session->backend = weft_backend_find(backend);
    if (!session->backend)
        return weft_fail(WEFT_E_MISSING, "backend = %s: this build has none of that name; use auto or host", backend);
    weft_status status = session->backend->open(work, &session->device);
    if (status != WEFT_OK)
        return status;
    snprintf(session->backend_name, sizeof session->backend_name, "%s/%s", session->backend->name,
             session->backend->kernels(session->device));
    return weft_pipeline_open(&session->calls, session->backend, session->device);
}

static weft_status make_parts(weft_session *session, const weft_site *site, const char *backend,
                              const weft_backend_options *work, uint32_t fds)
{
    weft_status status = weft_site_copy(site, &session->site);
    if (status == WEFT_OK)
        status = open_rings(session);
    if (status == WEFT_OK)
        status = waits_open(&session->thread_waits, fds);
    if (status == WEFT_OK)
        status = waits_open(&session->caller_waits, fds);
    session->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    session->caller_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (status == WEFT_OK && (session->wake_fd < 0 || session->caller_fd < 0))
        status = weft_fail(WEFT_E_SYSTEM, "eventfd: %s", strerror(errno));
    return status == WEFT_OK ? open_backend(session, backend, work) : status;
}

static void init_lock(weft_session *session)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&session->lock, NULL);
    pthread_mutex_init(&session->log_lock, NULL);
    pthread_cond_init(&session->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static uint64_t clock_incarnation(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

weft_options weft_session_options(const weft_options *options)
{
    weft_options given = {0};
    if (options)
        memcpy(&given, options, options->size < sizeof given ? options->size : sizeof given);
    return given;
}

int64_t weft_session_device(int64_t site, const weft_options *options)
{
    return site >= 0 ? site : (int64_t)weft_session_options(options).device - 1;
}

weft_status weft_session_divide(const weft_site *site, const weft_layout *model, const weft_options *options,
                                bool is_trainer, weft_division *division)
{
    weft_status status = weft_size_check(options, "weft_options");
    if (status != WEFT_OK)
        return status;
    const weft_options given = weft_session_options(options);
    weft_cut *cuts = weft_mem_take(site->cut_count + 1, sizeof *cuts);
    if (!cuts)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu cuts", (unsigned long long)site->cut_count);
    weft_site_cuts(site, cuts);
    const uint32_t count = (uint32_t)site->cut_count;
    const weft_slice_list slices = {given.slices, given.slice_count}, all = {NULL, 0};
    status = is_trainer ? weft_division_open_source(model, cuts, count, &slices, division)
                        : weft_division_open_view(model, cuts, count, &all, &slices, division);
    weft_mem_give(cuts);
    return status;
}

weft_status weft_session_make(const weft_site *site, weft_division *division, const weft_options *options,
                              const char *backend, const weft_backend_options *work, uint32_t fds,
                              weft_session **session)
{
    uint64_t allocations_before = weft_mem_allocations();
    weft_session *made = weft_mem_take(1, sizeof *made);
    if (!made) {
        weft_division_close(division);
        return weft_fail(WEFT_E_MEMORY, "no memory for a session");
    }
    made->allocations_before = allocations_before;
    weft_turn_open(&made->turn);
    made->options = weft_session_options(options);
    made->incarnation = made->options.incarnation ? made->options.incarnation : clock_incarnation();
    made->has_share = made->options.slices != NULL;
    made->options.slices = NULL; /* because the caller may free them now */
    made->options.sources = NULL;
    made->division = *division;
    made->layout = division->layout;
    made->sink = (weft_log_sink){site->log_level, weft_session_line};
    made->wake_fd = made->caller_fd = -1;
    made->caller_blind_ns = BLIND_MIN_NS;
    init_lock(made);
    weft_descriptors_open();
    weft_status status = make_parts(made, site, backend, work, fds);
    if (status != WEFT_OK) {
        weft_session_unmake(made);
        return status;
    }
    *session = made;
    return WEFT_OK;
}

void weft_session_retire(weft_session *session)
{
    weft_pipeline_close(&session->calls);
    if (session->device)
        session->backend->close(session->device);
    if (session->wake_fd >= 0)
        close(session->wake_fd);
    if (session->caller_fd >= 0)
        close(session->caller_fd);
    if (session->own_log && session->lines && session->line_levels)
        weft_session_hand_out(session);
    weft_mem_give(session->thread_waits.fds);
    weft_mem_give(session->caller_waits.fds);
    weft_mem_give(session->events);
    weft_guard_close(session->guard);
    weft_descriptors_close();
    atomic_store(&session->retired, true);
    if (!session->own_log)
        weft_log_drain();
}

void weft_session_unmake(weft_session *session)
{
    weft_session_retire(session);
    weft_mem_give(session->lines);
    weft_mem_give(session->line_levels);
    weft_division_close(&session->division);
    weft_site_free(session->site);
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->log_lock);
    pthread_mutex_destroy(&session->lock);
    weft_mem_give(session);
}

/* ---- steps */

static void begin_waits(weft_waits *waits, int wake_fd)
{
    waits->count = 0;
    waits->wake_ns = weft_clock_ns() + IDLE_NS;
    waits->busy = waits->blind = false;
    weft_waits_fd(waits, wake_fd, POLLIN);
}

/* Sleeps as the step said; `*blind_ns` is the adaptive sleep's present length. */
static void sleep_for(weft_waits *waits, uint64_t deadline_ns, uint64_t *blind_ns)
{
    uint64_t now = weft_clock_ns(), until = waits->wake_ns < deadline_ns ? waits->wake_ns : deadline_ns;
    uint64_t ignored;
    if (waits->busy) {
        *blind_ns = BLIND_MIN_NS;
        return;
    }
    if (waits->blind && until > now + *blind_ns) {
        until = now + *blind_ns;
        *blind_ns = *blind_ns * 2 < BLIND_MAX_NS ? *blind_ns * 2 : BLIND_MAX_NS;
    }
    uint64_t left = until > now && !weft_clock_own ? until - now : 0;
    struct timespec t = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    int ready = ppoll(waits->fds, waits->count, &t, NULL);
    if (ready > 0 && waits->fds[0].revents)
        while (read(waits->fds[0].fd, &ignored, sizeof ignored) > 0)
            ;
    if (weft_clock_own && ready == 0 && until > now)
        weft_clock_pass(until - now);
}

/* Helps the caller's thread and sleeps until woken, until that has taken the steps off it no longer. */
static void stand_by(weft_session *session)
{
    uint64_t blind_ns = BLIND_MIN_NS;
    while (atomic_load(&session->parked)) {
        begin_waits(&session->thread_waits, session->wake_fd);
        while (session->help && session->help(session))
            ;
        sleep_for(&session->thread_waits, UINT64_MAX, &blind_ns);
    }
}

static void signal_fd(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof one) < 0)
        return; /* the counter is full: it is awake */
}

static void *run(void *argument)
{
    weft_session *session = argument;
    uint64_t blind_ns = BLIND_MIN_NS;
    bool work = session->site->session.progress == WEFT_PROGRESS_THREAD;
    weft_log_enter(&session->sink);
    pthread_mutex_lock(&session->lock);
    while (!session->stopping) {
        begin_waits(&session->thread_waits, session->wake_fd);
        weft_descriptors_watch();
        if (!atomic_load(&session->parked)) /* set under the lock: from then on the caller makes the steps */
            session->step(session, work, &session->thread_waits);
        if (!work && session->stirred)
            signal_fd(session->caller_fd);
        session->stirred = false;
        pthread_mutex_unlock(&session->lock);
        if (!atomic_load(&session->parked))
            sleep_for(&session->thread_waits, UINT64_MAX, &blind_ns);
        /* pthread mutexes are not fair: without this a busy thread would keep a caller out for long */
        for (int turn = 0; atomic_load(&session->callers) && turn < 1000; turn++)
            sched_yield();
        stand_by(session);
        pthread_mutex_lock(&session->lock);
    }
    pthread_mutex_unlock(&session->lock);
    return NULL;
}

weft_status weft_session_start(weft_session *session)
{
    if (weft_clock_own && session->site->session.progress != WEFT_PROGRESS_MANUAL)
        return weft_fail(WEFT_E_STATE, "a clock of one's own needs [session] progress = manual");
    if (weft_clock_own)
        return WEFT_OK;
    int error = weft_thread_start(&session->thread, run, session);
    session->running = error == 0;
    return error ? weft_fail(WEFT_E_SYSTEM, "no progress thread: %s", strerror(error)) : WEFT_OK;
}

void weft_session_stop(weft_session *session)
{
    if (!session->running)
        return;
    weft_log_sink *before = weft_session_enter(session);
    session->stopping = true;
    weft_session_wake(session);
    weft_session_leave(session, before);
    pthread_join(session->thread, NULL);
    session->running = false;
}

weft_log_sink *weft_session_enter(weft_session *session)
{
    atomic_fetch_add(&session->callers, 1);
    pthread_mutex_lock(&session->lock);
    atomic_fetch_sub(&session->callers, 1);
    return weft_log_enter(&session->sink);
}

void weft_session_leave(weft_session *session, weft_log_sink *before)
{
    weft_log_enter(before);
    pthread_mutex_unlock(&session->lock);
}

void weft_session_wake(weft_session *session)
{
    session->woken = true;
    signal_fd(session->wake_fd);
}

void weft_session_nudge(weft_session *session)
{
    signal_fd(session->wake_fd);
}

/* Nothing here but an atomic store and write(2): a signal handler may call it. A waiter without a descriptor looks at
 * the flag every INTERRUPT_NS. */
void weft_interrupt(weft_session *session)
{
    if (session->turn.process != getpid())
        return; /* a forked child shares the descriptor with its parent */
    atomic_store(&session->interrupted, true);
    signal_fd(session->caller_fd);
}

bool weft_session_interrupted(weft_session *session)
{
    return atomic_exchange(&session->interrupted, false);
}

void weft_session_changed(weft_session *session)
{
    pthread_cond_broadcast(&session->changed);
}

void weft_session_step_once(weft_session *session, uint64_t deadline_ns)
{
    begin_waits(&session->caller_waits, session->caller_fd);
    weft_descriptors_watch();
    session->step(session, true, &session->caller_waits);
    pthread_mutex_unlock(&session->lock);
    sleep_for(&session->caller_waits, deadline_ns, &session->caller_blind_ns);
    pthread_mutex_lock(&session->lock);
}

bool weft_session_wait(weft_session *session, uint64_t deadline_ns)
{
    if (weft_clock_ns() >= deadline_ns)
        return false;
    if (session->site->session.progress == WEFT_PROGRESS_MANUAL || !session->running) {
        weft_session_step_once(session, deadline_ns);
        return true;
    }
    uint64_t look_ns = weft_clock_ns() + INTERRUPT_NS, until = look_ns < deadline_ns ? look_ns : deadline_ns;
    struct timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    pthread_cond_timedwait(&session->changed, &session->lock, &t);
    return true;
}

weft_status weft_close(weft_session *session)
{
    weft_status status = session ? weft_turn_close(&session->turn) : WEFT_OK;
    if (session && status == WEFT_OK)
        session->close(session);
    return status;
}
