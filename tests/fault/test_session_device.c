/* Sessions over a backend that does jobs late, in batches and in memory of its own: what is true of the host's is true
 * there, and a device that dies ends its session and nothing else. */
#include "tests/support/deferred.h"
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>

static const char *const on_device[] = {"trainer.shadow=device", NULL};
static const char *const staged_image[] = {"commit.snapshot=staged", NULL};

static void died(const char *text, const char *word)
{
    if (!strstr(text, word))
        fail_msg("\"%s\" does not say \"%s\"", text, word);
}

/* ---- what works */

typedef struct cast {
    bool trainer, rollouts;
    uint32_t depth;
    const char *const *overrides;
} cast;

/* An update, one that a rollout alters under, a joiner with other bits, bits that rot, and updates again. */
static void play(const cast *c)
{
    fleet *f = fleet_open_device(FLEET_TILES, c->overrides, c->trainer, c->rollouts, c->depth);
    fleet_start_trainer(f, "first");
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    static const uint32_t densities[] = {1, 30, 1000, 0};
    for (size_t i = 0; i < sizeof densities / sizeof *densities; i++) {
        fleet_publish(f, densities[i]);
        fleet_catch_up(f, 0);
        fleet_check_bytes(f, 0, f->dense);
    }
    fleet_join(f, 1, FLEET_OTHER);
    fleet_catch_up(f, 1);
    *fleet_model_at(&f->rollouts[0].model, f->bytes / 2) ^= 0x20;
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_E_BASE);
    fleet_publish(f, 5);
    for (unsigned at = 0; at < 2; at++) {
        fleet_catch_up(f, at);
        fleet_check_bytes(f, at, f->dense);
        assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
    }
    assert_true(deferred_largest() > (c->depth > 1 ? 1 : 0));
    assert_true(deferred_largest() <= c->depth);
    fleet_close(f);
}

static void every_cast(void **state)
{
    (void)state;
    static const cast casts[] = {
        {true, false, 8, NULL},         {false, true, 8, NULL}, {true, true, 3, on_device},
        {false, true, 5, staged_image}, {true, true, 1, NULL},
    };
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++)
        play(&casts[i]);
}

static void the_callers_stream_is_handed_on(void **state)
{
    (void)state;
    int published, committed;
    fleet *f = fleet_open_device(FLEET_SMALL, NULL, true, true, 4);
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_change(f->layout, f->dense, 100, &f->seed);
    fleet_model_put(&f->trainer.model, f->dense);
    assert_int_equal(weft_publish(f->trainer.session, 1, &published, NULL, NULL), WEFT_OK);
    assert_ptr_equal(deferred_stream(), &published);
    weft_staged_info info = {.size = sizeof info};
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(weft_commit(f->rollouts[0].session, 1, &committed, 0, NULL), WEFT_OK);
    assert_ptr_equal(deferred_stream(), &committed);
    fleet_check_bytes(f, 0, f->dense);
    fleet_close(f);
}

/* It is the caller's, who may end it when commit returned: a snapshot that is staged later comes without. */
static void a_commits_stream_ends_with_it(void **state)
{
    (void)state;
    int stream;
    fleet *f = fleet_open_device(FLEET_TILES, staged_image, false, true, 4);
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_publish(f, 100);
    weft_staged_info info = {.size = sizeof info};
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(weft_commit(f->rollouts[0].session, 1, &stream, 0, NULL), WEFT_OK);
    deferred_end_stream(&stream);
    fleet_stop_trainer(f);
    fleet_change(f->layout, f->dense, 1000, &f->seed);
    fleet_start_trainer(f, NULL);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info), WEFT_OK);
    assert_int_equal(info.kind, WEFT_STAGED_SNAPSHOT);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
    fleet_close(f);
}

/* ---- what is refused */

static void weights_elsewhere_are_refused(void **state)
{
    (void)state;
    fleet *f = fleet_open_device(FLEET_SMALL, NULL, true, true, 4);
    fleet_start_trainer(f, NULL);
    fleet_open_rollout(f, 0, NULL);
    weft_session *ends[] = {f->trainer.session, f->rollouts[0].session};
    for (size_t i = 0; i < 2; i++) {
        fleet_model model;
        fleet_model_open(&model, f->layout, 0);
        fleet_model_put(&model, f->dense);
        assert_int_equal(weft_bind(ends[i], model.pieces, model.piece_count, NULL, 0, 0), WEFT_E_ARGUMENT);
        died(weft_last_error(), "lies in host memory");
        died(weft_last_error(), "tensor scalar");
        fleet_model_close(&model);
    }
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    fleet_close(f);
}

static void a_shadow_on_the_device_needs_one(void **state)
{
    (void)state;
    fleet *f = fleet_open_device(FLEET_SMALL, NULL, false, false, 1);
    weft_session *session = NULL;
    weft_site *site = fleet_site(f, "trainer.shadow=device");
    assert_int_equal(weft_trainer_open(site, f->layout, NULL, &session), WEFT_E_CONFIG);
    died(weft_last_error(), "shadow = host");
    weft_site_free(site);
    fleet_close(f);
}

/* ---- what fails */

/* A job fails, the device lives: nothing is half moved, and the next try succeeds. */
static void one_job_fails(void **state)
{
    (void)state;
    fleet *f = fleet_open_device(FLEET_TILES, NULL, true, true, 4);
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    for (uint64_t nth = 1; nth < 40; nth += 13) {
        fleet_change(f->layout, f->dense, 100, &f->seed);
        fleet_model_put(&f->trainer.model, f->dense);
        deferred_fail(nth, WEFT_E_SYSTEM);
        weft_status status = weft_publish(f->trainer.session, f->newest + 1, NULL, NULL, NULL);
        deferred_fail(0, WEFT_OK);
        assert_true(status == WEFT_E_SYSTEM || status == WEFT_OK);
        fleet_publish_dense(f, NULL);
        fleet_catch_up(f, 0);
        fleet_check_bytes(f, 0, f->dense);
    }
    uint8_t *before = test_malloc(f->bytes);
    for (uint64_t nth = 1; nth < 6; nth++) {
        fleet_model_get(&f->rollouts[0].model, before);
        fleet_publish(f, 100);
        weft_staged_info info = {.size = sizeof info};
        assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info), WEFT_OK);
        deferred_fail(nth, WEFT_E_SYSTEM);
        assert_int_equal(weft_commit(f->rollouts[0].session, info.target.number, NULL, 0, NULL), WEFT_E_SYSTEM);
        fleet_check_bytes(f, 0, before);
        fleet_catch_up(f, 0);
        fleet_check_bytes(f, 0, f->dense);
    }
    test_free(before);
    fleet_close(f);
}

static weft_status commit_staged(fleet *f)
{
    weft_staged_info info = {.size = sizeof info};
    weft_status status = weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info);
    return status == WEFT_OK ? weft_commit(f->rollouts[0].session, info.target.number, NULL, 0, NULL) : status;
}

static fleet *open_pair(bool trainer, const char *const *overrides)
{
    fleet *f = fleet_open_device(FLEET_TILES, overrides, trainer, !trainer, 4);
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
    return f;
}

/* While an update is decoded: the weights are what they were, and the session says so and does nothing more. */
static void the_rollouts_device_dies(void **state)
{
    (void)state;
    fleet *f = open_pair(false, NULL);
    uint8_t *before = test_malloc(f->bytes);
    fleet_model_get(&f->rollouts[0].model, before);
    weft_version held;
    deferred_fail(1, WEFT_E_DEVICE);
    fleet_publish(f, 100);
    assert_int_equal(commit_staged(f), WEFT_E_DEVICE);
    died(weft_last_error(), "were not touched: they are those of version 0");
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_OK);
    assert_int_equal(held.number, 0);
    fleet_check_bytes(f, 0, before);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_E_DEVICE);
    assert_int_equal(weft_commit(f->rollouts[0].session, 1, NULL, 0, NULL), WEFT_E_DEVICE);
    fleet_wait_state(f, "a", WEFT_PEER_LOST, FLEET_WAIT_MS);
    test_free(before);
    fleet_close(f);
}

/* The device dies while a commit moves the weights, so the weights are unknown. */
static void the_device_dies_in_a_commit(void **state)
{
    (void)state;
    fleet *f = fleet_open_device(FLEET_TILES, NULL, false, true, 4);
    weft_version held;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_publish(f, 100);
    weft_staged_info info = {.size = sizeof info};
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info), WEFT_OK);
    deferred_fail(2, WEFT_E_DEVICE);
    assert_int_equal(weft_commit(f->rollouts[0].session, 1, NULL, 0, NULL), WEFT_E_DEVICE);
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_E_STATE);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &info), WEFT_E_DEVICE);
    died(weft_last_error(), "are those of no version");
    fleet_close(f);
}

/* While a snapshot comes in place. */
static void the_device_dies_in_a_snapshot(void **state)
{
    (void)state;
    fleet *f = fleet_open_device(FLEET_TILES, NULL, false, true, 4);
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_EMPTY);
    deferred_fail(3, WEFT_E_DEVICE);
    assert_int_equal(commit_staged(f), WEFT_E_DEVICE);
    assert_int_equal(commit_staged(f), WEFT_E_DEVICE);
    fleet_close(f);
}

/* The journal goes on serving, and the host's copy gives snapshots. */
static void the_trainers_device_dies(void **state)
{
    (void)state;
    fleet *f = open_pair(true, NULL);
    fleet_publish(f, 100);
    fleet_catch_up(f, 1);
    deferred_fail(1, WEFT_E_DEVICE);
    for (int i = 0; i < 2; i++)
        assert_int_equal(weft_publish(f->trainer.session, f->newest + 1, NULL, NULL, NULL), WEFT_E_DEVICE);
    fleet_catch_up(f, 0);
    fleet_join(f, 2, FLEET_OTHER);
    fleet_catch_up(f, 2);
    fleet_check_bytes(f, 2, f->dense);
    fleet_close(f);
}

/* The shadow dies with the device. A peer that needs a snapshot is refused for good, and the others go on. */
static void the_trainers_copy_dies(void **state)
{
    (void)state;
    fleet *f = open_pair(true, on_device);
    fleet_publish(f, 100);
    fleet_catch_up(f, 1);
    fleet_join(f, 2, FLEET_EMPTY);
    weft_staged_info info = {.size = sizeof info};
    assert_int_equal(weft_staged(f->rollouts[2].session, FLEET_WAIT_MS, &info), WEFT_OK);
    deferred_fail(1, WEFT_E_DEVICE);
    assert_int_not_equal(weft_commit(f->rollouts[2].session, info.target.number, NULL, 0, NULL), WEFT_OK);
    weft_status status;
    do
        status = weft_staged(f->rollouts[2].session, FLEET_WAIT_MS, &info);
    while (status == WEFT_OK && weft_commit(f->rollouts[2].session, info.target.number, NULL, 0, NULL) != WEFT_OK);
    assert_int_equal(status, WEFT_E_REFUSED);
    died(weft_last_error(), "lost its copy");
    assert_int_equal(weft_publish(f->trainer.session, f->newest + 1, NULL, NULL, NULL), WEFT_E_DEVICE);
    fleet_catch_up(f, 0);
    fleet_leave(f, 1);
    fleet_join(f, 1, FLEET_SAME);
    fleet_catch_up(f, 1);
    fleet_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cast),
        cmocka_unit_test(the_callers_stream_is_handed_on),
        cmocka_unit_test(a_commits_stream_ends_with_it),
        cmocka_unit_test(weights_elsewhere_are_refused),
        cmocka_unit_test(a_shadow_on_the_device_needs_one),
        cmocka_unit_test(one_job_fails),
        cmocka_unit_test(the_rollouts_device_dies),
        cmocka_unit_test(the_device_dies_in_a_commit),
        cmocka_unit_test(the_device_dies_in_a_snapshot),
        cmocka_unit_test(the_trainers_device_dies),
        cmocka_unit_test(the_trainers_copy_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
