/* Slabs, from which buckets of snapshots go, all come back: one that is lost is missed at no time but by the last peer.
 */
#include "tests/support/fleet.h"

#include "peer/peer.h"

static int setup(void **state)
{
    static const char *const overrides[] = {"trainer.journal=16MiB", "peers.window=8", NULL}; /* slabs are few */
    *state = fleet_open(FLEET_LARGE, overrides);
    fleet_start_trainer(*state, NULL);
    return 0;
}

static int teardown(void **state)
{
    fleet_close(*state);
    return 0;
}

static bool all_are_free(fleet *f)
{
    weft_session *session = f->trainer.session;
    const weft_slabs *slabs = &session->trainer->buffers.slabs;
    pthread_mutex_lock(&session->lock);
    bool all = slabs->free_count == slabs->count;
    pthread_mutex_unlock(&session->lock);
    return all;
}

static void wait_all_free(fleet *f)
{
    for (const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS; !all_are_free(f); fleet_sleep_ms(2))
        assert_true(fleet_now_ms() < end);
}

static void after_a_snapshot(void **state)
{
    fleet *f = *state;
    assert_true(all_are_free(f));
    for (unsigned at = 0; at < FLEET_ROLLOUTS; at++)
        fleet_join(f, at, at ? FLEET_EMPTY : FLEET_OTHER);
    for (unsigned at = 0; at < FLEET_ROLLOUTS; at++)
        fleet_catch_up(f, at);
    assert_true(fleet_stats(f->trainer.session).snapshot_bytes > 0);
    wait_all_free(f);
    assert_true(f->trainer.session->trainer->buffers.slabs.turn > 0);
}

static void after_a_peer_is_lost(void **state)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    weft_peer_info line;
    for (int round = 0; round < 3; round++) {
        fleet_open_rollout(f, 0, "commit.snapshot=staged"); /* it is received beside what the caller does */
        fleet_bind_rollout(f, 0, FLEET_EMPTY, NULL);
        do /* a slow machine needs more than one turn until the trainer knows the rollout */
            weft_staged(f->rollouts[0].session, 5, &staged);
        while (!fleet_peer(f, "a", &line));
        fleet_leave(f, 0);
        fleet_wait_state(f, "a", WEFT_PEER_LOST, FLEET_WAIT_MS);
        wait_all_free(f);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(after_a_snapshot), TEST(after_a_peer_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
