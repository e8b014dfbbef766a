/* Joins at any time, with any bits: by digest, from an older version, by snapshot, while the trainer goes on. */
#include "tests/support/fleet_after.h"

#include <string.h>

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true};

static uint64_t snapshot_bytes(fleet *f, const char *name)
{
    weft_peer_info info = {0};
    assert_true(fleet_peer(f, name, &info));
    return info.snapshot_bytes;
}

static void by_equal_digest(void **state)
{
    fleet *f = *state;
    weft_version held;
    fleet_publish(f, 100);
    fleet_join(f, 0, FLEET_SAME);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fleet_catch_up_within(f, 0, FLEET_WAIT_MS);
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_OK);
    assert_int_equal(held.number, 1);
    assert_int_equal(snapshot_bytes(f, "a"), 0);
    assert_int_equal(fleet_stats(f->trainer.session).bytes_sent, 0);
    assert_int_equal(weft_wait(f->trainer.session, 1, NULL, 0, 0), WEFT_OK);
}

/* A rollout that was away takes the updates it missed from the journal, as one. */
static void from_an_older_version(void **state)
{
    fleet *f = *state;
    fleet_open_rollout(f, 0, NULL);
    fleet_publish(f, 20);
    memcpy(f->scratch_dense, f->dense, f->bytes);
    uint8_t *older = test_malloc(f->bytes);
    memcpy(older, f->dense, f->bytes);
    fleet_publish(f, 20);
    fleet_publish(f, 20);
    uint8_t *newest = test_malloc(f->bytes);
    memcpy(newest, f->dense, f->bytes);
    memcpy(f->dense, older, f->bytes);
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    memcpy(f->dense, newest, f->bytes);
    test_free(older);
    test_free(newest);
    fleet_catch_up(f, 0);
    assert_int_equal(snapshot_bytes(f, "a"), 0);
    assert_int_equal(fleet_stats(f->rollouts[0].session).versions, 1);
}

static void unknown_bits(fleet *f, const char *mode, bool in_place)
{
    weft_staged_info staged = {.size = sizeof staged};
    weft_version held;
    fleet_open_rollout(f, 0, mode);
    fleet_bind_rollout(f, 0, FLEET_OTHER, NULL);
    uint64_t seed = 77;
    uint8_t *mine = test_malloc(f->bytes);
    fleet_fill(f->layout, mine, &seed);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    assert_int_equal(staged.kind, WEFT_STAGED_SNAPSHOT);
    assert_int_equal(staged.target.number, 0);
    fleet_check_bytes(f, 0, mine); /* nothing is written before the commit */
    test_free(mine);
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_OK);
    assert_int_equal(held.run, 0);
    assert_int_equal(weft_commit(f->rollouts[0].session, 0, NULL, 0, &held), WEFT_OK);
    assert_true(held.root == f->history[0].root);
    fleet_check_bytes(f, 0, f->dense);
    assert_int_equal(fleet_event(f->rollouts[0].session, WEFT_EVENT_NOTHING, NULL, 0, NULL), in_place);
    assert_true(weft_wait(f->trainer.session, 0, NULL, 0, FLEET_WAIT_MS) == WEFT_OK);
    assert_true(snapshot_bytes(f, "a") >= f->bytes);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
}

static void unknown_bits_in_place(void **state)
{
    unknown_bits(*state, "commit.snapshot=in_place", true);
}

static void unknown_bits_staged(void **state)
{
    unknown_bits(*state, "commit.snapshot=staged", false);
}

/* A rollout that starts with nothing takes even the layout from the trainer. */
static void empty_with_fetched_layout(void **state)
{
    fleet *f = *state;
    weft_layout *fetched = NULL, *own = f->layout;
    weft_version held;
    weft_site *site = fleet_site(f, NULL);
    assert_int_equal(weft_layout_fetch(site, "a", FLEET_WAIT_MS, &fetched), WEFT_OK);
    weft_site_free(site);
    uint64_t hashes[2][2];
    weft_layout_hash(fetched, hashes[0]);
    weft_layout_hash(own, hashes[1]);
    assert_memory_equal(hashes[0], hashes[1], sizeof hashes[0]);
    f->layout = fetched;
    fleet_open_rollout(f, 0, NULL);
    fleet_bind_rollout(f, 0, FLEET_EMPTY, NULL);
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_E_STATE);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_E_STATE);
    fleet_catch_up(f, 0);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    fleet_leave(f, 0);
    f->layout = own;
    weft_layout_free(fetched);
}

/* Either side may start first. */
static void rollout_first(void **state)
{
    fleet *f = *state;
    char listen[sizeof f->listen];
    memcpy(listen, f->listen, sizeof listen);
    fleet_stop_trainer(f);
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_OTHER);
    assert_int_equal(fleet_commit(f, 0, 150), WEFT_AGAIN);
    memcpy(f->listen, listen, sizeof listen);
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
}

/* A model of megabytes over a slow link: versions are published while the snapshot's cursor moves. */
static const fleet_kind slow_fleet = {FLEET_LARGE, .starts = true,
                                      .overrides = FLEET_WITH("peers.bucket_min=64KiB", "peers.bucket=128KiB",
                                                              "peers.rate_limit=64Mbit/s", "provider.loop.chunk=64KiB",
                                                              "peers.snapshot_coding=verbatim")};

/* Deltas follow up to the cursor, so that the snapshot ends at a later version than the offered one. */
static void publishes_after_the_cursor(fleet *f, const char *mode)
{
    fleet_publish_after(f, mode, 40, 15);
}

static void publishes_during_a_snapshot_staged(void **state)
{
    publishes_after_the_cursor(*state, "commit.snapshot=staged");
}

static void publishes_during_a_snapshot_in_place(void **state)
{
    publishes_after_the_cursor(*state, "commit.snapshot=in_place");
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(by_equal_digest),
        TEST(from_an_older_version),
        TEST(unknown_bits_in_place),
        TEST(unknown_bits_staged),
        TEST(empty_with_fetched_layout),
        TEST(rollout_first),
        FLEET_TEST(publishes_during_a_snapshot_staged, slow_fleet),
        FLEET_TEST(publishes_during_a_snapshot_in_place, slow_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
