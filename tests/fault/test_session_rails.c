/* Several rails for each peer. If a rail fails, stands still or swallows all writes, its chunks go by the others. The
 * bits are the trainer's, no peer is lost, and the rail is used again when it works again. */
#include "tests/support/fleet.h"

#include <string.h>

/* The trainer closes a rail that stands still for a quarter of its io_deadline, and loses a peer that does for the
 * whole. A thread of a busy machine may stand still for a while too: neither is short, and a rollout has its own. */
#define PATIENCE_MS 400u
#define PAUSE_MS    50u
static const char *const overrides[] = {"trainer.address=r0, r1",    "peers.address=r0, r1",
                                        "provider.loop.chunk=32KiB", "session.io_deadline=1600ms",
                                        "peers.heartbeat=30s",       NULL};
#define ROLLOUT "session.io_deadline=30s"

static void set_rails(const weft_loop_faults *first, const weft_loop_faults *second)
{
    weft_loop_set_rail("r0", first);
    weft_loop_set_rail("r1", second);
}

static void ended(fleet *f)
{
    (void)f;
    set_rails(NULL, NULL);
}

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .overrides = overrides, .close = ended};

static weft_rail_info rail_of(fleet *f, const char *name, unsigned rail)
{
    weft_peer_info info = fleet_line(f, name);
    assert_int_equal(info.rail_count, 2);
    return info.rails[rail];
}

static void wait_up(fleet *f, const char *name, unsigned rail, uint32_t up)
{
    fleet_wait_state(f, name, WEFT_PEER_LIVE, FLEET_WAIT_MS);
    for (uint64_t until_ms = fleet_now_ms() + FLEET_WAIT_MS; rail_of(f, name, rail).up != up;) {
        assert_true(fleet_now_ms() < until_ms);
        fleet_sleep_ms(2);
    }
}

static void join(fleet *f, unsigned at, fleet_start start)
{
    fleet_open_rollout(f, at, ROLLOUT);
    fleet_bind_rollout(f, at, start, NULL);
}

/* Publishes until the rail was used again. */
static void publish_until_used(fleet *f, unsigned rail)
{
    wait_up(f, "a", rail, 1);
    for (uint64_t before = rail_of(f, "a", rail).bytes, left = 50; rail_of(f, "a", rail).bytes == before; left--) {
        assert_true(left > 0);
        wait_up(f, "a", rail, 1);
        fleet_publish_all(f, 1, 300);
    }
}

static void both_carry(void **state)
{
    fleet *f = *state;
    join(f, 0, FLEET_SAME);
    join(f, 1, FLEET_EMPTY);
    fleet_catch_up(f, 1);
    fleet_check_bytes(f, 1, f->dense);
    wait_up(f, "a", 0, 1);
    wait_up(f, "a", 1, 1);
    fleet_publish_all(f, 2, 300);
    fleet_publish_all(f, 2, 3);
    for (unsigned rail = 0; rail < 2; rail++) {
        const weft_rail_info info = rail_of(f, "a", rail), own = fleet_stats(f->rollouts[0].session).rails[rail];
        assert_string_equal(info.address, rail ? "r1" : "r0");
        assert_true(info.bytes > 0 && info.connections == 1 && info.failures == 0 && info.resent_bytes == 0);
        assert_int_equal(own.writes, info.writes + 1); /* the one that showed that it carries */
        assert_true(fleet_stats(f->trainer.session).rails[rail].bytes >= info.bytes);
    }
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* Buckets of one chunk, each of which lands before the next one goes. */
static void small_ones_take_turns(void **state)
{
    fleet *f = *state;
    join(f, 0, FLEET_SAME);
    wait_up(f, "a", 0, 1);
    wait_up(f, "a", 1, 1);
    for (int i = 0; i < 24; i++) {
        fleet_publish_all(f, 1, 3);
        fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
        fleet_sleep_ms(30); /* so that the fabric reports that they landed */
    }
    const uint64_t first = rail_of(f, "a", 0).bytes, second = rail_of(f, "a", 1).bytes;
    if (first < (first + second) / 4 || second < (first + second) / 4)
        fail_msg("one rail had %llu bytes and the other %llu", (unsigned long long)first, (unsigned long long)second);
}

/* Publishes with these faults until the rail, which was used before, is one that failed. One that happened to fail just
 * before they came fails no second time by them: then they come again when it carries. */
static void fail_one(fleet *f, unsigned rail, const weft_loop_faults *first, const weft_loop_faults *second)
{
    bool failed = false;
    for (unsigned tries = 5; !failed; tries--) {
        assert_true(tries > 0);
        set_rails(NULL, NULL);
        publish_until_used(f, 0);
        publish_until_used(f, 1);
        const uint64_t before = rail_of(f, "a", rail).failures;
        set_rails(first, second);
        for (unsigned left = 8 * PATIENCE_MS / PAUSE_MS; !failed && left > 0; left--) {
            fleet_publish_all(f, 1, 300);
            fleet_sleep_ms(PAUSE_MS);
            failed = rail_of(f, "a", rail).failures > before;
        }
    }
}

/* The faults of a rail in the middle of buckets. Each strikes after a few writes. */
static const struct {
    const char *name;
    weft_loop_faults faults;
} ends[] = {{"a write fails", {.fail_at = 4}},
            {"the port fails", {.break_at = 4}},
            {"writes are never completed", {.stall_after = 3}},
            {"writes are completed and lost", {.drop_every = 1}},
            {"writes are refused", {.again_every = 1}}};

/* The rail that fails first is the one that the peer's first port is on, then the other. */
static void one_fails(fleet *f, unsigned rail, size_t how)
{
    const weft_loop_faults *faults = &ends[how].faults;
    print_message("rail %u: %s\n", rail, ends[how].name);
    fail_one(f, rail, rail == 0 ? faults : NULL, rail == 1 ? faults : NULL);
    fleet_publish_all(f, 1, 300);
    set_rails(NULL, NULL);
    publish_until_used(f, rail);
}

static void each_end_of_a_rail(void **state)
{
    fleet *f = *state;
    join(f, 0, FLEET_SAME);
    for (size_t how = 0; how < sizeof ends / sizeof *ends; how++)
        for (unsigned rail = 0; rail < 2; rail++)
            one_fails(f, rail, how);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_RAIL, "a", FLEET_WAIT_MS, &(weft_event){0}));
}

static void in_a_snapshot(void **state)
{
    fleet *f = *state;
    const weft_loop_faults lost = {.drop_every = 1}, still = {.stall_after = 2};
    join(f, 0, FLEET_SAME);
    wait_up(f, "a", 0, 1);
    wait_up(f, "a", 1, 1);
    set_rails(NULL, &still);
    join(f, 1, FLEET_EMPTY);
    fleet_catch_up(f, 1);
    fleet_check_bytes(f, 1, f->dense);
    set_rails(&lost, NULL); /* what the other one took along is gone too */
    fleet_publish_all(f, 2, 300);
    set_rails(NULL, NULL);
    fleet_publish_all(f, 2, 300);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* Dead from the beginning: no bucket waits for it. */
static void dead_when_joined(void **state)
{
    fleet *f = *state;
    const weft_loop_faults lost = {.drop_every = 1};
    set_rails(&lost, NULL);
    join(f, 0, FLEET_SAME);
    fleet_publish_all(f, 1, 300);
    assert_int_equal(rail_of(f, "a", 0).bytes, 0);
    set_rails(NULL, NULL);
    publish_until_used(f, 0);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* The last one's failure is the peer's. */
static void all_fail(void **state)
{
    fleet *f = *state;
    const weft_loop_faults broken = {.break_at = 3};
    join(f, 0, FLEET_SAME);
    wait_up(f, "a", 0, 1);
    wait_up(f, "a", 1, 1);
    set_rails(&broken, &broken);
    fleet_publish(f, 300);
    for (uint64_t until_ms = fleet_now_ms() + FLEET_WAIT_MS; fleet_stats(f->trainer.session).peers_lost == 0;) {
        assert_true(fleet_now_ms() < until_ms);
        fleet_sleep_ms(2);
    }
    set_rails(NULL, NULL);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
}

/* A peer with one address beside one with two, and one with more connections on each. */
static void unequal_peers(void **state)
{
    fleet *f = *state;
    fleet_open_rollout(f, 0, "peers.address=r0");
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    join(f, 1, FLEET_SAME);
    fleet_publish_all(f, 2, 300);
    assert_int_equal(fleet_line(f, "a").rail_count, 1);
    assert_int_equal(fleet_line(f, "a").streams, 1);
    assert_int_equal(fleet_line(f, "b").streams, 2);
}

/* A rail that refused a write and was not asked since, as after the last chunk of an update, is none that fails. */
static void refuses_and_idles(void **state)
{
    fleet *f = *state;
    const weft_loop_faults shy = {.again_every = 2};
    join(f, 0, FLEET_SAME);
    wait_up(f, "a", 0, 1);
    wait_up(f, "a", 1, 1);
    set_rails(NULL, &shy);
    for (unsigned left = 5; left > 0; left--) {
        fleet_publish_all(f, 1, 300);
        fleet_sleep_ms(2 * PATIENCE_MS + PAUSE_MS); /* twice the time after which one that takes no write is closed */
        assert_int_equal(rail_of(f, "a", 0).failures + rail_of(f, "a", 1).failures, 0);
    }
}

/* Nor is it one that the peer cannot go on with when the other dies. */
static void one_refuses_while_one_dies(void **state)
{
    static const weft_loop_faults dead[] = {{.drop_every = 1}, {.stall_after = 1}};
    fleet *f = *state;
    join(f, 0, FLEET_SAME);
    for (unsigned at = 0; at < 6; at++) {
        const weft_loop_faults shy = {.again_every = 2 + at % 3}, *one = &dead[at / 2 % 2];
        const unsigned rail = at % 2;
        fail_one(f, rail, rail == 0 ? one : &shy, rail == 0 ? &shy : one);
        assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
        set_rails(NULL, NULL);
    }
}

/* In the trainer's own site no peer has several rails. */
static const fleet_kind single_fleet = {
    FLEET_TILES, .starts = true,
    .overrides = FLEET_WITH("trainer.address=r0, r1", "peers.address=r0", "provider.loop.chunk=32KiB"), .close = ended};

/* In the trainer's own site one peer has several rails, and it is another peer. */
static const fleet_kind other_fleet = {FLEET_TILES, .starts = true,
                                       .overrides = FLEET_WITH("trainer.address=r0, r1", "peers.address=r0",
                                                               "peer.b.address=r0, r1", "provider.loop.chunk=32KiB"),
                                       .close = ended};

/* A peer whose own site names more than the trainer's gets what the trainer's names. */
static void more_than_its_row(void **state)
{
    static const char *const more[] = {"peers.address=r0, r1", "peers.streams=3"};
    fleet *f = *state;
    for (unsigned at = 0; at < 2; at++) {
        fleet_open_rollout(f, 0, more[at]);
        fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
        fleet_publish_all(f, 1, 300);
        assert_int_equal(fleet_line(f, "a").rail_count, 1);
        assert_int_equal(fleet_line(f, "a").streams, 1);
        fleet_leave(f, 0);
        fleet_wait_state(f, "a", WEFT_PEER_LOST, FLEET_WAIT_MS);
    }
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* Only those that a pattern admits have several, and there is one of that pattern that has not. */
static const fleet_kind pattern_fleet = {
    FLEET_TILES, .starts = true,
    .overrides = FLEET_WITH("peer.x*.streams=2", "peer.x0.streams=1", "provider.loop.chunk=32KiB"), .close = ended};

/* One that has them for itself alone: no pattern does. */
static const fleet_kind override_fleet = {FLEET_TILES, .starts = true,
                                          .overrides = FLEET_WITH("peer.x1.streams=2", "provider.loop.chunk=32KiB"),
                                          .close = ended};

static void several_by_a_pattern(void **state)
{
    fleet *f = *state;
    fleet_join(f, 3, FLEET_SAME); /* x1 */
    fleet_publish(f, 300);
    fleet_catch_up(f, 3);
    fleet_check_bytes(f, 3, f->dense);
    assert_int_equal(fleet_line(f, "x1").streams, 2);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    assert_string_equal(fleet_line(f, "x1").rails[0].address, "127.0.0.1"); /* the ones chosen: none is named */
    assert_string_equal(fleet_stats(f->rollouts[3].session).rails[0].address, "127.0.0.1");
}

static const fleet_kind unreached_fleet = {FLEET_TILES, .starts = true,
                                           .overrides =
                                               FLEET_WITH("trainer.address=127.0.0.1, 203.0.113.9",
                                                          "peer.x*.address=127.0.0.1, 127.0.0.2", "peers.provider=tcp"),
                                           .close = ended};

/* This host does not have one of the trainer's addresses. No address is opened before a peer of the pattern joins. */
static void goes_without_a_rail(void **state)
{
#ifdef WEFT_NO_FABRIC
    skip();
#endif
    *state = (void *)&unreached_fleet;
    fleet_setup(state);
    fleet *f = *state;
    fleet_join(f, 3, FLEET_SAME); /* x1 */
    for (unsigned left = 2; left > 0; left--) {
        fleet_publish(f, 300);
        fleet_catch_up(f, 3);
        fleet_check_bytes(f, 3, f->dense);
    }
    assert_int_equal(fleet_line(f, "x1").streams, 1);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    fleet_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(both_carry, plain_fleet),
        FLEET_TEST(small_ones_take_turns, plain_fleet),
        FLEET_TEST(each_end_of_a_rail, plain_fleet),
        FLEET_TEST(in_a_snapshot, plain_fleet),
        FLEET_TEST(dead_when_joined, plain_fleet),
        FLEET_TEST(all_fail, plain_fleet),
        FLEET_TEST(unequal_peers, plain_fleet),
        FLEET_TEST(refuses_and_idles, plain_fleet),
        FLEET_TEST(one_refuses_while_one_dies, plain_fleet),
        FLEET_TEST(more_than_its_row, single_fleet),
        FLEET_TEST(more_than_its_row, other_fleet),
        FLEET_TEST(several_by_a_pattern, pattern_fleet),
        FLEET_TEST(several_by_a_pattern, override_fleet),
        cmocka_unit_test(goes_without_a_rail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
