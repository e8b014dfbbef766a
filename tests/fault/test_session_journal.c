/* A bounded journal: publish waits for no peer. An update that the journal or a peer's staging cannot hold comes as a
 * snapshot. */
#include <string.h>

#include "tests/support/fleet.h"

/* Large models and a journal of 16 MiB: c never commits and falls back; a goes on with every version. */
static const fleet_kind large_fleet = {FLEET_LARGE, .starts = true, .overrides = FLEET_WITH("peers.staging=32MiB")};

static void one_that_never_commits(void **state)
{
    fleet *f = *state;
    weft_peer_info info;
    for (unsigned at = 0; at < 2; at++) {
        fleet_join(f, at, FLEET_SAME);
        fleet_catch_up(f, at);
    }
    for (int i = 0; i < 4; i++) { /* the journal holds two of them */
        fleet_publish(f, 1000);
        fleet_catch_up(f, 0);
        assert_true(fleet_stats(f->trainer.session).journal_bytes <= 16u << 20);
    }
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, "b", 0, NULL));
    fleet_check_bytes(f, 1, f->history[0].dense);
    fleet_catch_up(f, 1);
    assert_true(fleet_peer(f, "b", &info));
    assert_true(info.snapshot_bytes > 0);
    assert_true(fleet_peer(f, "a", &info));
    assert_int_equal(info.snapshot_bytes, 0);
    fleet_publish(f, 5);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
    fleet_check_bytes(f, 1, f->dense);
}

/* An update larger than the journal goes out as a snapshot, and the next is an update again. */
static void snapshot_only(void **state)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_publish(f, 1000);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    assert_int_equal(staged.kind, WEFT_STAGED_SNAPSHOT);
    fleet_catch_up(f, 0);
    fleet_publish(f, 2);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    assert_int_equal(staged.kind, WEFT_STAGED_UPDATE);
    fleet_catch_up(f, 0);
}

#define LEVELS "peers.staging=64MiB", "peer.b.level=pairs", "peer.c.level=full"

/* Every level that connected peers want is kept: three copies of a dense update are more than 16 MiB. */
static const fleet_kind levels_fleet = {FLEET_LARGE, .starts = true, .overrides = FLEET_WITH(LEVELS)};

static void snapshot_only_for_its_levels(void **state)
{
    fleet_join(*state, 1, FLEET_SAME);
    fleet_join(*state, 2, FLEET_SAME);
    fleet_wait_state(*state, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fleet_wait_state(*state, "c", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    snapshot_only(state);
}

static unsigned warned;

static void count_warnings(void *f, weft_log_level level, const char *line)
{
    (void)f;
    warned += level == WEFT_LOG_WARN && strstr(line, "does not fit the journal") != NULL;
}

static void warns(fleet *f)
{
    f->heard = count_warnings;
}

static const fleet_kind warned_fleet = {FLEET_LARGE, .starts = true, .overrides = FLEET_WITH(LEVELS), .open = warns};

/* The journal's size is named once, and again for an update that needs yet more. */
static void warned_of_larger_ones(void **state)
{
    static const struct {
        uint32_t per_mille;
        unsigned warned;
    } rows[] = {{600, 1}, {600, 1}, {1000, 2}, {600, 2}};
    fleet *f = *state;
    warned = 0;
    fleet_join(f, 1, FLEET_SAME);
    fleet_join(f, 2, FLEET_SAME);
    fleet_wait_state(f, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fleet_wait_state(f, "c", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_event event;
        fleet_publish(f, rows[i].per_mille);
        while (fleet_event(f->trainer.session, WEFT_EVENT_RAIL, NULL, 0, &event)) /* hands the lines out */
            ;
        assert_int_equal(warned, rows[i].warned);
        fleet_catch_up(f, 1);
        fleet_catch_up(f, 2);
    }
}

/* A rollout's staging decides, not the journal alone. */
static const fleet_kind staging_fleet = {FLEET_LARGE, .starts = true,
                                         .overrides = FLEET_WITH("peers.staging=4MiB", "peers.encoded=0MiB")};

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(one_that_never_commits, large_fleet),
        FLEET_TEST(snapshot_only_for_its_levels, levels_fleet),
        FLEET_TEST(snapshot_only, staging_fleet),
        FLEET_TEST(warned_of_larger_ones, warned_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
