/* Seeded schedules of rails that fail, one at a time, in every way and at any moment, under updates and snapshots. The
 * other rails refuse a write now and then. In every round each rollout has the bits of the version that it reports, no
 * peer is lost because of a rail, and every rail is used again. At the end all have the trainer's bits.
 *
 * WEFT_SEED=N plays one seed; WEFT_SEEDS=N plays N seeds. */
#include "tests/support/sim_tick.h"

#include <stdlib.h>
#include <string.h>

#define SEEDS      6u
#define SEEDS_FULL 60u
#define RAILS      3u
#define TROUBLES   12u

/* Chooses where a snapshot goes. Only the first rollout takes its snapshot in place, because a rollout that waits while
 * another one does is silent meanwhile. */
static const char *snapshot_of(sim *s, const sim_end *end)
{
    return end == &s->rollouts[0] && sim_below(s, 2) ? "commit.snapshot=in_place" : "commit.snapshot=staged";
}

static void rail_name(unsigned rail, char name[8])
{
    snprintf(name, 8, "r%u", rail);
}

static void set_rail(unsigned rail, const weft_loop_faults *faults)
{
    char name[8];
    rail_name(rail, name);
    weft_loop_set_rail(name, faults);
}

static weft_loop_faults some_faults(sim *s)
{
    const uint64_t n = 1 + sim_below(s, 24);
    const uint32_t window = (uint32_t)sim_below(s, 4);
    const weft_loop_faults all[] = {{.fail_at = n},    {.fail_every = n},
                                    {.break_at = n},   {.stall_after = n},
                                    {.drop_at = n},    {.drop_every = n},
                                    {.drop_every = 1}, {.again_every = 1},
                                    {.fail_every = 1}, {.again_every = n + 1, .drop_at = n + 3}};
    weft_loop_faults faults = all[sim_below(s, sizeof all / sizeof *all)];
    faults.seed = s->seed;
    faults.reorder_window = window;
    return faults;
}

/* One rail is in trouble, and the others take not every write at once. */
static void trouble(sim *s, unsigned rail)
{
    const weft_loop_faults faults = some_faults(s);
    set_rail(rail, &faults);
    for (unsigned other = 0; other < RAILS; other++) {
        const weft_loop_faults shy = {.again_every = 2 + sim_below(s, 2)};
        if (other != rail)
            set_rail(other, &shy);
    }
}

static void mend(void)
{
    for (unsigned rail = 0; rail < RAILS; rail++)
        set_rail(rail, NULL);
}

static void act(sim *s)
{
    const uint64_t what = sim_below(s, 200);
    if (what < 4 && s->history_count + 40 < FLEET_HISTORY)
        sim_publish(s, what == 0 ? 1000 : 100);
    if (what != 4)
        return;
    sim_end *end = &s->rollouts[sim_below(s, s->rollout_count)];
    char name[32];
    snprintf(name, sizeof name, "%s", end->name);
    if (!sim_awake(s, end))
        return;
    sim_leave(s, end); /* and comes back with nothing: a snapshot */
    sim_join(s, end, name, sim_below(s, 2) ? NULL : s->history[sim_below(s, s->history_count)].dense,
             snapshot_of(s, end));
}

static bool all_up(sim *s)
{
    bool up = true;
    for (unsigned i = 0; i < s->rollout_count && up; i++) {
        weft_peer_info info;
        up = s->rollouts[i].session && sim_peer(s, s->rollouts[i].name, &info) && info.rail_count == RAILS;
        for (unsigned rail = 0; up && rail < RAILS; rail++)
            up = info.rails[rail].up == info.rails[rail].connections && info.rails[rail].up > 0;
    }
    return up;
}

static void recover(sim *s)
{
    for (unsigned left = 5000; !all_up(s); left--) {
        if (left == 0)
            fleet_fail("a rail that was mended is not used again");
        sim_round(s);
    }
}

static uint64_t lost(const sim *s)
{
    weft_stats_info stats = {.size = sizeof stats};
    weft_stats(s->trainer.session, &stats);
    return stats.peers_lost;
}

static uint64_t failures(const sim *s)
{
    weft_stats_info stats = {.size = sizeof stats};
    weft_stats(s->trainer.session, &stats);
    uint64_t sum = 0;
    for (unsigned rail = 0; rail < stats.rail_count; rail++)
        sum += stats.rails[rail].failures;
    return sum;
}

/* Returns how many rails failed. */
static uint64_t run(uint64_t seed, fleet_size size)
{
    static const char *const streams[] = {"peers.streams=1", "peers.streams=2"};
    static const char *const names[] = {"fast0", "tight0", "full0"};
    sim *s = sim_open(size, 1 + (unsigned)(seed % 3), seed);
    s->overrides[0] = "trainer.address=r0,r1,r2";
    s->overrides[1] = "peers.address=r0,r1,r2";
    s->overrides[2] = streams[seed % 2];
    s->overrides[3] = "peer.fast*.max_lag=none";
    sim_start_trainer(s);
    for (unsigned i = 0; i < s->rollout_count; i++)
        sim_join(s, &s->rollouts[i], names[i], sim_below(s, 2) ? NULL : s->dense, snapshot_of(s, &s->rollouts[i]));
    recover(s);
    s->act = act;
    for (unsigned i = 0; i < TROUBLES; i++) {
        trouble(s, (unsigned)sim_below(s, RAILS));
        sim_rounds(s, 1 + sim_below(s, 400));
        mend();
        recover(s);
        if (lost(s))
            fleet_fail("a peer was lost though two of its rails were well");
    }
    s->act = NULL;
    sim_settle(s, 20000);
    const uint64_t failed = failures(s);
    sim_close(s);
    return failed;
}

/* An end stops for less than a heartbeat, often in the middle of a join: its rails are as well as they were. */
static void stop_one(sim *s)
{
    sim_end *end = &s->rollouts[sim_below(s, s->rollout_count)];
    char name[32];
    snprintf(name, sizeof name, "%s", end->name);
    if (sim_below(s, 2)) {
        sim_leave(s, end);
        sim_join(s, end, name, s->dense, "commit.snapshot=staged");
    } else {
        sim_publish(s, 100);
    }
    if (sim_below(s, 4) == 0)
        end = &s->trainer;
    sim_rounds(s, sim_below(s, 12));
    if (sim_awake(s, end))
        sim_stop(s, end, SIM_IO_MS / 4 + sim_below(s, SIM_IO_MS / 4));
    sim_rounds(s, SIM_IO_MS / 2);
}

static void run_stops(uint64_t seed)
{
    static const char *const streams[] = {"peers.streams=1", "peers.streams=2"};
    sim *s = sim_open(FLEET_TILES, 2, seed);
    s->time.now_ns = 60000 * WEFT_NS_PER_MS;
    s->overrides[0] = "trainer.address=r0,r1,r2";
    s->overrides[1] = "peers.address=r0,r1,r2";
    s->overrides[2] = streams[seed % 2];
    s->overrides[3] = "peer.fast*.max_lag=none";
    sim_start_trainer(s);
    for (unsigned i = 0; i < 2; i++)
        sim_join(s, &s->rollouts[i], i ? "tight0" : "fast0", sim_below(s, 2) ? NULL : s->dense,
                 "commit.snapshot=staged");
    for (unsigned i = 0; i < 40; i++) {
        stop_one(s);
        if (lost(s))
            fleet_fail("a peer was lost that only stopped");
        if (failures(s))
            fleet_fail("a rail failed that nothing happened to");
    }
    recover(s);
    sim_settle(s, 20000);
    sim_close(s);
}

/* ---- one that never comes back */

static const weft_rail *rail_of(const sim *s, const char *name, unsigned rail)
{
    return &sim_record(s, name)->sender.rails.list[rail];
}

/* Twice as long each time it fails, up to sixteen times the first; from the first again once it was up for long. */
static void the_pause_of_one_that_keeps_failing(void **state)
{
    (void)state;
    const weft_loop_faults dead = {.fail_every = 1};
    const uint64_t first_ns = SIM_IO_MS * WEFT_NS_PER_MS / 4;
    sim *s = sim_open(FLEET_TILES, 1, 1);
    s->overrides[0] = "trainer.address=r0,r1,r2";
    s->overrides[1] = "peers.address=r0,r1,r2";
    sim_start_trainer(s);
    sim_join(s, &s->rollouts[0], "fast0", s->dense, "commit.snapshot=staged");
    recover(s);
    for (int again = 0; again < 2; again++) {
        uint64_t pause_ns = 0, begun_ms = sim_ms(s), most_ms = 80 * SIM_IO_MS;
        while (sim_ms(s) < begun_ms + most_ms) /* up for longer than four times the longest pause */
            sim_tick(s);
        set_rail(1, &dead);
        sim_publish(s, 500);
        while (rail_of(s, "fast0", 1)->state == WEFT_RAIL_UP)
            sim_round(s);
        pause_ns = rail_of(s, "fast0", 1)->cool_ns;
        assert_int_equal(pause_ns, first_ns);
        for (unsigned doubled = 1; doubled <= 4; doubled++) {
            begun_ms = sim_ms(s);
            while (rail_of(s, "fast0", 1)->cool_ns == pause_ns) {
                if (sim_ms(s) > begun_ms + most_ms)
                    fleet_fail("the pause stays at %llu ms", (unsigned long long)(pause_ns / WEFT_NS_PER_MS));
                sim_tick(s);
            }
            pause_ns = rail_of(s, "fast0", 1)->cool_ns;
            assert_int_equal(pause_ns, first_ns << doubled);
        }
        begun_ms = sim_ms(s);
        while (sim_ms(s) < begun_ms + most_ms)
            sim_tick(s);
        assert_int_equal(rail_of(s, "fast0", 1)->cool_ns, pause_ns); /* and no longer than that */
        mend();
        recover(s);
    }
    sim_settle(s, 20000);
    assert_int_equal(lost(s), 0);
    sim_close(s);
}

static void of_ends_that_stop(void **state)
{
    (void)state;
    const char *one = getenv("WEFT_SEED");
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_stops(one ? strtoull(one, NULL, 0) : seed);
}

static void run_all(fleet_size size, uint64_t first)
{
    const char *one = getenv("WEFT_SEED"), *count = getenv("WEFT_SEEDS");
    const char *full = getenv("WEFT_FULL");
    uint64_t seeds = count ? strtoull(count, NULL, 0) : full && *full ? SEEDS_FULL : SEEDS, failed = 0;
    if (one) {
        run(strtoull(one, NULL, 0), size);
        return;
    }
    for (uint64_t seed = first; seed < first + seeds; seed++)
        failed += run(seed, size);
    assert_true(2 * failed > seeds); /* of few units most writes meet no trouble */
}

static void of_a_few_units(void **state)
{
    (void)state;
    run_all(FLEET_SMALL, 1);
}

static void of_several_tiles(void **state)
{
    (void)state;
    run_all(FLEET_TILES, 1005);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_few_units),
        cmocka_unit_test(of_several_tiles),
        cmocka_unit_test(of_ends_that_stop),
        cmocka_unit_test(the_pause_of_one_that_keeps_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
