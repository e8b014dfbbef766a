/* Goodbyes: each end says so, the other keeps what it has, and a trainer that comes back takes its rollouts again. */
#include "tests/support/fleet.h"
#include "tests/support/fleet_fake.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void publish_one(fleet *f)
{
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
}

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .tells = true, .joins = 1, .opened = publish_one};

static void hear_goodbye(fleet *f)
{
    weft_staged_info staged = {.size = sizeof staged};
    fleet_stop_trainer(f);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_GOODBYE, NULL, FLEET_WAIT_MS, NULL));
    assert_int_equal(weft_staged(f->rollouts[0].session, 0, &staged), WEFT_E_PEER_LOST);
    assert_non_null(strstr(weft_last_error(), "goodbye"));
}

static void stop_trainer(fleet *f)
{
    weft_version held;
    hear_goodbye(f);
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_OK);
    assert_int_equal(held.number, 1);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    fleet_check(f, 0);
}

static uint64_t snapshots(fleet *f)
{
    weft_peer_info info;
    return fleet_peer(f, "a", &info) ? info.snapshot_bytes : 0;
}

/* Several starts a second, too. */
static void a_later_start_draws_a_higher_run(void **state)
{
    fleet *f = *state;
    weft_version held;
    uint64_t last = 0;
    for (int i = 0; i < 12; i++) {
        assert_int_equal(weft_held(f->trainer.session, &held), WEFT_OK);
        assert_true(held.run > last);
        assert_in_range(held.run >> 32, (uint64_t)time(NULL) - 60, (uint64_t)time(NULL)); /* of later hours, too */
        last = held.run;
        fleet_stop_trainer(f);
        fleet_start_trainer(f, NULL);
    }
}

/* The run and the number are new, the bits are not: nothing is sent. */
static void same_bits_again(void **state)
{
    fleet *f = *state;
    weft_version before, after;
    assert_int_equal(weft_held(f->rollouts[0].session, &before), WEFT_OK);
    stop_trainer(f);
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_held(f->rollouts[0].session, &after), WEFT_OK);
    assert_true(after.root == before.root);
    assert_true(after.run != before.run);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_int_equal(snapshots(f), 0);
    assert_int_equal(weft_wait(f->trainer.session, 0, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
}

static void other_bits(void **state)
{
    fleet *f = *state;
    stop_trainer(f);
    fleet_change(f->layout, f->dense, 500, &f->seed);
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
    assert_true(snapshots(f) >= f->bytes);
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
}

/* A version proved before the goodbye may still be committed. */
static void staged_before_goodbye(void **state)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_publish(f, 50);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    fleet_stop_trainer(f);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_GOODBYE, NULL, FLEET_WAIT_MS, NULL));
    assert_int_equal(weft_staged(f->rollouts[0].session, 0, &staged), WEFT_OK);
    assert_int_equal(weft_commit(f->rollouts[0].session, staged.target.number, NULL, 0, NULL), WEFT_OK);
    fleet_check_bytes(f, 0, f->dense);
    assert_int_equal(weft_staged(f->rollouts[0].session, 100, &staged), WEFT_E_PEER_LOST);
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
    assert_int_equal(snapshots(f), 0);
}

/* Only a wait is broken off by an interrupt. */
static void waits_now(fleet *f)
{
    weft_staged_info staged = {.size = sizeof staged};
    weft_interrupt(f->rollouts[0].session);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_E_TIMEOUT);
}

/* A trainer that left is reported at each deadline, and an engine's loop waits for the next trainer. */
static void waits_for_the_next_trainer(void **state)
{
    fleet *f = *state;
    weft_session *session = f->rollouts[0].session;
    weft_staged_info staged = {.size = sizeof staged};
    for (unsigned life = 0; life < 2; life++) {
        hear_goodbye(f);
        assert_int_equal(weft_staged(session, 0, &staged), WEFT_E_PEER_LOST);
        waits_now(f);
        assert_int_equal(weft_staged(session, 10, &staged), WEFT_E_PEER_LOST);
        assert_non_null(strstr(weft_last_error(), "goodbye"));
        f->dense[0] ^= 1;
        fleet_start_trainer(f, NULL);
        assert_int_equal(weft_staged(session, FLEET_WAIT_MS, &staged), WEFT_OK);
        fleet_catch_up(f, 0);
    }
}

/* No trainer within connect_deadline is reported, and the weights are as they were. A trainer that comes later is
 * found. */
static void unreachable(void **state)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_leave(f, 0);
    fleet_stop_trainer(f);
    fleet_open_rollout(f, 0, "session.connect_deadline=200ms");
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    assert_int_equal(fleet_alone(f, 0), WEFT_E_UNREACHABLE);
    assert_string_not_equal(weft_last_error(), "");
    waits_now(f);
    assert_int_equal(weft_staged(f->rollouts[0].session, 0, &staged), WEFT_E_UNREACHABLE);
    fleet_check_bytes(f, 0, f->dense);
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
    weft_layout *layout = NULL;
    weft_site *site = fleet_site(f, NULL);
    fleet_leave(f, 0);
    fleet_stop_trainer(f);
    assert_int_equal(weft_layout_fetch(site, "a", 200, &layout), WEFT_E_UNREACHABLE);
    weft_site_free(site);
}

/* The error says that there was only silence. */
static void silent(void **state)
{
    fleet *f = *state;
    fleet_leave(f, 0);
    fleet_stop_trainer(f);
    int listener = fake_listen(f);
    fleet_open_rollout(f, 0, "session.connect_deadline=200ms");
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    assert_int_equal(fleet_alone(f, 0), WEFT_E_UNREACHABLE);
    assert_non_null(strstr(weft_last_error(), "(connect_deadline): it does not answer; is it running there?"));
    fleet_leave(f, 0);
    close(listener);
}

static void rollout_says_goodbye(void **state)
{
    fleet *f = *state;
    weft_event event;
    fleet_leave(f, 0);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_GOODBYE, "a", FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_OK);
    fleet_wait_state(f, "a", WEFT_PEER_LOST, FLEET_WAIT_MS);
    fleet_publish(f, 50);
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
}

/* Both ends in any order and any state. */
static void close_at_once(void **state)
{
    fleet *f = *state;
    fleet_join(f, 1, FLEET_OTHER);
    fleet_open_rollout(f, 2, NULL);
    fleet_publish(f, 1000);
    weft_close(NULL);
    fleet_leave(f, 2);
    fleet_leave(f, 1);
    fleet_stop_trainer(f);
    fleet_leave(f, 0);
}

static void fork_and_close(weft_session *session)
{
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        weft_close(session);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A forked child has neither a session's threads nor a say: its close does nothing, and at once. */
static void a_forked_child_has_no_say(void **state)
{
    fleet *f = *state;
    fork_and_close(f->trainer.session);
    fork_and_close(f->rollouts[0].session);
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
    assert_false(fleet_event(f->rollouts[0].session, WEFT_EVENT_GOODBYE, NULL, 0, NULL));
    assert_false(fleet_event(f->trainer.session, WEFT_EVENT_LOST, NULL, 0, NULL));
}

/* Its copies of sockets keep neither a port nor a connection. */
static void a_forked_child_holds_nothing(void **state)
{
    fleet *f = *state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pause(); /* until it is killed */
        _exit(1);
    }
    stop_trainer(f);
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
    fleet_leave(f, 0);
    fleet_wait_state(f, "a", WEFT_PEER_LOST, FLEET_WAIT_MS);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

typedef struct curious {
    weft_session *session;
    unsigned answers;
} curious;

static void ask(void *user, weft_log_level level, const char *line)
{
    curious *c = user;
    weft_stats_info stats = {.size = sizeof stats};
    (void)level;
    (void)line;
    c->answers += c->session && weft_stats(c->session, &stats) == WEFT_OK;
}

/* Lines that no one took come out in weft_close, whose callback may still ask. */
static void the_last_lines_may_ask(void **state)
{
    fleet *f = *state;
    curious c = {0};
    const weft_options options = {.size = sizeof options, .log = ask, .log_user = &c};
    weft_site *site = fleet_site(f, NULL);
    assert_int_equal(weft_rollout_open(site, "b", f->layout, &options, &c.session), WEFT_OK);
    weft_site_free(site);
    weft_close(c.session);
    assert_true(c.answers > 0);
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_later_start_draws_a_higher_run),
        TEST(same_bits_again),
        TEST(other_bits),
        TEST(staged_before_goodbye),
        TEST(waits_for_the_next_trainer),
        TEST(unreachable),
        TEST(silent),
        TEST(rollout_says_goodbye),
        TEST(close_at_once),
        TEST(a_forked_child_has_no_say),
        TEST(a_forked_child_holds_nothing),
        TEST(the_last_lines_may_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
