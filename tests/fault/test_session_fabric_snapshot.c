/* Snapshots over a faulty fabric: they break off and begin again, until the bits are the trainer's. */
#include "tests/support/fleet.h"

static const char *const overrides[] = {"session.io_deadline=300ms", "peers.heartbeat=3s", "commit.deadline=400ms",
                                        "provider.loop.chunk=64KiB", NULL};

static const fleet_kind plain_fleet = {FLEET_TILES, .overrides = overrides};

/* Snapshots break off the same way, in place and staged; in place the rollout says that it holds nothing. */
static void snapshot_faults(fleet *f, const char *mode)
{
    static const weft_loop_faults faults[] = {{.seed = 5, .corrupt_at = 4}, {.drop_at = 5},
                                              {.duplicate_at = 3},          {.fail_at = 6},
                                              {.stall_after = 3},           {.reorder_window = 6}};
    fleet_start_trainer(f, NULL);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        weft_loop_set_faults(&faults[i]);
        fleet_open_rollout(f, 0, mode);
        fleet_bind_rollout(f, 0, FLEET_OTHER, NULL);
        if (faults[i].stall_after) {
            weft_status status = WEFT_AGAIN;
            for (uint64_t end = fleet_now_ms() + 800; status == WEFT_AGAIN && fleet_now_ms() < end;)
                status = fleet_commit(f, 0, 100);
            assert_int_not_equal(status, WEFT_OK);
            weft_loop_set_faults(NULL);
        }
        fleet_catch_up(f, 0);
        fleet_leave(f, 0);
    }
}

static void snapshot_in_place(void **state)
{
    snapshot_faults(*state, "commit.snapshot=in_place");
}

static void snapshot_staged(void **state)
{
    snapshot_faults(*state, "commit.snapshot=staged");
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(snapshot_in_place), TEST(snapshot_staged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
