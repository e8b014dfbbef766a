/* Weights in blocks with strides in a device's memory: updates of every level, snapshots, repairs and commits that fail
 * come to the same bits as on the host, and no other byte is written (fleet_model_get looks at the canaries). */
#include "tests/support/fleet.h"

#include <string.h>

#include "tests/fake_gpu/far.h"

static fleet *start(fleet_size size, const char *const *overrides, const fleet_far *trainer, const fleet_far *rollouts)
{
    fleet *f = far_fleet_open(size, overrides);
    f->blocks = true;
    f->trainer.far = trainer;
    for (unsigned at = 0; at < FLEET_ROLLOUTS; at++)
        f->rollouts[at].far = rollouts;
    fleet_start_trainer(f, NULL);
    return f;
}

static void updates_and_snapshots_land(const char *const *overrides, const fleet_far *trainer,
                                       const fleet_far *rollouts)
{
    static const uint32_t changes[] = {20, 300, 1000, 0};
    fleet *f = start(FLEET_TILES, overrides, trainer, rollouts);
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_EMPTY);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        fleet_publish(f, changes[i]);
        for (unsigned at = 0; at < 2; at++)
            fleet_catch_up(f, at);
    }
    for (unsigned at = 0; at < 2; at++) {
        fleet_check(f, at);
        assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
    }
    far_fleet_close(f);
}

static void cuda_to_hip(void **state)
{
    static const char *const overrides[] = {"trainer.backend=cuda", "trainer.shadow=device", "peers.backend=hip",
                                            "peer.a.level=tight",   "peer.b.level=fast",     NULL};
    (void)state;
    updates_and_snapshots_land(overrides, &far_cuda_0, &far_hip_0);
}

static void hip_to_cuda(void **state)
{
    static const char *const overrides[] = {"trainer.backend=hip",
                                            "trainer.shadow=host",
                                            "peers.backend=cuda",
                                            "peer.a.level=pairs",
                                            "peer.b.level=full",
                                            "commit.snapshot=staged",
                                            NULL};
    (void)state;
    updates_and_snapshots_land(overrides, &far_hip_0, &far_cuda_0);
}

/* A commit that is held is taken back out of the blocks, and put again. */
static void a_held_commit_is_undone(void **state)
{
    static const char *const overrides[] = {"trainer.backend=host", "peers.backend=cuda", NULL};
    weft_staged_info staged = {.size = sizeof staged};
    (void)state;
    fleet *f = start(FLEET_SMALL, overrides, NULL, &far_cuda_0);
    fleet_join(f, 0, FLEET_SAME);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    uint8_t *before = test_malloc(f->bytes), *after = test_malloc(f->bytes);
    fleet_model_get(&f->rollouts[0].model, before);
    fleet_publish(f, 400);
    weft_session *rollout = f->rollouts[0].session;
    assert_int_equal(weft_staged(rollout, FLEET_WAIT_MS, &staged), WEFT_OK);
    assert_int_equal(weft_commit(rollout, staged.target.number, NULL, WEFT_COMMIT_HOLD, NULL), WEFT_OK);
    fleet_model_get(&f->rollouts[0].model, after);
    assert_memory_equal(after, f->dense, f->bytes);
    assert_int_equal(weft_settle(rollout, WEFT_SETTLE_UNDO, NULL, NULL), WEFT_OK);
    fleet_model_get(&f->rollouts[0].model, after);
    assert_memory_equal(before, after, f->bytes);
    fleet_catch_up(f, 0);
    test_free(before);
    test_free(after);
    far_fleet_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cuda_to_hip), cmocka_unit_test(hip_to_cuda),
                                       cmocka_unit_test(a_held_commit_is_undone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
