/* Several ports for each peer: the bits are the trainer's by whatever port and in whatever order a chunk comes. The
 * smaller number of both ends counts, and one port's failure is the peer's. */
#include "tests/support/fleet.h"

#include <string.h>

static const fleet_kind plain_fleet = {FLEET_LARGE, .starts = true,
                                       .overrides = FLEET_WITH("peers.streams=4", "provider.loop.chunk=32KiB",
                                                               "provider.loop.depth=3", "peer.b.level=tight")};

static const fleet_kind one_fleet = {FLEET_LARGE, .starts = true, .overrides = FLEET_WITH("provider.loop.chunk=32KiB")};

static uint32_t streams_of(fleet *f, const char *name)
{
    weft_peer_info info = {0};
    fleet_wait_state(f, name, WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_true(fleet_peer(f, name, &info));
    return info.streams;
}

static void updates_and_a_snapshot(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_EMPTY);
    fleet_catch_up(f, 1);
    fleet_check_bytes(f, 1, f->dense);
    assert_int_equal(streams_of(f, "a"), 4);
    assert_int_equal(streams_of(f, "b"), 4);
    weft_peer_info own = {.size = sizeof own};
    size_t count = 0;
    assert_int_equal(weft_peers(f->rollouts[1].session, &own, 1, &count), WEFT_OK);
    assert_int_equal(own.streams, 4); /* as its own end counts them */
    fleet_publish_all(f, 2, 3);
    fleet_publish_all(f, 2, 300);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* Each port lands its writes in an order of its own. */
static void in_disorder(void **state)
{
    fleet *f = *state;
    const weft_loop_faults faults = {.seed = 5, .reorder_window = 3, .again_every = 7};
    fleet_join(f, 0, FLEET_SAME);
    weft_loop_set_faults(&faults);
    for (uint32_t i = 0; i < 5; i++)
        fleet_publish_all(f, 1, 20 + 100 * i);
    weft_loop_set_faults(NULL);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

static void the_fewer_count(void **state)
{
    fleet *f = *state; /* the trainer's site says 4 */
    fleet_open_rollout(f, 0, "peers.streams=2");
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    fleet_open_rollout(f, 1, "peers.streams=8");
    fleet_bind_rollout(f, 1, FLEET_SAME, NULL);
    fleet_open_rollout(f, 2, "peers.streams=1");
    fleet_bind_rollout(f, 2, FLEET_SAME, NULL);
    assert_int_equal(streams_of(f, "a"), 2);
    assert_int_equal(streams_of(f, "b"), 4);
    assert_int_equal(streams_of(f, "c"), 1);
    fleet_publish_all(f, 3, 50);
}

static void a_trainer_with_one(void **state)
{
    fleet *f = *state;
    fleet_open_rollout(f, 0, "peers.streams=8");
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    assert_int_equal(streams_of(f, "a"), 1);
    fleet_publish_all(f, 1, 50);
}

/* One port breaks, a write of one fails, a bit flips, an arrival comes twice: the peer is lost or asks again, and joins
 * anew with all its ports. */
static void one_port_fails(void **state)
{
    fleet *f = *state;
    const weft_loop_faults faults[] = {{.break_at = 6}, {.fail_at = 5}, {.corrupt_at = 7}, {.duplicate_at = 4}};
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_SAME);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        streams_of(f, "a");
        streams_of(f, "b");
        weft_loop_set_faults(&faults[i]);
        fleet_publish(f, 100);
        for (unsigned at = 0; at < 4; at++)
            fleet_commit(f, at % 2, 100);
        fleet_recover(f, 2);
        fleet_check_bytes(f, 0, f->dense);
        fleet_check_bytes(f, 1, f->dense);
    }
    assert_true(fleet_stats(f->trainer.session).peers_lost > 0);
    assert_int_equal(streams_of(f, "a"), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(updates_and_a_snapshot, plain_fleet), FLEET_TEST(in_disorder, plain_fleet),
        FLEET_TEST(the_fewer_count, plain_fleet),        FLEET_TEST(a_trainer_with_one, one_fleet),
        FLEET_TEST(one_port_fails, plain_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
