/* Calls that come while another is under way, and calls of a forked child: they are refused, and nothing else moves. */
#include "tests/support/fleet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/host/host.h"
#include "session/session.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- a host backend at which one thread's next job waits */

static weft_backend gated;
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static bool gate_shut, gate_reached;
static _Thread_local bool gate_mine;

/* `passes`: it does not wait, since it is over. */
static void gate_reach(bool passes)
{
    pthread_mutex_lock(&gate_lock);
    gate_reached = true;
    pthread_cond_broadcast(&gate_moved);
    while (gate_shut && !passes)
        pthread_cond_wait(&gate_moved, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
}

static void gate_pass(void)
{
    if (gate_mine)
        gate_reach(false);
    gate_mine = false;
}

#define GATED(name)                                                                                                    \
    static weft_status gated_##name(weft_backend_state *state, weft_##name##_job *job)                                 \
    {                                                                                                                  \
        gate_pass();                                                                                                   \
        return weft_backend_host.name(state, job);                                                                     \
    }
GATED(encode)
GATED(apply)
GATED(digest)
GATED(survey)
#undef GATED

/* ---- a call on another thread that stands at the gate */

typedef struct visit {
    weft_session *session;
    weft_status (*call)(weft_session *session);
    weft_status status;
    char text[256];
    pthread_t thread;
} visit;

static void *visit_run(void *argument)
{
    visit *v = argument;
    gate_mine = true;
    v->status = v->call(v->session);
    snprintf(v->text, sizeof v->text, "%s", weft_last_error());
    gate_reach(true);
    return NULL;
}

static void visit_begin(visit *v, weft_session *session, weft_status (*call)(weft_session *session))
{
    *v = (visit){.session = session, .call = call, .status = WEFT_AGAIN};
    gate_shut = true;
    gate_reached = false;
    assert_int_equal(pthread_create(&v->thread, NULL, visit_run, v), 0);
    pthread_mutex_lock(&gate_lock);
    while (!gate_reached)
        pthread_cond_wait(&gate_moved, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
}

static void visit_end(visit *v)
{
    pthread_mutex_lock(&gate_lock);
    gate_shut = false;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate_lock);
    pthread_join(v->thread, NULL);
    if (v->status != WEFT_OK)
        fail_msg("%s", v->text);
}

/* ---- the fleet */

static fleet *world; /* of the test that runs: for calls on other threads */

static int open_with(void **state, const char *progress)
{
    const char *const overrides[] = {"trainer.backend=host", "peers.backend=host", progress, NULL};
    gated = weft_backend_host;
    gated.encode = gated_encode;
    gated.apply = gated_apply;
    gated.digest = gated_digest;
    gated.survey = gated_survey;
    weft_backend_lend(&gated);
    *state = world = fleet_open(FLEET_TILES, overrides);
    fleet_start_trainer(world, NULL);
    fleet_join(world, 0, FLEET_SAME);
    return 0;
}

static int setup(void **state)
{
    open_with(state, "session.progress=thread");
    fleet_catch_up(*state, 0);
    return 0;
}

static int setup_manual(void **state)
{
    return open_with(state, "session.progress=manual");
}

static int teardown(void **state)
{
    fleet_close(*state);
    weft_backend_lend(NULL);
    return 0;
}

static weft_status publish_next(weft_session *session)
{
    return weft_publish(session, world->newest + 1, NULL, NULL, NULL);
}

static weft_status bind_again(weft_session *session)
{
    const fleet_end *end = session == world->trainer.session ? &world->trainer : &world->rollouts[0];
    return weft_bind(session, end->model.pieces, end->model.piece_count, NULL, 0, 0);
}

static weft_status commit_next(weft_session *session)
{
    return weft_commit(session, world->newest + 1, NULL, 0, NULL);
}

static weft_status stats_of(weft_session *session)
{
    weft_stats_info stats = {.size = sizeof stats};
    return weft_stats(session, &stats);
}

static weft_status peers_of(weft_session *session)
{
    size_t count;
    return weft_peers(session, NULL, 0, &count);
}

static weft_status held_of(weft_session *session)
{
    weft_version held;
    return weft_held(session, &held);
}

static weft_status event_of(weft_session *session)
{
    weft_event event = {.size = sizeof event};
    return weft_events(session, &event);
}

static weft_status attachment_of(weft_session *session)
{
    const void *data;
    uint64_t bytes;
    return weft_attachment(session, &data, &bytes);
}

static weft_status staged_of(weft_session *session)
{
    weft_staged_info staged = {.size = sizeof staged};
    return weft_staged(session, 0, &staged);
}

static weft_status wait_now(weft_session *session)
{
    return weft_wait(session, world->newest, NULL, 0, 0);
}

static weft_status progress_now(weft_session *session)
{
    return weft_progress(session, 0);
}

typedef struct named_call {
    const char *name;
    weft_status (*call)(weft_session *session);
} named_call;

static const named_call call_publish = {"weft_publish", publish_next}, call_bind = {"weft_bind", bind_again},
                        call_commit = {"weft_commit", commit_next}, call_scrub = {"weft_scrub", weft_scrub},
                        call_staged = {"weft_staged", staged_of}, call_wait = {"weft_wait", wait_now},
                        call_progress = {"weft_progress", progress_now}, call_held = {"weft_held", held_of},
                        call_stats = {"weft_stats", stats_of}, call_peers = {"weft_peers", peers_of},
                        call_events = {"weft_events", event_of}, call_attachment = {"weft_attachment", attachment_of},
                        call_close = {"weft_close", weft_close}, call_unbind = {"weft_unbind", weft_unbind};

#define REFUSED_MOST 4

/* Each is refused up to the first NULL, because `under_way` is. */
static void all_refused(weft_session *session, const named_call *const calls[REFUSED_MOST], const char *under_way)
{
    char text[128];
    for (size_t i = 0; i < REFUSED_MOST && calls[i]; i++) {
        snprintf(text, sizeof text, "%s: %s is under way in this session", calls[i]->name, under_way);
        const weft_status status = calls[i]->call(session);
        if (status != WEFT_E_STATE || strncmp(weft_last_error(), text, strlen(text)) != 0)
            fail_msg("not \"%s\" but %s: %s", text, weft_status_name(status), weft_last_error());
    }
}

#define REFUSED(session, under_way, ...)                                                                               \
    all_refused(session, (const named_call *const[REFUSED_MOST]){__VA_ARGS__}, under_way)

/* The calls that are allowed at any time, and those that run beside others. */
static void others_answer(weft_session *session)
{
    assert_int_equal(held_of(session), WEFT_OK);
    assert_int_equal(stats_of(session), WEFT_OK);
    assert_int_equal(peers_of(session), WEFT_OK);
    assert_int_equal(attachment_of(session), WEFT_OK);
    assert_int_equal(progress_now(session), WEFT_OK);
    while (event_of(session) == WEFT_OK)
        ;
    assert_int_equal(event_of(session), WEFT_AGAIN);
}

/* ---- two threads */

static void change(fleet *f)
{
    fleet_change(f->layout, f->dense, 50, &f->seed);
    fleet_model_put(&f->trainer.model, f->dense);
}

/* The version that was published by `publish_next`, at the rollout. */
static void arrives(fleet *f)
{
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    f->newest++;
    while (weft_wait(f->trainer.session, f->newest, NULL, 0, 10) != WEFT_OK) {
        assert_true(fleet_now_ms() < end);
        if (staged_of(f->rollouts[0].session) == WEFT_OK)
            assert_int_equal(weft_commit(f->rollouts[0].session, f->newest, NULL, 0, NULL), WEFT_OK);
    }
    fleet_check_bytes(f, 0, f->dense);
}

static void publish_change(fleet *f)
{
    change(f);
    assert_int_equal(publish_next(f->trainer.session), WEFT_OK);
}

/* When the next version is published. */
typedef enum moment { STAGED_BEFORE, BY_THE_CALL, AFTERWARDS } moment;

/* A call that stands at the gate, which calls it keeps out, and what another one answers meanwhile. */
typedef struct neighbours {
    bool at_rollout;
    moment published;
    const named_call *under_way, *refused[REFUSED_MOST], *also;
    weft_status answer;
} neighbours;

static const neighbours beside[] = {
    {false, BY_THE_CALL, &call_publish, {&call_publish, &call_bind, &call_unbind, &call_close}, &call_wait, WEFT_OK},
    {true, AFTERWARDS, &call_bind, {&call_bind, &call_commit, &call_unbind, &call_close}, NULL, WEFT_OK},
    {true, STAGED_BEFORE, &call_scrub, {&call_commit, &call_scrub, &call_close}, &call_staged, WEFT_OK},
    {true, STAGED_BEFORE, &call_commit, {&call_scrub, &call_commit, &call_close}, &call_staged, WEFT_AGAIN},
};

static void try_beside(fleet *f, const neighbours *n)
{
    weft_session *rollout = f->rollouts[0].session, *session = n->at_rollout ? rollout : f->trainer.session;
    weft_staged_info staged = {.size = sizeof staged};
    visit v;
    if (n->published == STAGED_BEFORE) {
        publish_change(f);
        assert_int_equal(weft_staged(rollout, FLEET_WAIT_MS, &staged), WEFT_OK);
    } else if (n->published == BY_THE_CALL) {
        change(f);
    }
    visit_begin(&v, session, n->under_way->call);
    all_refused(session, n->refused, n->under_way->name);
    others_answer(session);
    if (n->also)
        assert_int_equal(n->also->call(session), n->answer);
    visit_end(&v);
    if (n->published == AFTERWARDS)
        publish_change(f);
    arrives(f);
}

static void calls_at_the_gate(void **state)
{
    for (size_t i = 0; i < COUNT(beside); i++)
        try_beside(*state, &beside[i]);
}

static weft_status wait_long(weft_session *session)
{
    const char *b = "b"; /* who never comes */
    return weft_wait(session, world->newest, &b, 1, FLEET_WAIT_MS);
}

/* A call that waits keeps the session open, and excludes no other call. */
static void beside_wait(void **state)
{
    fleet *f = *state;
    weft_session *session = f->trainer.session;
    visit v = {.session = session, .call = wait_long};
    assert_int_equal(pthread_create(&v.thread, NULL, visit_run, &v), 0);
    while (atomic_load(&session->turn.guests[WEFT_TURN_WAIT]) == 0)
        fleet_sleep_ms(1);
    REFUSED(session, "weft_wait", &call_close);
    publish_change(f);
    f->newest++;
    others_answer(session);
    weft_interrupt(session);
    pthread_join(v.thread, NULL);
    assert_int_equal(v.status, WEFT_E_TIMEOUT);
    f->newest--;
    arrives(f);
}

/* Calls that keep a session open are refused once weft_close has begun, and are not counted then. */
static void beside_close(void **state)
{
    fleet *f = *state;
    weft_session *sessions[] = {f->trainer.session, f->rollouts[0].session};
    for (size_t s = 0; s < COUNT(sessions); s++) {
        weft_turn *turn = &sessions[s]->turn;
        atomic_store(&turn->closing, true);
        REFUSED(sessions[s], "weft_close", &call_progress, &call_events, s ? &call_staged : &call_wait);
        atomic_store(&turn->closing, false);
        for (int guest = 0; guest < WEFT_TURN_GUESTS; guest++)
            assert_int_equal(atomic_load(&turn->guests[guest]), 0);
    }
    publish_change(f);
    arrives(f);
}

static weft_status staged_long(weft_session *session)
{
    weft_staged_info staged = {.size = sizeof staged};
    return weft_staged(session, FLEET_WAIT_MS, &staged);
}

/* Begins a call that waits, with progress by hand. */
static void hand_begin(visit *v, weft_session *session, weft_status (*call)(weft_session *session))
{
    *v = (visit){.session = session, .call = call};
    assert_int_equal(pthread_create(&v->thread, NULL, visit_run, v), 0);
    for (const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS; !atomic_load(&session->turn.taken[WEFT_TURN_STEPS]);) {
        assert_true(fleet_now_ms() < end);
        fleet_sleep_ms(1);
    }
}

static void hand_end(visit *v)
{
    weft_interrupt(v->session);
    pthread_join(v->thread, NULL);
    assert_int_equal(v->status, WEFT_E_TIMEOUT);
}

/* One thread makes progress by hand, and another works on the weights. */
static void beside_hand(void **state)
{
    fleet *f = *state;
    weft_session *session = f->rollouts[0].session;
    visit v;
    hand_begin(&v, session, staged_long); /* of which nothing comes, since the trainer makes no progress */
    REFUSED(session, "weft_staged", &call_commit, &call_progress, &call_close);
    hand_end(&v);
    session = f->trainer.session;
    hand_begin(&v, session, wait_long);
    REFUSED(session, "weft_wait", &call_progress, &call_wait, &call_close);
    publish_change(f);
    hand_end(&v);
    f->newest++;
    change(f);
    visit_begin(&v, session, publish_next);
    assert_int_equal(progress_now(session), WEFT_OK);
    visit_end(&v);
}

#define RACE_CALLS 200

typedef struct racer {
    weft_session *session;
    _Atomic uint64_t *version;
    uint32_t done, refused, wrong;
} racer;

/* Asserts nothing: it is not the test's thread. Versions are drawn before it is known who comes first, so one may be
 * too low as well. */
static void *race(void *argument)
{
    racer *r = argument;
    for (int i = 0; i < RACE_CALLS; i++) {
        weft_status status = weft_publish(r->session, atomic_fetch_add(r->version, 1), NULL, NULL, NULL);
        r->done += status == WEFT_OK;
        r->refused += status == WEFT_E_STATE;
        r->wrong += status != WEFT_OK && status != WEFT_E_STATE;
    }
    return NULL;
}

/* Whatever two threads that publish do to each other, what they publish is what the weights are. */
static void publishers_race(void **state)
{
    fleet *f = *state;
    _Atomic uint64_t version = 1;
    racer racers[2] = {{f->trainer.session, &version, 0, 0, 0}, {f->trainer.session, &version, 0, 0, 0}};
    weft_version held = {0, 0, 0}, there = {0, 0, 0};
    weft_staged_info staged = {.size = sizeof staged};
    pthread_t thread;
    change(f);
    assert_int_equal(pthread_create(&thread, NULL, race, &racers[1]), 0);
    race(&racers[0]);
    pthread_join(thread, NULL);
    assert_int_equal(racers[0].wrong + racers[1].wrong, 0);
    assert_true(racers[0].done + racers[1].done > 0);
    assert_int_equal(weft_held(f->trainer.session, &held), WEFT_OK);
    f->newest = held.number;
    assert_int_equal(publish_next(f->trainer.session), WEFT_OK);
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    while (there.number != f->newest + 1) {
        assert_true(fleet_now_ms() < end);
        if (weft_staged(f->rollouts[0].session, 50, &staged) == WEFT_OK)
            weft_commit(f->rollouts[0].session, staged.target.number, NULL, 0, &there);
    }
    fleet_check_bytes(f, 0, f->dense);
}

/* ---- a forked child */

static const named_call *const of_both[] = {&call_bind,   &call_held,     &call_stats,      &call_peers,
                                            &call_events, &call_progress, &call_attachment, &call_close};
static const named_call *const of_trainer[] = {&call_publish, &call_wait};
static const named_call *const of_rollout[] = {&call_staged, &call_commit, &call_scrub};

/* In the child, where nothing may be asserted: what it says goes to its parent as its exit status. */
static void all_foreign(const named_call *const *calls, size_t count, weft_session *session)
{
    char begins[96];
    for (size_t i = 0; i < count; i++) {
        snprintf(begins, sizeof begins, "%s: the session belongs to process %ld, which opened it", calls[i]->name,
                 (long)getppid());
        if (calls[i]->call(session) == WEFT_E_STATE && strncmp(weft_last_error(), begins, strlen(begins)) == 0)
            continue;
        fprintf(stderr, "%s in a forked child: %s\n", calls[i]->name, weft_last_error());
        _exit(1);
    }
}

static void child(fleet *f)
{
    weft_session *trainer = f->trainer.session, *rollout = f->rollouts[0].session;
    alarm(60); /* one that hangs dies */
    all_foreign(of_both, COUNT(of_both), trainer);
    all_foreign(of_trainer, COUNT(of_trainer), trainer);
    all_foreign(of_both, COUNT(of_both), rollout);
    all_foreign(of_rollout, COUNT(of_rollout), rollout);
    weft_interrupt(trainer);
    weft_interrupt(rollout);
    if (atomic_load(&trainer->interrupted) || atomic_load(&rollout->interrupted))
        _exit(2);
    _exit(0);
}

static void fork_and_call(fleet *f)
{
    int status = -1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child(f);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

typedef struct keeper {
    weft_session *sessions[2];
    _Atomic bool has, enough;
} keeper;

static void *keep(void *argument)
{
    keeper *k = argument;
    for (int i = 0; i < 2; i++)
        pthread_mutex_lock(&k->sessions[i]->lock);
    atomic_store(&k->has, true);
    while (!atomic_load(&k->enough))
        fleet_sleep_ms(1);
    for (int i = 0; i < 2; i++)
        pthread_mutex_unlock(&k->sessions[i]->lock);
    return NULL;
}

/* No call of a child does anything or waits for anything, be it for a lock that a thread of its parent had. */
static void forked_child(void **state)
{
    fleet *f = *state;
    keeper k = {.sessions = {f->trainer.session, f->rollouts[0].session}};
    pthread_t thread;
    fork_and_call(f);
    assert_int_equal(pthread_create(&thread, NULL, keep, &k), 0);
    while (!atomic_load(&k.has))
        fleet_sleep_ms(1);
    fork_and_call(f);
    atomic_store(&k.enough, true);
    pthread_join(thread, NULL);
    publish_change(f);
    arrives(f);
    assert_false(fleet_event(f->trainer.session, WEFT_EVENT_LOST, NULL, 0, NULL));
    assert_false(fleet_event(f->rollouts[0].session, WEFT_EVENT_GOODBYE, NULL, 0, NULL));
}

/* A child forked while a call runs gets the same error. */
static void forked_beside_publish(void **state)
{
    fleet *f = *state;
    visit v;
    change(f);
    visit_begin(&v, f->trainer.session, publish_next);
    fork_and_call(f);
    visit_end(&v);
    arrives(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(calls_at_the_gate),     TEST(beside_wait),
        TEST(beside_close),          cmocka_unit_test_setup_teardown(beside_hand, setup_manual, teardown),
        TEST(publishers_race),       TEST(forked_child),
        TEST(forked_beside_publish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
