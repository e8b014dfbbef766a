/* Several rails, and several connections of provider stream, under [security] mode = tls: names are proved once, data
 * go by all of them, and what failed is opened again by the sealed connection. */
#include "tests/support/fleet.h"

#include <string.h>

#include "tests/support/fleet_keys.h"

#define ROLLOUT "session.io_deadline=30s"

static fleet_keys keys;

static int open_with(void **state, const char *const *overrides)
{
    fleet *f = *state = fleet_keys_open(&keys, FLEET_TILES, overrides);
    if (f)
        fleet_start_trainer(f, NULL);
    return 0;
}

/* The trainer gives a rail that stands still a quarter of its io_deadline. */
static int setup_loop(void **state)
{
    static const char *const overrides[] = {"trainer.address=r0, r1",    "peers.address=r0, r1",
                                            "provider.loop.chunk=32KiB", "session.io_deadline=1600ms",
                                            "peers.heartbeat=30s",       NULL};
    return open_with(state, overrides);
}

static int setup_stream(void **state)
{
    static const char *const overrides[] = {"peers.provider=stream", "peers.streams=3", "provider.stream.chunk=32KiB",
                                            NULL};
    return open_with(state, overrides);
}

static int teardown(void **state)
{
    weft_loop_set_rail("r0", NULL);
    weft_loop_set_rail("r1", NULL);
    fleet_keys_close(&keys, *state);
    return 0;
}

static void join(fleet *f, unsigned at, fleet_start start)
{
    fleet_open_rollout(f, at, ROLLOUT);
    fleet_bind_rollout(f, at, start, NULL);
    fleet_catch_up(f, at);
}

static weft_rail_info rail_of(fleet *f, unsigned rail)
{
    weft_peer_info info = fleet_line(f, "a");
    assert_int_equal(info.rail_count, 2);
    return info.rails[rail];
}

/* A rail comes back in its time, and a fleet remembers so many versions. */
static void publish_slowly(fleet *f)
{
    fleet_publish_all(f, 1, 300);
    fleet_sleep_ms(5);
}

/* Publishes until `rail` carried more than `bytes`. */
static void publish_until_used(fleet *f, unsigned rail, uint64_t bytes)
{
    const uint64_t until_ms = fleet_now_ms() + FLEET_WAIT_MS;
    while (rail_of(f, rail).bytes <= bytes) {
        assert_true(fleet_now_ms() < until_ms);
        publish_slowly(f);
    }
}

static void both_rails_carry(void **state)
{
    fleet *f = fleet_keys_need(state);
    join(f, 0, FLEET_SAME);
    join(f, 1, FLEET_EMPTY);
    publish_until_used(f, 0, 0);
    publish_until_used(f, 1, 0);
    fleet_publish_all(f, 2, 300);
    assert_int_equal(rail_of(f, 0).failures + rail_of(f, 1).failures, 0);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

static void a_rail_that_failed_carries_again(void **state)
{
    static const weft_loop_faults swallows = {.drop_every = 1}, breaks = {.break_at = 4};
    static const weft_loop_faults *const faults[] = {&swallows, &breaks};
    fleet *f = fleet_keys_need(state);
    join(f, 0, FLEET_SAME);
    for (unsigned i = 0; i < 2; i++) {
        const uint64_t until_ms = fleet_now_ms() + FLEET_WAIT_MS, failures = rail_of(f, 1).failures;
        publish_until_used(f, 1, rail_of(f, 1).bytes);
        weft_loop_set_rail("r1", faults[i]);
        while (rail_of(f, 1).failures == failures) {
            assert_true(fleet_now_ms() < until_ms);
            publish_slowly(f);
        }
        weft_loop_set_rail("r1", NULL);
        publish_until_used(f, 1, rail_of(f, 1).bytes);
    }
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

static void rails_of_tcp(void **state)
{
    static const char *const overrides[] = {"trainer.address=127.0.0.1, 127.0.0.2",
                                            "peers.address=127.0.0.1, 127.0.0.2", "peers.provider=tcp",
                                            "provider.tcp.chunk=32KiB", NULL};
#ifdef WEFT_NO_FABRIC
    skip();
#endif
    open_with(state, overrides);
    fleet *f = fleet_keys_need(state);
    join(f, 0, FLEET_SAME);
    publish_until_used(f, 0, 0);
    publish_until_used(f, 1, 0);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    teardown(state);
}

static void connections_of_stream(void **state)
{
    fleet *f = fleet_keys_need(state);
    join(f, 0, FLEET_SAME);
    join(f, 1, FLEET_EMPTY);
    for (int version = 0; version < 3; version++)
        fleet_publish_all(f, 2, 300);
    assert_int_equal(fleet_line(f, "a").streams, 3);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_rails_carry, setup_loop, teardown),
        cmocka_unit_test_setup_teardown(a_rail_that_failed_carries_again, setup_loop, teardown),
        cmocka_unit_test(rails_of_tcp),
        cmocka_unit_test_setup_teardown(connections_of_stream, setup_stream, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
