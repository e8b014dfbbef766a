/* All or nothing: weights that other code writes are found, nothing is half moved, and the session recovers. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .joins = 1};

static uint64_t staged(fleet *f)
{
    weft_staged_info info = {.size = sizeof info};
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(info.kind, WEFT_STAGED_UPDATE);
    return info.target.number;
}

static uint8_t *snapshot(fleet *f)
{
    uint8_t *dense = test_malloc(f->bytes);
    fleet_model_get(&f->rollouts[0].model, dense);
    return dense;
}

/* Flips a bit of the weights at `at` in the dense image. */
static void flip(fleet *f, uint64_t at)
{
    *fleet_model_at(&f->rollouts[0].model, at) ^= 0x10;
}

/* A weight that the update touches is altered between staged and commit: found, and undone byte for byte. */
static void altered_before_commit(fleet *f, const char *tensor)
{
    uint64_t at = fleet_tensor_at(f->layout, tensor);
    fleet_publish(f, 1000);
    uint64_t version = staged(f);
    flip(f, at);
    uint8_t *before = snapshot(f);
    weft_version held;
    assert_int_equal(weft_commit(f->rollouts[0].session, version, NULL, 0, &held), WEFT_E_BASE);
    assert_string_not_equal(weft_last_error(), "");
    fleet_check_bytes(f, 0, before);
    test_free(before);
    assert_int_equal(fleet_stats(f->rollouts[0].session).undone, 1);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, 0, NULL));
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_RESYNC, "a", FLEET_WAIT_MS, NULL));
    fleet_catch_up(f, 0);
    fleet_publish(f, 10);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
}

static void altered_in_the_first_unit(void **state)
{
    altered_before_commit(*state, "scalar");
}

/* Everything before it was moved already. */
static void altered_in_the_last_unit(void **state)
{
    altered_before_commit(*state, "bytes");
}

/* The altered weight is not among the changes: the commit is right to succeed; the scrub finds it, and one tile mends
 * it. */
static void altered_where_nothing_changes(void **state)
{
    fleet *f = *state;
    uint64_t at = fleet_tensor_at(f->layout, "quant") + 5;
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    for (uint64_t i = 0; i < 64; i++)
        f->dense[fleet_tensor_at(f->layout, "double") + i] ^= 1;
    fleet_publish_dense(f, NULL);
    uint64_t version = staged(f);
    flip(f, at);
    weft_version held;
    assert_int_equal(weft_commit(f->rollouts[0].session, version, NULL, 0, &held), WEFT_OK);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_E_BASE);
    assert_non_null(strstr(weft_last_error(), "quant"));
    weft_event event;
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_RESYNC, "a", FLEET_WAIT_MS, &event));
    assert_int_equal(event.version.number, version); /* what rotted */
    assert_int_equal(fleet_commit(f, 0, FLEET_WAIT_MS), WEFT_OK);
    fleet_check_bytes(f, 0, f->dense);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
}

/* Bits that rotted while nothing was under way: the next update is proved against them, fails, and a repair mends,
 * because steps lead back from a version that changed every element. */
static void altered_before_staging(void **state)
{
    fleet *f = *state;
    weft_event event;
    flip(f, fleet_tensor_at(f->layout, "norm.2"));
    uint8_t *before = snapshot(f);
    fleet_publish(f, 1000);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_RESYNC, "a", FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_TARGET);
    assert_string_not_equal(event.text, "");
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, FLEET_WAIT_MS, &event));
    fleet_check_bytes(f, 0, before);
    test_free(before);
    fleet_catch_up(f, 0);
    weft_peer_info info;
    assert_true(fleet_peer(f, "a", &info));
    assert_int_equal(info.snapshot_bytes, 0);
    fleet_check_bytes(f, 0, f->dense);
}

/* The other end of the same promise: the trainer does not believe in a version that the peer undid. */
static void trainer_is_not_told_of_undone(void **state)
{
    fleet *f = *state;
    const char *a = "a";
    fleet_publish(f, 1000);
    uint64_t version = staged(f);
    flip(f, 3);
    assert_int_equal(weft_commit(f->rollouts[0].session, version, NULL, 0, NULL), WEFT_E_BASE);
    assert_int_not_equal(weft_wait(f->trainer.session, version, &a, 1, 200), WEFT_OK);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_wait(f->trainer.session, version, &a, 1, FLEET_WAIT_MS), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(altered_in_the_first_unit, plain_fleet),     FLEET_TEST(altered_in_the_last_unit, plain_fleet),
        FLEET_TEST(altered_where_nothing_changes, plain_fleet), FLEET_TEST(altered_before_staging, plain_fleet),
        FLEET_TEST(trainer_is_not_told_of_undone, plain_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
