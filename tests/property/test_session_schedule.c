/* A random schedule of publishes, joins, leaves, faults, commits and rebinds: after every commit a rollout's bytes are
 * those of a published version and of nothing else, and at the end all are equal. */
#include "tests/support/fleet.h"

#include <stdlib.h>

#define ROLLOUTS 3
#define STEPS    240

static const char *const overrides[] = {"session.io_deadline=250ms", "commit.deadline=300ms",     "peer.b.level=pairs",
                                        "peer.c.level=full",         "provider.loop.chunk=64KiB", NULL};

static const fleet_kind plain_fleet = {FLEET_TILES, .overrides = overrides};

static const fleet_kind small_fleet = {FLEET_SMALL, .overrides = overrides};

static void publish(fleet *f, uint64_t *seed)
{
    static const uint32_t densities[] = {0, 1, 10, 100, 1000};
    fleet_publish(f, densities[fleet_below(seed, 5)]);
}

/* Joins with the newest bits, older ones, unknown ones or none. */
static void join(fleet *f, unsigned at, uint64_t *seed)
{
    static const char *const modes[] = {"commit.snapshot=in_place", "commit.snapshot=staged"};
    fleet_open_rollout(f, at, modes[fleet_below(seed, 2)]);
    fleet_bind_rollout(f, at, (fleet_start)fleet_below(seed, 3), NULL);
}

/* The engine moves its weights: new addresses, the same bits. A staged version forbids it. */
static void rebind(fleet *f, unsigned at, uint64_t *seed)
{
    fleet_end *end = &f->rollouts[at];
    fleet_model fresh;
    weft_version held;
    if (weft_held(end->session, &held) != WEFT_OK)
        return;
    fleet_model_open(&fresh, f->layout, (unsigned)fleet_below(seed, 100));
    fleet_model_get(&end->model, f->scratch_dense);
    fleet_model_put(&fresh, f->scratch_dense);
    weft_status status = weft_bind(end->session, fresh.pieces, fresh.piece_count, NULL, 0, 0);
    if (status == WEFT_OK) {
        fleet_model_close(&end->model);
        end->model = fresh;
        return;
    }
    fleet_model_close(&fresh);
    assert_int_equal(status, WEFT_E_STATE);
}

static void faults(uint64_t *seed)
{
    uint64_t n = 1 + fleet_below(seed, 12);
    const weft_loop_faults all[] = {{.seed = n, .corrupt_every = n},
                                    {.drop_at = n},
                                    {.duplicate_every = n},
                                    {.seed = n, .reorder_window = (uint32_t)n},
                                    {.fail_every = n + 3},
                                    {.again_every = n + 1},
                                    {.break_at = n},
                                    {.seed = n, .corrupt_at = n, .reorder_window = 4}};
    weft_loop_set_faults(fleet_below(seed, 2) ? NULL : &all[fleet_below(seed, sizeof all / sizeof all[0])]);
}

static void step(fleet *f, uint64_t *seed)
{
    unsigned at = (unsigned)fleet_below(seed, ROLLOUTS);
    bool here = f->rollouts[at].session != NULL;
    uint64_t what = fleet_below(seed, 20);
    if (what < 5)
        publish(f, seed);
    else if (!here && what < 16)
        join(f, at, seed);
    else if (what < 15 && here)
        fleet_commit(f, at, 40); /* checks the bytes if it says OK */
    else if (what < 17 && here)
        rebind(f, at, seed);
    else if (what == 17 && here)
        fleet_leave(f, at);
    else
        faults(seed);
}

static void run(fleet *f, uint64_t seed)
{
    print_message("seed %llu\n", (unsigned long long)seed);
    fleet_start_trainer(f, NULL);
    for (int i = 0; i < STEPS; i++)
        step(f, &seed);
    weft_loop_set_faults(NULL);
    for (unsigned at = 0; at < ROLLOUTS; at++) {
        if (!f->rollouts[at].session)
            join(f, at, &seed);
        fleet_catch_up(f, at);
        fleet_check_bytes(f, at, f->dense);
        assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
    }
    assert_int_equal(weft_wait(f->trainer.session, f->newest, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
}

static void several_tiles(void **state)
{
    const char *given = getenv("WEFT_SEED");
    run(*state, given ? strtoull(given, NULL, 0) : 1);
}

static void packs_alone(void **state)
{
    run(*state, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(several_tiles, plain_fleet),
        FLEET_TEST(packs_alone, small_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
