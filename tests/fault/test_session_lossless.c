/* Whole sessions: after every commit the rollouts have the trainer's bits, whatever bits, by every level. */
#include "tests/support/fleet.h"

#include <string.h>

static const fleet_kind plain_fleet = {
    FLEET_TILES, .starts = true,
    .overrides = FLEET_WITH("peer.a.level=fast", "peer.b.level=pairs", "peer.c.level=full", "peer.x*.level=tight")};

static void join_all(fleet *f)
{
    for (unsigned at = 0; at < FLEET_ROLLOUTS; at++)
        fleet_join(f, at, FLEET_SAME);
    for (unsigned at = 0; at < FLEET_ROLLOUTS; at++)
        fleet_catch_up(f, at);
}

static void publish_to_all(fleet *f, uint32_t per_mille)
{
    fleet_publish(f, per_mille);
    for (unsigned at = 0; at < FLEET_ROLLOUTS; at++) {
        fleet_catch_up(f, at);
        fleet_check_bytes(f, at, f->dense);
    }
    assert_int_equal(weft_wait(f->trainer.session, f->newest, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
}

static void sparse_dense_and_nothing(void **state)
{
    static const uint32_t densities[] = {1, 0, 30, 1000, 0, 400, 5};
    fleet *f = *state;
    join_all(f);
    for (size_t i = 0; i < sizeof densities / sizeof densities[0]; i++)
        publish_to_all(f, densities[i]);
}

/* One element of each tensor, then back again: A, B, A are three versions, two of them with equal bits. */
static void there_and_back(void **state)
{
    fleet *f = *state;
    uint8_t *before = test_malloc(f->bytes);
    memcpy(before, f->dense, f->bytes);
    join_all(f);
    publish_to_all(f, 10);
    memcpy(f->dense, before, f->bytes);
    test_free(before);
    publish_to_all(f, 0);
    assert_true(f->history[0].root == f->history[2].root);
    assert_true(f->history[0].root != f->history[1].root);
}

/* The sign of zero and the payload of a NaN alone. */
static void single_bits(void **state)
{
    fleet *f = *state;
    uint8_t zero[4] = {0, 0, 0, 0}, nan[4] = {1, 0, 0xc0, 0x7f};
    uint64_t scalar = fleet_tensor_at(f->layout, "scalar"), single = fleet_tensor_at(f->layout, "single");
    memcpy(f->dense + scalar, zero, 4);
    memcpy(f->dense + single, nan, 4);
    fleet_publish_dense(f, NULL);
    join_all(f);
    f->dense[scalar + 3] = 0x80;
    publish_to_all(f, 0);
    f->dense[single] = 2;
    publish_to_all(f, 0);
    assert_true(f->history[f->history_count - 1].root != f->history[f->history_count - 2].root);
}

/* Two versions are under way at once; the rollout takes them one after the other. */
static void versions_queue_up(void **state)
{
    fleet *f = *state;
    join_all(f);
    for (int i = 0; i < 6; i++)
        fleet_publish(f, 20);
    for (unsigned at = 0; at < FLEET_ROLLOUTS; at++)
        fleet_catch_up(f, at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(sparse_dense_and_nothing, plain_fleet),
        FLEET_TEST(there_and_back, plain_fleet),
        FLEET_TEST(single_bits, plain_fleet),
        FLEET_TEST(versions_queue_up, plain_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
