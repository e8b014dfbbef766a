/* Commits that are held: the weights are the new version's until the caller keeps or undoes that, whatever happens
 * meanwhile. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>

static const char *const encoded[] = {"peers.staging=2200KiB", "peers.encoded=16MiB", "trainer.journal=64MiB", NULL};
static const char *const patient[] = {"commit.deadline=100ms", NULL};

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .joins = 1};

static const fleet_kind encoded_fleet = {FLEET_TILES, .starts = true, .overrides = encoded, .joins = 1};

static const fleet_kind device_fleet = {FLEET_TILES, .starts = true, .device = true, .joins = 1};

static const fleet_kind patient_fleet = {FLEET_SMALL, .starts = true, .overrides = patient, .joins = 1};

static weft_session *rollout(fleet *f)
{
    return f->rollouts[0].session;
}

static weft_version held(fleet *f)
{
    weft_version version;
    assert_int_equal(weft_held(rollout(f), &version), WEFT_OK);
    return version;
}

/* Publishes, waits until that is staged, and commits it with HOLD. Returns the version. */
static weft_version hold(fleet *f, uint32_t per_mille)
{
    weft_staged_info info = {.size = sizeof info};
    const weft_version before = held(f);
    weft_version said;
    if (per_mille)
        fleet_publish(f, per_mille);
    assert_int_equal(weft_staged(rollout(f), FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(weft_commit(rollout(f), info.target.number, NULL, WEFT_COMMIT_HOLD, &said), WEFT_OK);
    assert_memory_equal(&said, &before, sizeof said);
    fleet_check_bytes(f, 0, f->dense);
    return info.target;
}

static weft_version settle(fleet *f, weft_settlement how)
{
    weft_version said, now;
    assert_int_equal(weft_settle(rollout(f), how, NULL, &said), WEFT_OK);
    now = held(f);
    assert_int_equal(said.root, now.root); /* a trainer that comes meanwhile may give it another label */
    return said;
}

static uint8_t *bytes_now(fleet *f)
{
    uint8_t *dense = test_malloc(f->bytes);
    fleet_model_get(&f->rollouts[0].model, dense);
    return dense;
}

static void kept(void **state)
{
    fleet *f = *state;
    for (uint32_t per_mille = 1; per_mille <= 1000; per_mille *= 10) {
        const weft_version target = hold(f, per_mille), after = settle(f, WEFT_SETTLE_KEEP);
        assert_memory_equal(&after, &target, sizeof after);
        assert_true(fleet_event(f->trainer.session, WEFT_EVENT_HELD, "a", FLEET_WAIT_MS, NULL));
        fleet_check(f, 0);
    }
    assert_int_equal(weft_scrub(rollout(f)), WEFT_OK);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* An undone version is staged still: it may be held and undone again, and committed in the end. */
static void undone(void **state)
{
    fleet *f = *state;
    for (uint32_t per_mille = 1; per_mille <= 1000; per_mille *= 10) {
        uint8_t *before = bytes_now(f);
        const weft_version old = held(f);
        weft_version target = hold(f, per_mille);
        for (int again = 0; again < 3; again++) {
            const weft_version after = settle(f, WEFT_SETTLE_UNDO);
            assert_memory_equal(&after, &old, sizeof after);
            fleet_check_bytes(f, 0, before);
            assert_int_equal(weft_scrub(rollout(f)), WEFT_OK);
            target = hold(f, 0);
        }
        const weft_version after = settle(f, WEFT_SETTLE_KEEP);
        assert_memory_equal(&after, &target, sizeof after);
        test_free(before);
    }
    fleet_catch_up(f, 0);
    assert_int_equal(fleet_stats(rollout(f)).undone, 0);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* The device's weights outlive their session here, because the fleet closes them later. */
static void closing_undoes(void **state)
{
    fleet *f = *state;
    uint8_t *before = bytes_now(f);
    hold(f, 500);
    assert_int_equal(weft_close(rollout(f)), WEFT_OK);
    f->rollouts[0].session = NULL;
    fleet_check_bytes(f, 0, before);
    test_free(before);
}

static void other_calls_wait(void **state)
{
    fleet *f = *state;
    weft_version version;
    assert_int_equal(weft_settle(rollout(f), WEFT_SETTLE_KEEP, NULL, NULL), WEFT_E_STATE);
    const weft_version target = hold(f, 100);
    assert_int_equal(weft_commit(rollout(f), target.number, NULL, 0, &version), WEFT_E_STATE);
    assert_non_null(strstr(weft_last_error(), "call weft_settle first"));
    assert_int_equal(weft_scrub(rollout(f)), WEFT_E_STATE);
    assert_int_equal(fleet_model_bind(&f->rollouts[0].model, rollout(f), NULL, 0), WEFT_E_STATE);
    assert_int_equal(weft_settle(rollout(f), (weft_settlement)0, NULL, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(weft_settle(rollout(f), (weft_settlement)3, NULL, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(weft_settle(f->trainer.session, WEFT_SETTLE_KEEP, NULL, NULL), WEFT_E_STATE);
    assert_int_equal(weft_commit(rollout(f), target.number, NULL, 6, NULL), WEFT_E_ARGUMENT);
    fleet_check_bytes(f, 0, f->dense);
    settle(f, WEFT_SETTLE_KEEP);
    fleet_check(f, 0);
}

/* Newer versions come meanwhile, and wait: nothing is decoded onto weights that may go back. */
static void newer_versions_wait(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 2; i++) {
        uint8_t *before = bytes_now(f), *during;
        weft_staged_info info = {.size = sizeof info};
        const weft_version target = hold(f, 200);
        during = bytes_now(f);
        fleet_publish(f, 200);
        fleet_publish(f, 200);
        assert_int_equal(weft_staged(rollout(f), 200, &info), WEFT_AGAIN);
        fleet_check_bytes(f, 0, during);
        settle(f, i ? WEFT_SETTLE_UNDO : WEFT_SETTLE_KEEP);
        fleet_check_bytes(f, 0, i ? before : during);
        assert_int_equal(weft_staged(rollout(f), FLEET_WAIT_MS, &info), WEFT_OK);
        assert_true(i ? info.target.number == target.number : info.target.number > target.number);
        fleet_catch_up(f, 0);
        test_free(during);
        test_free(before);
    }
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* The trainer goes, and another comes in its place. The rollout joins again when it knows what it holds. */
static void the_trainer_is_replaced(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 2; i++) {
        uint8_t *before = bytes_now(f);
        hold(f, 300);
        fleet_stop_trainer(f);
        fleet_check_bytes(f, 0, f->dense);
        fleet_start_trainer(f, NULL);
        fleet_sleep_ms(50);
        fleet_check_bytes(f, 0, f->dense);
        settle(f, i ? WEFT_SETTLE_UNDO : WEFT_SETTLE_KEEP);
        fleet_check_bytes(f, 0, i ? before : f->dense);
        fleet_publish(f, 10);
        fleet_catch_up(f, 0);
        assert_int_equal(weft_scrub(rollout(f)), WEFT_OK);
        test_free(before);
    }
}

static void a_snapshot_is_not_held(void **state)
{
    fleet *f = *state;
    weft_staged_info info = {.size = sizeof info};
    weft_version version;
    fleet_join(f, 1, FLEET_EMPTY);
    assert_int_equal(weft_staged(f->rollouts[1].session, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(info.kind, WEFT_STAGED_SNAPSHOT);
    assert_int_equal(weft_commit(f->rollouts[1].session, info.target.number, NULL, WEFT_COMMIT_HOLD, &version),
                     WEFT_E_STATE);
    assert_non_null(strstr(weft_last_error(), "has no way back"));
    fleet_catch_up(f, 1);
}

/* A commit that fails holds nothing. */
static void what_fails_is_not_held(void **state)
{
    fleet *f = *state;
    weft_staged_info info = {.size = sizeof info};
    fleet_publish(f, 1000);
    assert_int_equal(weft_staged(rollout(f), FLEET_WAIT_MS, &info), WEFT_OK);
    *fleet_model_at(&f->rollouts[0].model, fleet_tensor_at(f->layout, "bytes")) ^= 0x10;
    uint8_t *before = bytes_now(f);
    assert_int_equal(weft_commit(rollout(f), info.target.number, NULL, WEFT_COMMIT_HOLD, NULL), WEFT_E_BASE);
    fleet_check_bytes(f, 0, before);
    assert_int_equal(weft_settle(rollout(f), WEFT_SETTLE_UNDO, NULL, NULL), WEFT_E_STATE);
    fleet_check_bytes(f, 0, before);
    test_free(before);
    fleet_catch_up(f, 0);
}

/* Time ends nothing; it is told once, of each commit that is held. */
static void long_holds_are_told(void **state)
{
    fleet *f = *state;
    weft_event event;
    for (int again = 0; again < 2; again++) {
        const weft_version target = hold(f, 100);
        assert_true(fleet_event(rollout(f), WEFT_EVENT_UNSETTLED, NULL, FLEET_WAIT_MS, &event));
        assert_int_equal(event.version.number, target.number);
        fleet_sleep_ms(300);
        assert_false(fleet_event(rollout(f), WEFT_EVENT_UNSETTLED, NULL, 0, NULL));
        fleet_check_bytes(f, 0, f->dense);
        settle(f, WEFT_SETTLE_KEEP);
        fleet_check(f, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(kept, plain_fleet),
        FLEET_TEST(kept, encoded_fleet),
        FLEET_TEST(kept, device_fleet),
        FLEET_TEST(undone, plain_fleet),
        FLEET_TEST(undone, encoded_fleet),
        FLEET_TEST(undone, device_fleet),
        FLEET_TEST(closing_undoes, plain_fleet),
        FLEET_TEST(closing_undoes, encoded_fleet),
        FLEET_TEST(other_calls_wait, plain_fleet),
        FLEET_TEST(newer_versions_wait, plain_fleet),
        FLEET_TEST(the_trainer_is_replaced, plain_fleet),
        FLEET_TEST(a_snapshot_is_not_held, plain_fleet),
        FLEET_TEST(what_fails_is_not_held, plain_fleet),
        FLEET_TEST(long_holds_are_told, patient_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
