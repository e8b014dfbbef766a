/* Peers at every level beside each other, on tensors of several tiles, where few changes make runs of units: the bits
 * are the trainer's at all of them, through faults too; so are those of snapshots that runs of deltas follow. */
#include "tests/support/fleet_after.h"

#include <string.h>

#define PEERS 4u

static const fleet_kind plain_fleet = {FLEET_LARGE, .starts = true,
                                       .overrides =
                                           FLEET_WITH("peer.a.level=tight", "peer.b.level=pairs", "peer.c.level=fast",
                                                      "peer.x*.level=full", "trainer.journal=64MiB")};

static void all_hold(fleet *f)
{
    for (unsigned at = 0; at < PEERS; at++) {
        fleet_catch_up(f, at);
        fleet_check_bytes(f, at, f->dense);
    }
    assert_int_equal(weft_wait(f->trainer.session, f->newest, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
}

static void all_join(fleet *f)
{
    static const char *const names[PEERS] = {"a", "b", "c", "x1"};
    static const char *const levels[PEERS] = {"tight", "pairs", "fast", "full"};
    for (unsigned at = 0; at < PEERS; at++)
        fleet_join(f, at, FLEET_SAME);
    for (unsigned at = 0; at < PEERS; at++) /* levels are encoded for peers that are there */
        fleet_wait_state(f, names[at], WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fleet_publish(f, 3);
    all_hold(f);
    for (unsigned at = 0; at < PEERS; at++) {
        weft_peer_info info = {0};
        assert_true(fleet_peer(f, names[at], &info));
        assert_string_equal(info.level, levels[at]);
        weft_peer_info self = {.size = sizeof self};
        size_t count = 0;
        assert_int_equal(weft_peers(f->rollouts[at].session, &self, 1, &count), WEFT_OK);
        assert_string_equal(self.level, levels[at]);
    }
}

/* From runs of 64 units to units that are sent as they are, and nothing. */
static void every_density_at_every_level(void **state)
{
    static const uint32_t densities[] = {1, 0, 150};
    fleet *f = *state;
    all_join(f);
    for (size_t i = 0; i < sizeof densities / sizeof *densities; i++) {
        fleet_publish(f, densities[i]);
        all_hold(f);
    }
    for (unsigned at = 0; at < PEERS; at++)
        assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

static void faults_at_every_level(void **state)
{
    fleet *f = *state;
    all_join(f);
    const weft_loop_faults faults = {.seed = 11, .corrupt_every = 7, .duplicate_every = 5, .reorder_window = 4};
    weft_loop_set_faults(&faults);
    for (unsigned i = 0; i < 4 * PEERS; i++) {
        if (i % PEERS == 0)
            fleet_publish(f, i ? 10 : 100);
        fleet_commit(f, i % PEERS, 100);
    }
    fleet_recover(f, PEERS);
    for (unsigned at = 0; at < PEERS; at++)
        fleet_check_bytes(f, at, f->dense);
}

#define BIG UINT64_C(1500000) /* elements of big.0 */

/* In big.0 every second weight is small. */
static int setup_small(void **state)
{
    static const char *const overrides[] = {"peer.a.level=tight", NULL};
    fleet *f = fleet_open(FLEET_LARGE, overrides);
    uint8_t *big = f->dense + fleet_tensor_at(f->layout, "big.0");
    for (uint64_t i = 0; i < BIG; i++) {
        big[2 * i] = (uint8_t)(i * 37);
        big[2 * i + 1] = i % 2 ? 0x3f : 0x33;
    }
    fleet_start_trainer(f, NULL);
    *state = f;
    return 0;
}

/* Weights that are not the base of a frame of a run: called so, mended, and followed on. */
static void a_wrong_base_heals(void **state)
{
    fleet *f = *state;
    weft_event event = {0};
    const uint64_t big = fleet_tensor_at(f->layout, "big.0");
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    for (uint64_t i = 0; i < BIG; i += 2) /* the small ones are large now: nothing that is listed is there */
        *fleet_model_at(&f->rollouts[0].model, big + 2 * i + 1) ^= 0x0c;
    for (uint64_t i = 0; i < BIG; i += 1000)
        f->dense[big + 2 * i] ^= 1;
    fleet_publish_dense(f, NULL);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_BASE);
    assert_non_null(strstr(event.text, "big.0"));
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
    fleet_publish(f, 2);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
}

/* ---- deltas after a snapshot's cursor */

/* Over a slow link, so that versions are published between a tensor's first tile and its last. */
static const fleet_kind slow_fleet = {FLEET_LARGE, .starts = true,
                                      .overrides = FLEET_WITH("peers.bucket_min=64KiB", "peers.bucket=128KiB",
                                                              "peers.rate_limit=64Mbit/s", "provider.loop.chunk=64KiB",
                                                              "peers.snapshot_coding=verbatim", "peers.level=tight")};

/* One change in a thousand makes one run of all tiles of a tensor. Of a delta's frame only the tiles before the cursor
 * count, because those after it are read from the newer bits. */
static void runs_reach_beyond_the_cursor(fleet *f, const char *mode)
{
    fleet_publish_after(f, mode, 60, 1);
    fleet_publish(f, 1); /* as before, at its own level */
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
}

static void runs_reach_beyond_the_cursor_staged(void **state)
{
    runs_reach_beyond_the_cursor(*state, "commit.snapshot=staged");
}

static void runs_reach_beyond_the_cursor_in_place(void **state)
{
    runs_reach_beyond_the_cursor(*state, "commit.snapshot=in_place");
}

/* ---- level = auto */

static const fleet_kind auto_fleet = {
    FLEET_LARGE, .starts = true, .overrides = FLEET_WITH("peer.a.rate_limit=1Mbit/s", "provider.loop.chunk=16KiB")};

/* The thread checker may make encoding so slow that the densest level does not pay on any link. */
static bool encoding_is_slow(void)
{
    const char *sanitizer = getenv("WEFT_SANITIZE");
    return sanitizer && strcmp(sanitizer, "thread") == 0;
}

/* A slow link takes the densest level once its speed is known. No one encodes that level after the peer is gone. */
static void a_slow_link_takes_tight(void **state)
{
    fleet *f = *state;
    weft_peer_info info = {0};
    weft_update_info update = {.size = sizeof update};
    fleet_join(f, 0, FLEET_SAME);
    for (int i = 0; i < 8 && !(info.level && strcmp(info.level, "tight") == 0); i++) {
        fleet_publish(f, 20);
        fleet_catch_up(f, 0);
        fleet_check_bytes(f, 0, f->dense);
        assert_int_equal(weft_wait(f->trainer.session, f->newest, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
        assert_true(fleet_peer(f, "a", &info));
    }
    if (!encoding_is_slow())
        assert_string_equal(info.level, "tight");
    assert_true(info.rate_bytes_s > 0.05e6 && info.rate_bytes_s < 0.3e6);
    assert_true(info.apply_bytes_s > 0 && info.bucket_cost_ms > 0);
    assert_string_not_equal(info.bucket_bound, "start");
    fleet_leave(f, 0);
    fleet_wait_state(f, "a", WEFT_PEER_LOST, FLEET_WAIT_MS);
    assert_int_equal(weft_publish(f->trainer.session, f->newest + 1, NULL, NULL, &update), WEFT_OK);
    assert_string_equal(update.level, "fast");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(every_density_at_every_level, plain_fleet),
        FLEET_TEST(faults_at_every_level, plain_fleet),
        cmocka_unit_test_setup_teardown(a_wrong_base_heals, setup_small, fleet_teardown),
        FLEET_TEST(runs_reach_beyond_the_cursor_staged, slow_fleet),
        FLEET_TEST(runs_reach_beyond_the_cursor_in_place, slow_fleet),
        FLEET_TEST(a_slow_link_takes_tight, auto_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
