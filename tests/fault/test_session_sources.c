/* A rollout of several sources: what is missing or there twice is named at open, the weights move when all sources have
 * the number, all of them or none, and a source that is away is named once while the rollout serves on. */
#include "tests/support/source_world.h"

#include <stdlib.h>
#include <string.h>

#include "joint/joint.h"
#include "tests/support/deferred.h"

#define MOST 4000u /* rounds until something that must happen has happened */

static source_world w;

/* The first source takes one turn of so many. */
static unsigned slower = 1;

static void turns(source_world *world)
{
    world->rounds++;
    for (unsigned i = 0; i < world->source_count; i++)
        if (world->sources[i].session && (i > 0 || world->rounds % slower == 0))
            source_step(world, world->sources[i].session);
    for (unsigned i = 0; i < world->rank_count; i++)
        if (world->ranks[i].session && !world->ranks[i].blocked)
            source_step(world, world->ranks[i].session);
}

static void round_of(void)
{
    w.now_ns += WEFT_NS_PER_MS;
    turns(&w);
}

static int setup(void **state)
{
    (void)state;
    source_world_open(&w, 7);
    w.turn = turns;
    source_run_whole(&w, 3, 5);
    w.rank_count = 1;
    return 0;
}

/* Every source and every rank has the tensors in an order of its own. */
static int setup_orders(void **state)
{
    const int code = setup(state);
    source_run_end(&w);
    source_shuffle(&w);
    source_run_whole(&w, 3, 5);
    return code;
}

static int teardown(void **state)
{
    (void)state;
    source_world_close(&w);
    return 0;
}

/* The backend of all has queued commits. */
static int setup_queue(void **state)
{
    deferred_lend_queue();
    return setup(state);
}

static int teardown_queue(void **state)
{
    const int code = teardown(state);
    weft_backend_lend(NULL);
    return code;
}

static weft_session *rank_session(void)
{
    return w.ranks[0].session;
}

/* Opens the rank with the bits of the newest version, and waits until it knows that. */
static void join_same(bool named)
{
    weft_version held;
    w.ranks[0].named = named;
    source_rank_join(&w, 0, NULL, w.dense);
    for (unsigned i = 0; i < MOST && (weft_held(rank_session(), &held) != WEFT_OK || held.run != w.run); i++)
        round_of();
    assert_int_equal(weft_held(rank_session(), &held), WEFT_OK);
    assert_int_equal(held.number, w.newest);
}

static bool is_staged(uint64_t number)
{
    weft_staged_info info = {.size = sizeof info};
    return weft_staged(rank_session(), 0, &info) == WEFT_OK && info.target.number == number;
}

static void wait_staged(uint64_t number)
{
    for (unsigned i = 0; i < MOST && !is_staged(number); i++)
        round_of();
    assert_true(is_staged(number));
}

static void go_all(uint64_t number)
{
    for (unsigned i = 0; i < w.source_count; i++)
        source_go_to(&w, &w.sources[i], number);
}

static uint64_t held_number(void)
{
    weft_version held;
    return weft_held(rank_session(), &held) == WEFT_OK ? held.number : UINT64_MAX;
}

/* ---- open */

static weft_status open_with(const char *name, const weft_trainer_source *sources, uint32_t count)
{
    weft_session *session = NULL;
    weft_site *site = NULL;
    weft_options options = {.size = sizeof options, .sources = sources, .source_count = count};
    assert_int_equal(weft_site_load(w.scratch.path, NULL, 0, &site), WEFT_OK);
    const weft_status status = weft_rollout_open(site, name, w.layout, &options, &session);
    weft_site_free(site);
    weft_close(session);
    return status;
}

static void what_does_not_cover_is_refused(void **state)
{
    weft_trainer_source sources[SOURCES];
    weft_slice slices[SLICES];
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        sources[i] = (weft_trainer_source){w.sources[i].listen, w.sources[i].has.slices, w.sources[i].has.count};
    assert_int_equal(open_with("rank0", sources, 3), WEFT_OK);
    assert_int_equal(open_with("rank0", sources, 2), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "no source"));
    sources[3] = sources[1];
    assert_int_equal(open_with("rank0", sources, 4), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "sources 1 and 3 both contribute"));
    memcpy(slices, sources[0].slices, sources[0].slice_count * sizeof *slices);
    slices[0].row += 1u << 20;
    sources[0].slices = slices;
    assert_int_equal(open_with("rank0", sources, 3), WEFT_E_LAYOUT);
    sources[0].address = NULL;
    assert_int_equal(open_with("rank0", sources, 3), WEFT_E_ARGUMENT);
    assert_int_equal(open_with("rank0", sources, WEFT_SOURCES_MAX + 1), WEFT_E_ARGUMENT);
}

static void no_attachment(void **state)
{
    const weft_publish_options options = {sizeof options, "x", 1};
    (void)state;
    assert_int_equal(weft_publish(w.sources[0].session, 6, NULL, &options, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(weft_bind_blocks(w.sources[0].session, NULL, 0, "x", 1, 0), WEFT_E_ARGUMENT);
    join_same(false);
    assert_int_equal(weft_bind_blocks(rank_session(), NULL, 0, "x", 1, 0), WEFT_E_ARGUMENT);
}

/* ---- together */

static void all_sources_or_none(void **state)
{
    weft_version held;
    (void)state;
    join_same(false);
    source_publish(&w, 100);
    source_go_to(&w, &w.sources[0], 6);
    source_go_to(&w, &w.sources[2], 6);
    for (unsigned i = 0; i < 300; i++)
        round_of();
    assert_false(is_staged(6)); /* the second has not published yet */
    source_go_to(&w, &w.sources[1], 6);
    wait_staged(6);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, &held), WEFT_OK);
    assert_int_equal(held.number, 6);
    source_check(&w, &w.ranks[0]);
}

/* Somebody else writes a weight of the last end after staging: what the ends before it moved is undone. */
static void a_failure_of_one_undoes_all(void **state)
{
    const weft_joint *joint = NULL;
    rank *r = &w.ranks[0];
    (void)state;
    join_same(false);
    joint = rank_session()->joint;
    const uint8_t *old = source_find(&w, w.run, 5)->dense;
    source_publish(&w, 300);
    go_all(6);
    wait_staged(6);
    const weft_changes *changes = weft_staging_at(&joint->ends[joint->count - 1]->stage.staging, 0);
    uint8_t *weight = weft_binding_view(&joint->ends[joint->count - 1]->current.weights, changes->unit).runs[0].data;
    for (unsigned i = 0; i < 64; i++)
        weight[i] ^= 1;
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_E_BASE);
    for (unsigned i = 0; i < 64; i++)
        weight[i] ^= 1;
    assert_int_equal(held_number(), 5);
    assert_true(part_has(&w, &r->has, old));
    wait_staged(6); /* the end that failed gets the version again */
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_OK);
    source_check(&w, r);
}

static weft_stats_info stats_now(void)
{
    weft_stats_info stats = {.size = sizeof stats};
    assert_int_equal(weft_stats(rank_session(), &stats), WEFT_OK);
    return stats;
}

static uint8_t *hand_at; /* where the other hand wrote */

static void other_hand_again(void)
{
    for (unsigned i = 0; i < 64; i++)
        hand_at[i] ^= 1;
}

static void other_hand(void)
{
    const weft_joint *joint = rank_session()->joint;
    weft_rollout *last = joint->ends[joint->count - 1];
    const weft_changes *changes = weft_staging_at(&last->stage.staging, 0);
    hand_at = weft_binding_view(&last->current.weights, changes->unit).runs[0].data;
    other_hand_again();
}

/* Commits what comes until the weights are the version. */
static void come_to(uint64_t number)
{
    for (unsigned i = 0; i < MOST && held_number() != number; i++) {
        weft_staged_info info = {.size = sizeof info};
        round_of();
        if (weft_staged(rank_session(), 0, &info) == WEFT_OK)
            assert_int_equal(weft_commit(rank_session(), info.target.number, NULL, 0, NULL), WEFT_OK);
    }
    assert_int_equal(held_number(), number);
    source_check(&w, &w.ranks[0]);
}

/* A weight rots in one end while all of them stage the next version. The commit finds that, and the end is repaired to
 * the version that the others hold, and comes to the next one with them. */
static void a_rotten_end_is_repaired(bool named)
{
    join_same(named);
    source_publish(&w, 300);
    go_all(6);
    if (named)
        assert_int_equal(weft_want(rank_session(), 6), WEFT_OK);
    wait_staged(6);
    other_hand();
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_E_BASE);
    come_to(6);
}

static void rot_is_repaired(void **state)
{
    (void)state;
    a_rotten_end_is_repaired(false);
}

static void rot_is_repaired_by_name(void **state)
{
    (void)state;
    a_rotten_end_is_repaired(true);
}

/* The repair stays staged for a caller that takes its time, and the next version comes after that. */
static void a_repair_waits_for_the_caller(void **state)
{
    weft_staged_info info = {.size = sizeof info};
    (void)state;
    join_same(false);
    source_publish(&w, 300);
    go_all(6);
    wait_staged(6);
    other_hand();
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_E_BASE);
    wait_staged(5);
    for (unsigned i = 0; i < 300; i++) {
        round_of();
        assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_OK);
        assert_int_equal(info.target.number, 5);
    }
    come_to(6);
}

/* A scrub that finds rot takes the version's name away before it returns, also where the next version is staged. */
static void rot_has_no_name(bool staged)
{
    weft_staged_info info = {.size = sizeof info};
    weft_version held;
    join_same(false);
    source_publish(&w, 300);
    if (staged)
        go_all(6);
    if (staged)
        wait_staged(6);
    const weft_joint *joint = rank_session()->joint;
    weft_binding_view(&joint->ends[joint->count - 1]->current.weights, 0).runs[0].data[0] ^= 1;
    assert_int_equal(weft_scrub(rank_session()), WEFT_E_BASE);
    for (unsigned i = 0; i < 300; i++) {
        if (weft_held(rank_session(), &held) == WEFT_OK)
            assert_int_equal(held.run, 0);
        round_of();
    }
    assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_OK);
    if (!staged)
        go_all(6);
    come_to(6);
}

static void rot_has_no_name_at_rest(void **state)
{
    (void)state;
    rot_has_no_name(false);
}

static void rot_has_no_name_beside_what_is_staged(void **state)
{
    (void)state;
    rot_has_no_name(true);
}

/* A scrub finds rot when HELLO has said already what the weights were. */
static void rot_is_repaired_at_a_join(void **state)
{
    (void)state;
    join_same(false);
    const weft_joint *joint = rank_session()->joint;
    weft_rollout *end = joint->ends[0];
    weft_join_again(end, "of this test");
    for (unsigned i = 0; i < MOST && end->joining.state != WEFT_JOIN_GREETING; i++)
        round_of();
    assert_int_equal(end->joining.state, WEFT_JOIN_GREETING);
    weft_binding_view(&end->current.weights, 0).runs[0].data[0] ^= 1;
    assert_int_equal(weft_scrub(rank_session()), WEFT_E_BASE);
    weft_staged_info info = {.size = sizeof info};
    for (unsigned i = 0; i < MOST && weft_staged(rank_session(), 0, &info) != WEFT_OK; i++)
        round_of();
    assert_int_equal(weft_commit(rank_session(), 5, NULL, 0, NULL), WEFT_OK);
    assert_int_equal(weft_scrub(rank_session()), WEFT_OK);
    source_check(&w, &w.ranks[0]);
}

static void hold_keeps_or_undoes_all(void **state)
{
    rank *r = &w.ranks[0];
    weft_version held;
    (void)state;
    join_same(true);
    source_publish(&w, 100);
    go_all(6);
    assert_int_equal(weft_want(rank_session(), 6), WEFT_OK);
    wait_staged(6);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, WEFT_COMMIT_HOLD, &held), WEFT_OK);
    assert_int_equal(held.number, 5);
    assert_true(part_has(&w, &r->has, source_find(&w, w.run, 6)->dense));
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_E_STATE);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_UNDO, NULL, &held), WEFT_OK);
    assert_true(part_has(&w, &r->has, source_find(&w, w.run, 5)->dense));
    assert_int_equal(held.number, 5);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, WEFT_COMMIT_HOLD, NULL), WEFT_OK);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, &held), WEFT_OK);
    assert_int_equal(held.number, 6);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, &held), WEFT_E_STATE);
}

static void queue_version(uint64_t number)
{
    weft_version held;
    source_publish(&w, 300);
    go_all(number);
    wait_staged(number);
    assert_int_equal(weft_commit(rank_session(), number, NULL, WEFT_COMMIT_QUEUE, &held), WEFT_OK);
    assert_int_equal(held.number, number - 1);
    assert_true(part_has(&w, &w.ranks[0].has, source_find(&w, w.run, number - 1)->dense));
    assert_int_equal(weft_commit(rank_session(), number, NULL, 0, NULL), WEFT_E_STATE);
}

static void a_queued_commit_moves_all_sources(void **state)
{
    rank *r = &w.ranks[0];
    weft_version held;
    (void)state;
    join_same(false);
    queue_version(6);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_UNDO, NULL, &held), WEFT_OK);
    assert_int_equal(held.number, 5);
    assert_true(part_has(&w, &r->has, source_find(&w, w.run, 5)->dense));
    assert_int_equal(weft_commit(rank_session(), 6, NULL, WEFT_COMMIT_QUEUE, NULL), WEFT_OK);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, &held), WEFT_OK);
    assert_int_equal(held.number, 6);
    source_check(&w, r);
    queue_version(7);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, &held), WEFT_OK);
    assert_int_equal(held.number, 7);
    source_check(&w, r);
}

/* Another hand writes weights of the last end: before the proof of all ends, or after the proof. */
static void a_queued_commit_moves_none(void **state)
{
    rank *r = &w.ranks[0];
    (void)state;
    join_same(false);
    for (uint64_t number = 6; number < 8; number++) {
        queue_version(number);
        if (number == 6)
            other_hand();
        else
            deferred_queue_between(other_hand);
        assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, NULL), WEFT_E_BASE);
        assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, NULL), WEFT_E_STATE);
        assert_int_equal(stats_now().undone, number - 5);
        const weft_joint *joint = rank_session()->joint;
        for (uint32_t i = 0; i < joint->count; i++) /* the last end failed, and no other is blamed */
            assert_int_equal(joint->ends[i]->joining.faults > 0, i == joint->count - 1);
        assert_int_equal(held_number(), number - 1);
        assert_false(part_has(&w, &r->has, source_find(&w, w.run, number - 1)->dense));
        other_hand_again();
        assert_true(part_has(&w, &r->has, source_find(&w, w.run, number - 1)->dense)); /* but for that */
        other_hand_again();
        come_to(number);
    }
}

/* A stream that is refused is one commit that was undone. All come to the version again. */
static void a_queue_that_is_refused(void **state)
{
    (void)state;
    join_same(false);
    source_publish(&w, 300);
    go_all(6);
    wait_staged(6);
    deferred_queue_fail(WEFT_E_ARGUMENT, false);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, WEFT_COMMIT_QUEUE, NULL), WEFT_E_ARGUMENT);
    assert_string_equal(weft_last_error(), "the deferred device says so");
    assert_int_equal(stats_now().undone, 1);
    source_check(&w, &w.ranks[0]);
    come_to(6);
}

/* Another job has lost the device before the commit is settled. Nobody knows what the weights are. */
static void the_device_is_lost_beside_a_queue(void **state)
{
    weft_version held;
    (void)state;
    join_same(false);
    queue_version(6);
    deferred_queue_fail(WEFT_E_DEVICE, true);
    rank_session()->ended = WEFT_E_DEVICE;
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, NULL), WEFT_E_DEVICE);
    assert_int_equal(weft_held(rank_session(), &held), WEFT_E_STATE);
    assert_int_equal(stats_now().undone, 0);
}

static void what_one_passes_over_is_told_once(void **state)
{
    weft_staged_info info = {.size = sizeof info};
    weft_status status = WEFT_AGAIN;
    (void)state;
    join_same(true);
    source_publish(&w, 100);
    source_publish(&w, 100);
    source_go_to(&w, &w.sources[0], 6);
    source_go_to(&w, &w.sources[1], 6);
    go_all(7); /* the third passes 6 over */
    assert_int_equal(weft_want(rank_session(), 6), WEFT_OK);
    for (unsigned i = 0; i < MOST && status == WEFT_AGAIN; i++) {
        round_of();
        status = weft_staged(rank_session(), 0, &info);
    }
    assert_int_equal(status, WEFT_E_PASSED);
    assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_AGAIN);
    assert_int_equal(weft_want(rank_session(), 7), WEFT_OK);
    wait_staged(7);
    assert_int_equal(weft_commit(rank_session(), 7, NULL, 0, NULL), WEFT_OK);
    source_check(&w, &w.ranks[0]);
}

/* A rollout that names no versions hears nothing of a number that one source passes over, and takes the next. */
static void a_gap_is_no_news_without_names(void **state)
{
    weft_staged_info info = {.size = sizeof info};
    (void)state;
    join_same(false);
    source_publish(&w, 100);
    source_publish(&w, 100);
    source_go_to(&w, &w.sources[0], 6);
    source_go_to(&w, &w.sources[1], 6);
    source_go_to(&w, &w.sources[2], 7); /* passes 6 over */
    for (unsigned i = 0; i < 500; i++) {
        round_of();
        assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_AGAIN);
    }
    source_go_to(&w, &w.sources[0], 7);
    source_go_to(&w, &w.sources[1], 7);
    wait_staged(7);
    assert_int_equal(weft_commit(rank_session(), 7, NULL, 0, NULL), WEFT_OK);
    source_check(&w, &w.ranks[0]);
    assert_int_equal(fleet_stats(rank_session()).versions, 1);
}

/* A commit that is held for long is told once, and not once for each source. */
static void a_long_hold_is_told_once(void **state)
{
    weft_event event = {.size = sizeof event};
    unsigned told = 0;
    (void)state;
    join_same(false);
    source_publish(&w, 300);
    go_all(6);
    wait_staged(6);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, WEFT_COMMIT_HOLD, NULL), WEFT_OK);
    for (unsigned i = 0; i < 1000; i++) {
        w.now_ns += WEFT_NS_PER_MS;
        for (unsigned s = 0; s < w.source_count; s++)
            source_step(&w, w.sources[s].session);
        source_must(&w, weft_progress(rank_session(), 0), "progress");
        while (weft_events(rank_session(), &event) == WEFT_OK)
            told += event.kind == WEFT_EVENT_UNSETTLED;
    }
    assert_int_equal(told, 1);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, NULL), WEFT_OK);
    assert_int_equal(held_number(), 6);
}

/* One source has a tenth of the others' turns, and versions come faster than it sends them. The numbers in between are
 * merged, and a version is no older at its commit than the newest of two commits before: one merge, and one transfer.
 */
static void a_slow_source_delays_by_one_merge_and_one_transfer(void **state)
{
    uint64_t newest_at[3] = {0}, merged = 0, commits = 0;
    (void)state;
    join_same(false);
    slower = 10;
    for (unsigned i = 0; i < 6000; i++) {
        weft_staged_info info = {.size = sizeof info};
        weft_version held;
        round_of();
        if (i % 4 == 0 && w.newest < 200) {
            source_publish(&w, 50);
            go_all(w.newest);
        }
        if (weft_staged(rank_session(), 0, &info) != WEFT_OK)
            continue;
        const uint64_t before = held_number();
        assert_int_equal(weft_commit(rank_session(), info.target.number, NULL, 0, &held), WEFT_OK);
        source_check(&w, &w.ranks[0]);
        assert_true(held.number >= newest_at[(commits + 1) % 3]);
        newest_at[commits % 3] = w.newest;
        merged += held.number - before > 1;
        commits++;
    }
    slower = 1;
    assert_true(commits >= 10 && merged >= commits / 2);
    assert_int_equal(held_number(), w.newest);
}

/* Forgets the oldest half of what was published. */
static void forget_half(void)
{
    const unsigned gone = w.history_count / 2;
    for (unsigned i = 0; i < gone; i++)
        free(w.history[i].dense);
    w.history_count -= gone;
    memmove(w.history, w.history + gone, w.history_count * sizeof *w.history);
}

/* Every turn has new versions, also while the rank's call waits. */
static void turns_that_publish(source_world *world)
{
    if (world->history_count + 16 > HISTORY)
        forget_half();
    for (unsigned i = 0; i < 16; i++) {
        source_publish(world, 400);
        go_all(world->newest);
    }
    turns(world);
}

/* Between two commits come more versions than the journals hold, and the rank joins with nothing. It commits each time
 * all the same: what was staged is not given up for what is newer, and after that a snapshot comes. */
static void an_engine_slower_than_the_journals_is_not_starved(void **state)
{
    uint64_t before = 0;
    weft_version held;
    (void)state;
    source_rank_join(&w, 0, NULL, NULL);
    w.turn = turns_that_publish;
    for (unsigned i = 1; i <= 300; i++) {
        weft_staged_info info = {.size = sizeof info};
        w.now_ns += WEFT_NS_PER_MS;
        turns_that_publish(&w);
        if (i % 75 != 0) /* 1200 versions, and a journal holds 1024 */
            continue;
        assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_OK);
        w.ranks[0].blocked = true;
        source_must(&w, weft_commit(rank_session(), info.target.number, NULL, 0, &held), "commit");
        w.ranks[0].blocked = false;
        assert_true(held.number >= before); /* no older than one commit before */
        before = w.newest;
    }
    const weft_rollout *end = rank_session()->joint->ends[0];
    weft_peer_info info = {.size = sizeof info};
    size_t count = 0;
    assert_int_equal(weft_peers(w.sources[0].session, &info, 1, &count), WEFT_OK);
    assert_true(info.snapshot_bytes > end->layout->bytes); /* the journal did not lead on at least once */
}

/* A rank comes again and again by one name, each time with another key, and waits from the third view on. */
static void a_name_brings_a_new_view_once_a_second(void **state)
{
    uint64_t joined_ns[4];
    (void)state;
    for (uint32_t view = 0; view < 4; view++) {
        weft_version held;
        rank *r = &w.ranks[0];
        part_open(&w, &r->has);
        for (uint64_t c = 0; c < w.cells.count; c++)
            if (w.cells.cells[c].key == view)
                part_add(&r->has, w.cells.cells[c].slice);
        part_put(&w, &r->has, w.dense);
        source_rank_open(&w, 0, NULL, false);
        for (unsigned i = 0; i < MOST && (weft_held(rank_session(), &held) != WEFT_OK || held.run != w.run); i++)
            round_of();
        assert_int_equal(held_number(), w.newest);
        joined_ns[view] = w.now_ns;
        source_rank_close(r);
    }
    assert_true(joined_ns[1] - joined_ns[0] < 500 * WEFT_NS_PER_MS);
    for (unsigned view = 2; view < 4; view++)
        assert_in_range((joined_ns[view] - joined_ns[view - 1]) / WEFT_NS_PER_MS, 500, 3000);
}

/* Weights that moved are bound again at all sources, or at none. */
static void weights_are_bound_again(void **state)
{
    rank *r = &w.ranks[0];
    (void)state;
    join_same(false);
    part before = r->has;
    part_move(&w, &r->has);
    part_bind(&w, &r->has, rank_session(), 0);
    source_publish(&w, 100);
    go_all(6);
    wait_staged(6);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_OK);
    source_check(&w, r);
    assert_true(part_has(&w, &before, source_find(&w, w.run, 5)->dense)); /* where they lay, nothing is written */
    part_free(&before);
}

/* ---- away */

static unsigned count_events(weft_event_kind kind, const char *peer)
{
    weft_event event = {.size = sizeof event};
    unsigned count = 0;
    while (weft_events(rank_session(), &event) == WEFT_OK)
        count += event.kind == kind && strcmp(event.peer, peer) == 0;
    return count;
}

/* The session's events are left for the test to take. */
static void turns_without_events(source_world *world)
{
    for (unsigned i = 0; i < world->source_count; i++)
        if (world->sources[i].session)
            source_step(world, world->sources[i].session);
    source_must(world, weft_progress(rank_session(), 0), "progress");
}

static void a_source_that_dies_is_named_and_comes_back(void **state)
{
    (void)state;
    join_same(false);
    w.turn = turns_without_events;
    source_publish(&w, 100);
    source_kill(&w.sources[1]);
    source_go_to(&w, &w.sources[0], 6);
    source_go_to(&w, &w.sources[2], 6);
    unsigned lost = 0;
    for (unsigned i = 0; i < 1000; i++) {
        w.now_ns += WEFT_NS_PER_MS;
        turns_without_events(&w);
        lost += count_events(WEFT_EVENT_LOST, "source 1");
    }
    assert_int_equal(lost, 1);
    assert_int_equal(held_number(), 5); /* it serves on */
    w.turn = turns;
    source_start(&w, 1);
    source_go_to(&w, &w.sources[1], 6);
    wait_staged(6);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_OK);
    source_check(&w, &w.ranks[0]);
}

/* A row for each source says who it is, and the memory is shared out. */
static void each_source_is_described(void **state)
{
    weft_peer_info infos[SOURCES];
    size_t count = 0;
    (void)state;
    join_same(false);
    infos[0].size = sizeof infos[0];
    assert_int_equal(weft_peers(rank_session(), infos, SOURCES, &count), WEFT_OK);
    assert_int_equal(count, rank_session()->joint->count);
    assert_string_equal(infos[0].name, "source 0");
    assert_int_equal(infos[0].state, WEFT_PEER_LIVE);
    uint64_t staging = 0;
    for (uint32_t i = 0; i < rank_session()->joint->count; i++)
        staging += rank_session()->joint->ends[i]->stage.staging.bytes;
    assert_in_range(staging, 1, (32u << 20) + (1u << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_does_not_cover_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(no_attachment, setup, teardown),
        cmocka_unit_test_setup_teardown(all_sources_or_none, setup, teardown),
        cmocka_unit_test_setup_teardown(all_sources_or_none, setup_orders, teardown),
        cmocka_unit_test_setup_teardown(a_failure_of_one_undoes_all, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_of_one_undoes_all, setup_orders, teardown),
        cmocka_unit_test_setup_teardown(rot_is_repaired, setup, teardown),
        cmocka_unit_test_setup_teardown(rot_is_repaired_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(rot_is_repaired_by_name, setup_orders, teardown),
        cmocka_unit_test_setup_teardown(a_repair_waits_for_the_caller, setup, teardown),
        cmocka_unit_test_setup_teardown(rot_has_no_name_at_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(rot_has_no_name_beside_what_is_staged, setup, teardown),
        cmocka_unit_test_setup_teardown(rot_is_repaired_at_a_join, setup, teardown),
        cmocka_unit_test_setup_teardown(hold_keeps_or_undoes_all, setup, teardown),
        cmocka_unit_test_setup_teardown(a_queued_commit_moves_all_sources, setup_queue, teardown_queue),
        cmocka_unit_test_setup_teardown(a_queued_commit_moves_none, setup_queue, teardown_queue),
        cmocka_unit_test_setup_teardown(a_queue_that_is_refused, setup_queue, teardown_queue),
        cmocka_unit_test_setup_teardown(the_device_is_lost_beside_a_queue, setup_queue, teardown_queue),
        cmocka_unit_test_setup_teardown(what_one_passes_over_is_told_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_gap_is_no_news_without_names, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_hold_is_told_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_source_delays_by_one_merge_and_one_transfer, setup, teardown),
        cmocka_unit_test_setup_teardown(an_engine_slower_than_the_journals_is_not_starved, setup, teardown),
        cmocka_unit_test_setup_teardown(a_name_brings_a_new_view_once_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(weights_are_bound_again, setup, teardown),
        cmocka_unit_test_setup_teardown(weights_are_bound_again, setup_orders, teardown),
        cmocka_unit_test_setup_teardown(a_source_that_dies_is_named_and_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(each_source_is_described, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
