/* A trainer that is away: a rollout that joined once serves what it holds and waits, for longer than connect_deadline.
 * A rollout that is to tell, one that never joined, and one that finds an end that it cannot talk to, report so. */
#include "tests/support/fleet_fake.h"

#include <string.h>
#include <unistd.h>

/* Longer than the connect_deadline of these fleets. */
#define LONG_MS 450u

#define BEHIND 3u /* rollout x1, behind relay a */

static fleet_fake fake;

static void no_fake(fleet *f)
{
    (void)f;
    fake.fd = -1;
}

static void join_one(fleet *f)
{
    fleet_join(f, 0, FLEET_SAME);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_JOINED, NULL, FLEET_WAIT_MS, NULL));
}

/* The trainer knows of it before it knows itself. */
static void join_behind(fleet *f)
{
    fleet_join_behind(f, BEHIND);
    assert_true(fleet_event(f->rollouts[BEHIND].session, WEFT_EVENT_JOINED, NULL, FLEET_WAIT_MS, NULL));
}

static void ended(fleet *f)
{
    (void)f;
    fake_close(&fake);
}

static const fleet_kind plain_fleet = {
    FLEET_SMALL,     .starts = true,     .overrides = FLEET_WITH("session.connect_deadline=200ms"),
    .open = no_fake, .opened = join_one, .close = ended};

static const fleet_kind wants_fleet = {
    FLEET_SMALL,   .starts = true,  .overrides = FLEET_WITH("session.connect_deadline=200ms"),
    .wants = true, .open = no_fake, .opened = join_one,
    .close = ended};

static const fleet_kind tells_fleet = {
    FLEET_SMALL,   .starts = true,  .overrides = FLEET_WITH("session.connect_deadline=200ms"),
    .tells = true, .open = no_fake, .opened = join_one,
    .close = ended};

static const fleet_kind relay_fleet = {
    FLEET_TILES,           .starts = true, .overrides = FLEET_WITH("peer.a.relay_memory=64MiB", "peer.x*.via=a"),
    .relays = "a",         .joins = 1,     .open = no_fake,
    .opened = join_behind, .close = ended};

static weft_status staged(fleet *f, uint32_t deadline_ms)
{
    weft_staged_info info = {.size = sizeof info};
    return weft_staged(f->rollouts[0].session, deadline_ms, &info);
}

static double away_ms(fleet *f)
{
    return fleet_stats(f->rollouts[0].session).away_ms;
}

static void hear(fleet *f, weft_event_kind kind)
{
    assert_true(fleet_event(f->rollouts[0].session, kind, NULL, FLEET_WAIT_MS, NULL));
}

/* The trainer is there again, and its versions come. */
static void comes_back(fleet *f)
{
    fleet_change(f->layout, f->dense, 50, &f->seed);
    fleet_start_trainer(f, NULL);
    hear(f, WEFT_EVENT_JOINED);
    fleet_catch_up(f, 0);
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
    assert_true(away_ms(f) == 0);
}

/* A trainer joins, and its process dies without a word. */
static void dies(fleet *f)
{
    weft_wire_hello hello;
    fleet_stop_trainer(f);
    hear(f, WEFT_EVENT_GOODBYE);
    const int listener = fake_listen(f);
    fake_take_hello(&fake, listener, &hello);
    fake_welcome(&fake, f, &hello, 60000);
    assert_true(away_ms(f) == 0);
    close(listener);
    fake_close(&fake);
    hear(f, WEFT_EVENT_LOST);
}

static void waits_after_a_goodbye(void **state)
{
    fleet *f = *state;
    weft_version held;
    assert_true(away_ms(f) == 0);
    fleet_stop_trainer(f);
    hear(f, WEFT_EVENT_GOODBYE);
    assert_int_equal(staged(f, 0), WEFT_AGAIN);
    assert_int_equal(staged(f, LONG_MS), WEFT_AGAIN);
    assert_true(away_ms(f) >= LONG_MS);
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_OK);
    comes_back(f);
}

static void waits_after_a_death(void **state)
{
    fleet *f = *state;
    dies(f);
    assert_int_equal(staged(f, LONG_MS), WEFT_AGAIN);
    assert_true(away_ms(f) >= LONG_MS);
    comes_back(f);
}

static void offers_wait_too(void **state)
{
    fleet *f = *state;
    uint64_t offered = 0;
    fleet_stop_trainer(f);
    hear(f, WEFT_EVENT_GOODBYE);
    assert_int_equal(weft_offered(f->rollouts[0].session, f->newest, LONG_MS, &offered), WEFT_AGAIN);
    fleet_start_trainer(f, NULL);
    fleet_publish(f, 50);
    assert_int_equal(weft_offered(f->rollouts[0].session, f->newest - 1, FLEET_WAIT_MS, &offered), WEFT_OK);
    assert_int_equal(offered, f->newest);
}

static void tells_if_asked_to(void **state)
{
    fleet *f = *state;
    dies(f);
    assert_int_equal(staged(f, LONG_MS), WEFT_E_UNREACHABLE);
    assert_true(away_ms(f) >= LONG_MS);
    comes_back(f);
    fleet_stop_trainer(f);
    hear(f, WEFT_EVENT_GOODBYE);
    assert_int_equal(staged(f, 0), WEFT_E_PEER_LOST);
    comes_back(f);
}

/* It was the trainer before that said goodbye. The next one is there, and has no weights yet. */
static void tells_of_no_goodbye_of_the_next(void **state)
{
    fleet *f = *state;
    fleet_stop_trainer(f);
    hear(f, WEFT_EVENT_GOODBYE);
    assert_int_equal(staged(f, 0), WEFT_E_PEER_LOST);
    fleet_open_trainer(f);
    weft_status status = WEFT_E_PEER_LOST;
    for (uint64_t end = fleet_now_ms() + FLEET_WAIT_MS; status == WEFT_E_PEER_LOST && fleet_now_ms() < end;) {
        fleet_sleep_ms(1);
        status = staged(f, 0);
    }
    assert_int_not_equal(status, WEFT_E_PEER_LOST);
    fleet_bind_trainer(f, NULL);
    hear(f, WEFT_EVENT_JOINED);
    fleet_catch_up(f, 0);
}

/* A relay waits, and so do those behind it. The next trainer finds all of them. */
static void relays_wait_too(void **state)
{
    fleet *f = *state;
    const unsigned all[] = {0, BEHIND};
    weft_staged_info info = {.size = sizeof info};
    fleet_stop_trainer(f);
    for (size_t i = 0; i < 2; i++) {
        weft_session *session = f->rollouts[all[i]].session;
        assert_true(fleet_event(session, WEFT_EVENT_GOODBYE, NULL, FLEET_WAIT_MS, NULL));
        assert_int_equal(weft_staged(session, 0, &info), WEFT_AGAIN);
        assert_true(fleet_stats(session).away_ms > 0);
    }
    fleet_start_trainer(f, NULL);
    fleet_publish(f, 50);
    for (size_t i = 0; i < 2; i++)
        fleet_catch_up(f, all[i]);
}

/* One that answers in another protocol is there, and may stay as it is. */
static void cannot_talk(fleet *f)
{
    const int listener = fake_listen(f);
    fake.fd = fake_accept(listener);
    fake_send(&fake, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
    assert_int_equal(fleet_alone(f, 0), WEFT_E_UNREACHABLE);
    assert_null(strstr(weft_last_error(), "does not answer"));
    fake_close(&fake);
    close(listener);
    comes_back(f);
}

static void an_end_that_it_cannot_talk_to(void **state)
{
    fleet *f = *state;
    dies(f);
    cannot_talk(f);
}

/* Nor is it a goodbye, because that was of the trainer before. */
static void such_an_end_after_a_goodbye(void **state)
{
    fleet *f = *state;
    fleet_stop_trainer(f);
    hear(f, WEFT_EVENT_GOODBYE);
    cannot_talk(f);
}

/* A first contact that never comes is reported, whatever the options say. */
static void never_joined(void **state)
{
    fleet *f = *state;
    fleet_leave(f, 0);
    fleet_stop_trainer(f);
    fleet_join(f, 0, FLEET_SAME);
    assert_int_equal(fleet_alone(f, 0), WEFT_E_UNREACHABLE);
    assert_true(away_ms(f) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(waits_after_a_goodbye, plain_fleet),
        FLEET_TEST(waits_after_a_death, plain_fleet),
        FLEET_TEST(offers_wait_too, wants_fleet),
        FLEET_TEST(tells_if_asked_to, tells_fleet),
        FLEET_TEST(tells_of_no_goodbye_of_the_next, tells_fleet),
        FLEET_TEST(an_end_that_it_cannot_talk_to, plain_fleet),
        FLEET_TEST(such_an_end_after_a_goodbye, plain_fleet),
        FLEET_TEST(such_an_end_after_a_goodbye, tells_fleet),
        FLEET_TEST(relays_wait_too, relay_fleet),
        FLEET_TEST(never_joined, plain_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
