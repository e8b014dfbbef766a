/* Commits that are queued on a device's stream: the call returns before a weight is moved, and weft_settle learns
 * whether all of them were or none. */
#include "tests/support/fleet.h"

#include <string.h>

#include "tests/support/deferred.h"

static const char *const encoded[] = {"peers.staging=2200KiB", "peers.encoded=16MiB", "trainer.journal=64MiB", NULL};
static const char *const patient[] = {"commit.deadline=100ms", NULL};

static fleet *f;

static int start(fleet *opened)
{
    f = opened;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return start(fleet_open_device(FLEET_TILES, NULL, false, true, 5));
}

static int setup_patient(void **state)
{
    (void)state;
    return start(fleet_open_device(FLEET_SMALL, patient, false, true, 5));
}

static int setup_encoded(void **state)
{
    (void)state;
    return start(fleet_open_device(FLEET_TILES, encoded, false, true, 5));
}

static int setup_host(void **state)
{
    (void)state;
    return start(fleet_open_device(FLEET_TILES, NULL, false, false, 5));
}

static int teardown(void **state)
{
    (void)state;
    deferred_queue_fail(WEFT_OK, false);
    fleet_close(f);
    return 0;
}

static weft_session *rollout(void)
{
    return f->rollouts[0].session;
}

static weft_version held(void)
{
    weft_version version;
    assert_int_equal(weft_held(rollout(), &version), WEFT_OK);
    return version;
}

static uint8_t *bytes_now(void)
{
    uint8_t *dense = test_malloc(f->bytes);
    fleet_model_get(&f->rollouts[0].model, dense);
    return dense;
}

static weft_version staged(uint32_t per_mille)
{
    weft_staged_info info = {.size = sizeof info};
    if (per_mille)
        fleet_publish(f, per_mille);
    assert_int_equal(weft_staged(rollout(), FLEET_WAIT_MS, &info), WEFT_OK);
    return info.target;
}

/* Queues what is staged. No weight is moved when that returns, and the old version is held. */
static void queue(const weft_version *target)
{
    const weft_version before = held();
    weft_version said;
    uint8_t *old = bytes_now();
    assert_int_equal(weft_commit(rollout(), target->number, NULL, WEFT_COMMIT_QUEUE, &said), WEFT_OK);
    assert_memory_equal(&said, &before, sizeof said);
    fleet_check_bytes(f, 0, old);
    test_free(old);
}

static weft_version settle(weft_settlement how)
{
    weft_version said, now;
    assert_int_equal(weft_settle(rollout(), how, NULL, &said), WEFT_OK);
    now = held();
    assert_memory_equal(&said, &now, sizeof said);
    return said;
}

static void kept(void **state)
{
    (void)state;
    for (uint32_t per_mille = 1; per_mille <= 1000; per_mille *= 10) {
        const weft_version target = staged(per_mille);
        queue(&target);
        const weft_version after = settle(WEFT_SETTLE_KEEP);
        assert_memory_equal(&after, &target, sizeof after);
        assert_true(fleet_event(f->trainer.session, WEFT_EVENT_HELD, "a", FLEET_WAIT_MS, NULL));
        fleet_check(f, 0);
    }
    assert_int_equal(weft_scrub(rollout()), WEFT_OK);
    assert_int_equal(weft_settle(rollout(), WEFT_SETTLE_KEEP, NULL, NULL), WEFT_E_STATE);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

static double pause_told(void)
{
    weft_staged_info info = {.size = sizeof info};
    fleet_publish(f, 300);
    assert_int_equal(weft_staged(rollout(), FLEET_WAIT_MS, &info), WEFT_OK);
    return info.pause_ms;
}

/* The pause of the next commit is estimated from commits that were waited for. */
static void queues_tell_nothing_of_pauses(void **state)
{
    (void)state;
    assert_true(pause_told() == 0);
    const weft_version first = staged(0);
    queue(&first);
    settle(WEFT_SETTLE_KEEP);
    assert_true(pause_told() == 0);
    fleet_catch_up(f, 0);
    assert_true(pause_told() > 0);
}

static void undone(void **state)
{
    (void)state;
    uint8_t *before = bytes_now();
    const weft_version old = held(), target = staged(300);
    for (int again = 0; again < 3; again++) {
        queue(&target);
        const weft_version after = settle(WEFT_SETTLE_UNDO);
        assert_memory_equal(&after, &old, sizeof after);
        fleet_check_bytes(f, 0, before);
        assert_int_equal(weft_scrub(rollout()), WEFT_OK);
    }
    test_free(before);
    fleet_catch_up(f, 0);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

static void closing_undoes(void **state)
{
    (void)state;
    uint8_t *before = bytes_now();
    const weft_version target = staged(500);
    queue(&target);
    assert_int_equal(weft_close(rollout()), WEFT_OK);
    f->rollouts[0].session = NULL;
    fleet_check_bytes(f, 0, before);
    test_free(before);
}

/* The deferred device ends the process if any job comes to it meanwhile. */
static void all_else_waits(void **state)
{
    weft_staged_info info = {.size = sizeof info};
    weft_version version;
    (void)state;
    const weft_version target = staged(100);
    queue(&target);
    fleet_publish(f, 200);
    fleet_publish(f, 200);
    assert_int_equal(weft_staged(rollout(), 200, &info), WEFT_AGAIN);
    assert_int_equal(weft_commit(rollout(), target.number, NULL, 0, &version), WEFT_E_STATE);
    assert_non_null(strstr(weft_last_error(), "call weft_settle first"));
    assert_int_equal(weft_commit(rollout(), target.number, NULL, WEFT_COMMIT_QUEUE, &version), WEFT_E_STATE);
    assert_int_equal(weft_scrub(rollout()), WEFT_E_STATE);
    assert_int_equal(weft_unbind(rollout()), WEFT_E_STATE);
    assert_int_equal(fleet_model_bind(&f->rollouts[0].model, rollout(), NULL, 0), WEFT_E_STATE);
    settle(WEFT_SETTLE_KEEP);
    fleet_catch_up(f, 0);
}

static uint8_t *weight(void)
{
    return fleet_model_at(&f->rollouts[0].model, fleet_tensor_at(f->layout, "bytes"));
}

static void weight_write(void)
{
    *weight() ^= 0x10;
}

/* Another hand wrote a weight after staging. The device finds that, writes nothing, and the rollout joins again. */
static void a_weight_was_changed(void **state)
{
    (void)state;
    const weft_version old = held(), target = staged(1000);
    weight_write();
    uint8_t *before = bytes_now();
    queue(&target);
    assert_int_equal(weft_settle(rollout(), WEFT_SETTLE_KEEP, NULL, NULL), WEFT_E_BASE);
    assert_non_null(strstr(weft_last_error(), "bytes"));
    fleet_check_bytes(f, 0, before);
    assert_int_equal(held().number, old.number);
    assert_int_equal(weft_settle(rollout(), WEFT_SETTLE_KEEP, NULL, NULL), WEFT_E_STATE);
    test_free(before);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_scrub(rollout()), WEFT_OK);
}

/* To undo such a commit is to do nothing. The version stays staged, and fails again. */
static void a_changed_weight_is_undone(void **state)
{
    (void)state;
    const weft_version target = staged(1000);
    weight_write();
    uint8_t *before = bytes_now();
    queue(&target);
    settle(WEFT_SETTLE_UNDO);
    fleet_check_bytes(f, 0, before);
    assert_int_equal(weft_commit(rollout(), target.number, NULL, 0, NULL), WEFT_E_BASE);
    fleet_check_bytes(f, 0, before);
    test_free(before);
    fleet_catch_up(f, 0);
}

/* Another hand writes between the proof and the writes: the writes are taken back, and that weight has the other hand's
 * bits. */
static void a_weight_is_changed_meanwhile(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const weft_version target = staged(1000);
        uint8_t *before = bytes_now();
        queue(&target);
        deferred_queue_between(weight_write);
        assert_int_equal(weft_settle(rollout(), i ? WEFT_SETTLE_UNDO : WEFT_SETTLE_KEEP, NULL, NULL),
                         i ? WEFT_OK : WEFT_E_BASE);
        uint8_t *after = bytes_now();
        uint64_t others = 0;
        for (uint64_t at = 0; at < f->bytes; at++)
            others += before[at] != after[at] ? (before[at] ^ after[at]) == 0x10 ? 1 : 2 : 0;
        assert_int_equal(others, 1); /* the session may read the weights by now, so nobody writes any */
        test_free(after);
        test_free(before);
        fleet_catch_up(f, 0);
    }
}

static void closing_after_a_change(void **state)
{
    (void)state;
    const weft_version target = staged(1000);
    weight_write();
    uint8_t *before = bytes_now();
    queue(&target);
    assert_int_equal(weft_close(rollout()), WEFT_OK);
    f->rollouts[0].session = NULL;
    fleet_check_bytes(f, 0, before);
    test_free(before);
}

/* What cannot be queued gives the version up, with the device's own word; the next one is committed. */
static void the_stream_is_refused(void **state)
{
    (void)state;
    uint8_t *before = bytes_now();
    const weft_version target = staged(300);
    deferred_queue_fail(WEFT_E_ARGUMENT, false);
    assert_int_equal(weft_commit(rollout(), target.number, NULL, WEFT_COMMIT_QUEUE, NULL), WEFT_E_ARGUMENT);
    assert_string_equal(weft_last_error(), "the deferred device says so");
    assert_int_equal(weft_settle(rollout(), WEFT_SETTLE_KEEP, NULL, NULL), WEFT_E_STATE);
    fleet_check_bytes(f, 0, before);
    test_free(before);
    fleet_catch_up(f, 0);
}

static void the_device_is_lost(weft_settlement how)
{
    const weft_version target = staged(300);
    queue(&target);
    deferred_queue_fail(WEFT_E_DEVICE, true);
    assert_int_equal(weft_settle(rollout(), how, NULL, NULL), WEFT_E_DEVICE);
    assert_int_equal(weft_commit(rollout(), target.number, NULL, 0, NULL), WEFT_E_DEVICE);
    assert_non_null(strstr(weft_last_error(), "no version"));
}

static void lost_and_kept(void **state)
{
    (void)state;
    the_device_is_lost(WEFT_SETTLE_KEEP);
}

static void lost_and_undone(void **state)
{
    (void)state;
    the_device_is_lost(WEFT_SETTLE_UNDO);
}

/* Says that the weights are moved when the call returns, and wait for weft_settle. */
static void moved_at_once(void)
{
    const weft_version before = held(), target = staged(300);
    weft_version said;
    assert_int_equal(weft_commit(rollout(), target.number, NULL, WEFT_COMMIT_QUEUE, &said), WEFT_OK);
    assert_memory_equal(&said, &before, sizeof said);
    fleet_check_bytes(f, 0, f->dense);
    settle(WEFT_SETTLE_KEEP);
    fleet_check(f, 0);
}

static void too_many_lists(void **state)
{
    (void)state;
    deferred_queue_fail(WEFT_E_BUDGET, false);
    moved_at_once();
}

static void without_a_device(void **state)
{
    (void)state;
    moved_at_once();
}

static void an_encoded_update(void **state)
{
    weft_staged_info info = {.size = sizeof info};
    (void)state;
    fleet_publish(f, 1000);
    assert_int_equal(weft_staged(rollout(), FLEET_WAIT_MS, &info), WEFT_OK);
    assert_true(info.encoded);
    assert_int_equal(weft_commit(rollout(), info.target.number, NULL, WEFT_COMMIT_QUEUE, NULL), WEFT_OK);
    fleet_check_bytes(f, 0, f->dense);
    settle(WEFT_SETTLE_KEEP);
    fleet_check(f, 0);
}

static void a_snapshot_is_not_queued(void **state)
{
    weft_staged_info info = {.size = sizeof info};
    (void)state;
    fleet_join(f, 1, FLEET_EMPTY);
    assert_int_equal(weft_staged(f->rollouts[1].session, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(info.kind, WEFT_STAGED_SNAPSHOT);
    assert_int_equal(weft_commit(f->rollouts[1].session, info.target.number, NULL, WEFT_COMMIT_QUEUE, NULL),
                     WEFT_E_STATE);
    assert_non_null(strstr(weft_last_error(), "has no way back"));
    fleet_catch_up(f, 1);
}

static void long_queues_are_told(void **state)
{
    (void)state;
    const weft_version target = staged(100);
    queue(&target);
    assert_true(fleet_event(rollout(), WEFT_EVENT_UNSETTLED, NULL, FLEET_WAIT_MS, NULL));
    settle(WEFT_SETTLE_KEEP);
    fleet_check(f, 0);
}

/* The trainer goes meanwhile, and another comes in its place. */
static void the_trainer_is_replaced(void **state)
{
    (void)state;
    const weft_version target = staged(300);
    queue(&target);
    fleet_stop_trainer(f);
    fleet_start_trainer(f, NULL);
    fleet_sleep_ms(50);
    assert_int_equal(weft_settle(rollout(), WEFT_SETTLE_KEEP, NULL, NULL),
                     WEFT_OK); /* the other names it anew at once */
    fleet_check_bytes(f, 0, f->dense);
    fleet_publish(f, 10);
    fleet_catch_up(f, 0);
}

/* The trainer goes meanwhile, and the device finds a weight that another hand wrote. Whether that commit is undone or
 * given up, the trainer that comes then mends the weights. */
static void a_change_is_found_without_a_trainer(void **state)
{
    (void)state;
    for (int undo = 0; undo < 2; undo++) {
        const weft_version target = staged(1000);
        weight_write();
        uint8_t *before = bytes_now();
        queue(&target);
        fleet_stop_trainer(f);
        fleet_sleep_ms(50);
        assert_int_equal(weft_settle(rollout(), undo ? WEFT_SETTLE_UNDO : WEFT_SETTLE_KEEP, NULL, NULL),
                         undo ? WEFT_OK : WEFT_E_BASE);
        fleet_check_bytes(f, 0, before);
        test_free(before);
        if (undo)
            assert_int_equal(weft_commit(rollout(), target.number, NULL, 0, NULL), WEFT_E_BASE);
        fleet_start_trainer(f, NULL);
        fleet_catch_up(f, 0);
        fleet_publish(f, 10);
        fleet_catch_up(f, 0);
        fleet_check(f, 0);
        assert_int_equal(weft_scrub(rollout()), WEFT_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kept, setup, teardown),
        cmocka_unit_test_setup_teardown(queues_tell_nothing_of_pauses, setup, teardown),
        cmocka_unit_test_setup_teardown(undone, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_undoes, setup, teardown),
        cmocka_unit_test_setup_teardown(all_else_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(a_weight_was_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_changed_weight_is_undone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_weight_is_changed_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_after_a_change, setup, teardown),
        cmocka_unit_test_setup_teardown(the_stream_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_and_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_and_undone, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_device, setup_host, teardown),
        cmocka_unit_test_setup_teardown(an_encoded_update, setup_encoded, teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_is_not_queued, setup, teardown),
        cmocka_unit_test_setup_teardown(long_queues_are_told, setup_patient, teardown),
        cmocka_unit_test_setup_teardown(the_trainer_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_is_found_without_a_trainer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
