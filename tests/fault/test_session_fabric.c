/* A fabric that corrupts, drops, doubles, reorders, fails, refuses and stalls: never a wrong bit, never a hang, and
 * when the fault ends all are identical. */
#include "tests/support/fleet.h"

static const char *const overrides[] = {"session.io_deadline=300ms", "peers.heartbeat=3s", "commit.deadline=400ms",
                                        "provider.loop.chunk=64KiB", NULL};

static int setup(void **state)
{
    *state = fleet_open(FLEET_TILES, overrides);
    return 0;
}

static int teardown(void **state)
{
    fleet_close(*state);
    return 0;
}

static void start(fleet *f)
{
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
}

/* Some versions under the fault, with commits of what comes; fleet_commit checks every byte after each. */
static void suffer(fleet *f, weft_loop_faults faults, uint32_t ms)
{
    uint64_t end = fleet_now_ms() + ms;
    weft_loop_set_faults(&faults);
    for (unsigned i = 0; fleet_now_ms() < end; i++) {
        if (i % 4 == 0)
            fleet_publish(f, i % 8 ? 300 : 10);
        for (unsigned at = 0; at < 2; at++)
            fleet_commit(f, at, 30);
    }
}

static void recover(fleet *f)
{
    weft_loop_set_faults(NULL);
    for (unsigned at = 0; at < 2; at++)
        fleet_catch_up(f, at);
    fleet_publish(f, 50);
    for (unsigned at = 0; at < 2; at++)
        fleet_catch_up(f, at);
    assert_int_equal(weft_wait(f->trainer.session, f->newest, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
}

static void endure(fleet *f, weft_loop_faults faults)
{
    start(f);
    suffer(f, faults, 600);
    recover(f);
}

static void corrupt_often(void **state)
{
    endure(*state, (weft_loop_faults){.seed = 3, .corrupt_every = 7});
    assert_true(fleet_stats(((fleet *)*state)->rollouts[0].session).check_failures > 0);
}

static void corrupt_all(void **state)
{
    endure(*state, (weft_loop_faults){.seed = 4, .corrupt_every = 1});
}

/* Each write of an update in turn, once: a header, a first, a last chunk. */
static void corrupt_each_once(void **state)
{
    fleet *f = *state;
    start(f);
    for (uint64_t n = 1; n <= 8; n++) {
        weft_loop_set_faults(&(weft_loop_faults){.seed = n, .corrupt_at = n});
        fleet_publish(f, 100);
        fleet_catch_up(f, 0);
        fleet_catch_up(f, 1);
    }
    recover(f);
}

static void drop_often(void **state)
{
    endure(*state, (weft_loop_faults){.drop_every = 5});
}

/* Whole buckets vanish, and the sender is told that they landed. */
static void drop_all(void **state)
{
    endure(*state, (weft_loop_faults){.drop_every = 1});
}

/* Nobody else says anything more: only a deadline at the receiver can find it out. */
static void drop_each_once(void **state)
{
    fleet *f = *state;
    start(f);
    for (uint64_t n = 1; n <= 4; n++) {
        weft_loop_set_faults(&(weft_loop_faults){.drop_at = n});
        fleet_publish(f, 100);
        fleet_catch_up(f, 0);
        fleet_catch_up(f, 1);
    }
    recover(f);
}

static void duplicate(void **state)
{
    endure(*state, (weft_loop_faults){.duplicate_every = 6});
}

/* Order is nothing that the fabric promised: no version may be lost for it. */
static void reorder(void **state)
{
    fleet *f = *state;
    start(f);
    weft_loop_set_faults(&(weft_loop_faults){.seed = 9, .reorder_window = 8});
    for (int i = 0; i < 5; i++) {
        fleet_publish(f, 200);
        fleet_catch_up(f, 0);
        fleet_catch_up(f, 1);
    }
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    recover(f);
}

static void fail_often(void **state)
{
    endure(*state, (weft_loop_faults){.fail_every = 9});
}

static void fail_all(void **state)
{
    endure(*state, (weft_loop_faults){.fail_every = 1});
}

static void break_port(void **state)
{
    endure(*state, (weft_loop_faults){.break_at = 3});
}

/* Refused posts are no fault as long as they end before the deadline. */
static void again(void **state)
{
    fleet *f = *state;
    start(f);
    weft_loop_set_faults(&(weft_loop_faults){.again_every = 2});
    for (int i = 0; i < 5; i++) {
        fleet_publish(f, 200);
        fleet_catch_up(f, 0);
        fleet_catch_up(f, 1);
    }
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    recover(f);
}

static void again_for_long(void **state)
{
    endure(*state, (weft_loop_faults){.again_every = 1});
    assert_true(fleet_event(((fleet *)*state)->trainer.session, WEFT_EVENT_LOST, NULL, 0, NULL));
}

static void stall(void **state)
{
    endure(*state, (weft_loop_faults){.stall_after = 4});
    assert_true(fleet_event(((fleet *)*state)->trainer.session, WEFT_EVENT_LOST, NULL, 0, NULL));
}

/* Snapshots break off the same way, in place and staged; in place the rollout says that it holds nothing. */
static void snapshot_faults(fleet *f, const char *mode)
{
    static const weft_loop_faults faults[] = {{.seed = 5, .corrupt_at = 4}, {.drop_at = 5},
                                              {.duplicate_at = 3},          {.fail_at = 6},
                                              {.stall_after = 3},           {.reorder_window = 6}};
    fleet_start_trainer(f, NULL);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        weft_loop_set_faults(&faults[i]);
        fleet_open_rollout(f, 0, mode);
        fleet_bind_rollout(f, 0, FLEET_OTHER, NULL);
        if (faults[i].stall_after) {
            weft_status status = WEFT_AGAIN;
            for (uint64_t end = fleet_now_ms() + 800; status == WEFT_AGAIN && fleet_now_ms() < end;)
                status = fleet_commit(f, 0, 100);
            assert_int_not_equal(status, WEFT_OK);
            weft_loop_set_faults(NULL);
        }
        fleet_catch_up(f, 0);
        fleet_leave(f, 0);
    }
}

static void snapshot_in_place(void **state)
{
    snapshot_faults(*state, "commit.snapshot=in_place");
}

static void snapshot_staged(void **state)
{
    snapshot_faults(*state, "commit.snapshot=staged");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(corrupt_often),  TEST(corrupt_all),    TEST(corrupt_each_once), TEST(drop_often),
        TEST(drop_all),       TEST(drop_each_once), TEST(duplicate),         TEST(reorder),
        TEST(fail_often),     TEST(fail_all),       TEST(break_port),        TEST(again),
        TEST(again_for_long), TEST(stall),          TEST(snapshot_in_place), TEST(snapshot_staged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
