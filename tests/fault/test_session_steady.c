/* The steady state allocates nothing; with manual progress work happens in calls, and heartbeats go on between them. */
#include "tests/support/fleet.h"

#include <string.h>

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH("peer.b.level=pairs"),
                                       .attachment = "attached"};

static void updates_allocate_nothing(void **state)
{
    fleet *f = *state;
    uint64_t before[3] = {0};
    for (unsigned at = 0; at < 2; at++)
        fleet_join(f, at, FLEET_SAME);
    for (int version = 1; version <= 10; version++) {
        fleet_publish(f, version % 3 ? 20 : 600);
        for (unsigned at = 0; at < 2; at++)
            fleet_catch_up(f, at);
        assert_int_equal(weft_wait(f->trainer.session, f->newest, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
        uint64_t now[3] = {fleet_stats(f->trainer.session).allocations, fleet_stats(f->rollouts[0].session).allocations,
                           fleet_stats(f->rollouts[1].session).allocations};
        if (version <= 3)
            memcpy(before, now, sizeof before);
        assert_memory_equal(now, before, sizeof now);
    }
    assert_true(before[0] > 0);
}

static const fleet_kind manual_fleet = {FLEET_TILES, .starts = true,
                                        .overrides = FLEET_WITH("session.progress=manual", "peers.heartbeat=6s")};

/* Both ends are driven from here, turn by turn. */
static void catch_up_by_hand(fleet *f)
{
    for (uint64_t end = fleet_now_ms() + FLEET_WAIT_MS; weft_wait(f->trainer.session, f->newest, NULL, 0, 0);) {
        assert_true(fleet_now_ms() < end);
        assert_int_equal(weft_progress(f->trainer.session, 2), WEFT_OK);
        fleet_commit(f, 0, 2);
    }
    fleet_check_bytes(f, 0, f->dense);
}

static void join_by_hand(fleet *f)
{
    for (uint64_t end = fleet_now_ms() + FLEET_WAIT_MS; fleet_stats(f->trainer.session).peers_joined == 0;) {
        assert_true(fleet_now_ms() < end);
        weft_progress(f->trainer.session, 2);
        weft_progress(f->rollouts[0].session, 2);
    }
}

static void idle_callers_keep_their_peers(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_SAME);
    join_by_hand(f);
    fleet_publish(f, 100);
    catch_up_by_hand(f);
    fleet_publish(f, 100);
    fleet_sleep_ms(7000); /* longer than a heartbeat */
    weft_version held;
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_OK);
    assert_int_equal(held.number, 1);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_STAGED, NULL, 0, NULL)); /* of version 1 alone */
    assert_false(fleet_event(f->rollouts[0].session, WEFT_EVENT_STAGED, NULL, 0, NULL));
    catch_up_by_hand(f);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* weft_wait makes the trainer's progress, weft_staged the rollout's. */
static void calls_make_the_progress(void **state)
{
    fleet *f = *state;
    const char *a = "a";
    fleet_open_rollout(f, 0, "session.progress=thread");
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    join_by_hand(f);
    fleet_publish(f, 100);
    assert_int_equal(weft_wait(f->trainer.session, 1, &a, 1, 300), WEFT_E_TIMEOUT); /* sent, not committed */
    weft_staged_info staged = {.size = sizeof staged};
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    assert_int_equal(weft_commit(f->rollouts[0].session, 1, NULL, 0, NULL), WEFT_OK);
    assert_int_equal(weft_wait(f->trainer.session, 1, &a, 1, FLEET_WAIT_MS), WEFT_OK);
    fleet_check_bytes(f, 0, f->dense);
}

/* A rollout by hand and a trainer with a thread: update and snapshot in place. */
static const fleet_kind manual_rollout_fleet = {FLEET_TILES, .starts = true,
                                                .overrides = FLEET_WITH("peers.heartbeat=6s")};

static void manual_rollout(void **state)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_open_rollout(f, 0, "session.progress=manual");
    fleet_bind_rollout(f, 0, FLEET_OTHER, NULL);
    fleet_catch_up(f, 0);
    fleet_publish(f, 1000);
    fleet_sleep_ms(7000); /* longer than a heartbeat, which a busy thread does not miss */
    assert_int_equal(weft_staged(f->rollouts[0].session, 0, &staged), WEFT_AGAIN); /* received, and never decoded */
    fleet_catch_up(f, 0);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(updates_allocate_nothing, plain_fleet),
        FLEET_TEST(idle_callers_keep_their_peers, manual_fleet),
        FLEET_TEST(calls_make_the_progress, manual_fleet),
        FLEET_TEST(manual_rollout, manual_rollout_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
