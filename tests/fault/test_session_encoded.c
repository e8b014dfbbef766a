/* Updates larger than staging: they come encoded and not as snapshots, and their commits are all or nothing. */
#include "tests/support/deferred.h"
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>

#define LITTLE "peers.staging=2200KiB"

static const char *const little[] = {LITTLE, "peers.encoded=16MiB", "trainer.journal=64MiB", NULL};

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .overrides = little, .joins = 1};

static const fleet_kind tight_fleet = {
    FLEET_TILES, .starts = true,
    .overrides = FLEET_WITH(LITTLE, "peers.encoded=16MiB", "trainer.journal=64MiB", "peers.level=tight"), .joins = 1};

static const fleet_kind device_fleet = {FLEET_TILES, .starts = true, .overrides = little, .device = true, .joins = 1};

/* Waits for an update and returns what is staged. */
static weft_staged_info staged(fleet *f)
{
    weft_staged_info info = {.size = sizeof info};
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(info.kind, WEFT_STAGED_UPDATE);
    return info;
}

static uint64_t snapshot_bytes(fleet *f)
{
    weft_peer_info info;
    assert_true(fleet_peer(f, "a", &info));
    return info.snapshot_bytes;
}

static void encoded_or_not(void **state)
{
    fleet *f = *state;
    static const uint32_t densities[] = {5, 1000, 5, 900, 1000, 1};
    for (size_t i = 0; i < sizeof densities / sizeof *densities; i++) {
        fleet_publish(f, densities[i]);
        const weft_staged_info info = staged(f);
        assert_int_equal(info.encoded, densities[i] >= 900);
        assert_int_equal(info.pause_ms > 0, i > 0);
        fleet_catch_up(f, 0);
        fleet_check_bytes(f, 0, f->dense);
    }
    assert_int_equal(snapshot_bytes(f), 0);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
}

/* A weight that changes between staged and commit is found, and all bytes are put back. */
static void altered(fleet *f, const char *tensor, uint32_t per_mille)
{
    weft_version held;
    fleet_publish(f, per_mille);
    const weft_staged_info info = staged(f);
    assert_int_equal(info.encoded, 1);
    *fleet_model_at(&f->rollouts[0].model, fleet_tensor_at(f->layout, tensor)) ^= 0x10;
    uint8_t *before = test_malloc(f->bytes);
    fleet_model_get(&f->rollouts[0].model, before);
    assert_int_equal(weft_commit(f->rollouts[0].session, info.target.number, NULL, 0, &held), WEFT_E_BASE);
    assert_non_null(strstr(weft_last_error(), tensor));
    assert_non_null(strstr(weft_last_error(), "undone"));
    fleet_check_bytes(f, 0, before);
    test_free(before);
    assert_int_equal(fleet_stats(f->rollouts[0].session).undone, 1);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_RESYNC, "a", FLEET_WAIT_MS, NULL));
    fleet_catch_up(f, 0);
    fleet_publish(f, 1000);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
}

static void altered_in_the_first_unit(void **state)
{
    altered(*state, "scalar", 1000);
}

static void altered_in_the_last_unit(void **state)
{
    altered(*state, "bytes", 1000);
}

/* Whichever job of a commit fails, nothing is half moved, and the next try succeeds. */
static void any_job_fails(void **state)
{
    fleet *f = *state;
    uint8_t *before = test_malloc(f->bytes);
    weft_status status = WEFT_E_SYSTEM;
    uint64_t nth = 0;
    while (status != WEFT_OK) {
        fleet_model_get(&f->rollouts[0].model, before);
        fleet_publish(f, 1000);
        const weft_staged_info info = staged(f);
        assert_int_equal(info.encoded, 1);
        deferred_fail(++nth, WEFT_E_SYSTEM);
        status = weft_commit(f->rollouts[0].session, info.target.number, NULL, 0, NULL);
        deferred_fail(0, WEFT_OK);
        assert_true(status == WEFT_E_SYSTEM || status == WEFT_OK);
        fleet_check_bytes(f, 0, status == WEFT_OK ? f->dense : before);
        fleet_catch_up(f, 0);
        fleet_check_bytes(f, 0, f->dense);
    }
    assert_in_range(nth, 10, 1000);
    test_free(before);
}

/* Versions that are missed come as one, though each alone and all together exceed staging. */
static void what_was_missed_comes_as_one(void **state)
{
    fleet *f = *state;
    fleet_leave(f, 0);
    for (int i = 0; i < 3; i++)
        fleet_publish(f, 1000);
    fleet_join_bits(f, 0, f->history[0].dense);
    const weft_staged_info info = staged(f);
    assert_int_equal(info.encoded, 1);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
    assert_int_equal(snapshot_bytes(f), 0);
}

static const fleet_kind least_fleet = {FLEET_TILES, .starts = true, .joins = 1,
                                       .overrides =
                                           FLEET_WITH(LITTLE, "peers.encoded=256KiB", "trainer.journal=64MiB")};

/* Frames that exceed the memory for them lead to a snapshot, and the next update is one again. */
static void beyond_the_memory_for_frames(void **state)
{
    fleet *f = *state;
    weft_staged_info info = {.size = sizeof info};
    fleet_publish(f, 1000);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(info.kind, WEFT_STAGED_SNAPSHOT);
    assert_int_equal(info.encoded, 0);
    fleet_catch_up(f, 0);
    fleet_publish(f, 5);
    assert_int_equal(staged(f).encoded, 0);
    fleet_catch_up(f, 0);
}

static const fleet_kind tiny_fleet = {FLEET_SMALL, .starts = true, .joins = 1,
                                      .overrides = FLEET_WITH("peers.staging=1MiB", "peers.encoded=16MiB")};

/* Staging that cannot hold the changes of each possible frame keeps nothing encoded. */
static void too_little_staging_keeps_nothing(void **state)
{
    fleet *f = *state;
    fleet_publish(f, 1000);
    assert_int_equal(staged(f).encoded, 0);
    fleet_catch_up(f, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(encoded_or_not, plain_fleet),
        FLEET_TEST(encoded_or_not, tight_fleet),
        FLEET_TEST(encoded_or_not, device_fleet),
        FLEET_TEST(altered_in_the_first_unit, plain_fleet),
        FLEET_TEST(altered_in_the_last_unit, plain_fleet),
        FLEET_TEST(altered_in_the_first_unit, device_fleet),
        FLEET_TEST(altered_in_the_last_unit, device_fleet),
        FLEET_TEST(altered_in_the_last_unit, tight_fleet),
        FLEET_TEST(any_job_fails, device_fleet),
        FLEET_TEST(what_was_missed_comes_as_one, plain_fleet),
        FLEET_TEST(what_was_missed_comes_as_one, tight_fleet),
        FLEET_TEST(beyond_the_memory_for_frames, least_fleet),
        FLEET_TEST(too_little_staging_keeps_nothing, tiny_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
