/* A rollout of several sources: what is missing or there twice is named at open, the weights move when all sources have
 * the number, all of them or none, and a source that is away is named once while the rollout serves on. */
#include "tests/support/source_rank.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/deferred.h"

/* Every source and every rank has the tensors in an order of its own. */
static int setup_orders(void **state)
{
    const int code = rank_setup(state);
    source_run_end(&w);
    source_shuffle(&w);
    source_run_whole(&w, 3, 5);
    return code;
}

/* The backend of all has queued commits. */
static int setup_queue(void **state)
{
    deferred_lend_queue();
    return rank_setup(state);
}

static int teardown_queue(void **state)
{
    const int code = rank_teardown(state);
    weft_backend_lend(NULL);
    return code;
}

/* ---- open */

static weft_status open_with(const weft_trainer_source *sources, uint32_t count)
{
    weft_session *session = NULL;
    weft_site *site = source_site(&w, NULL);
    const weft_options options = {.size = sizeof options, .sources = sources, .source_count = count};
    const weft_status status = weft_rollout_open(site, "rank0", w.layout, &options, &session);
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
    assert_int_equal(open_with(sources, 3), WEFT_OK);
    assert_int_equal(open_with(sources, 2), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "no source"));
    sources[3] = sources[1];
    assert_int_equal(open_with(sources, 4), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "sources 1 and 3 both contribute"));
    memcpy(slices, sources[0].slices, sources[0].slice_count * sizeof *slices);
    slices[0].row += 1u << 20;
    sources[0].slices = slices;
    assert_int_equal(open_with(sources, 3), WEFT_E_LAYOUT);
    sources[0].address = NULL;
    assert_int_equal(open_with(sources, 3), WEFT_E_ARGUMENT);
    assert_int_equal(open_with(sources, WEFT_SOURCES_MAX + 1), WEFT_E_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "there may be"));
}

/* Opens the rank with a view of one key. */
static void open_key(uint32_t key)
{
    rank *r = &w.ranks[0];
    part_open(&w, &r->has);
    for (uint64_t c = 0; c < w.cells.count; c++)
        if (w.cells.cells[c].key == key)
            part_add(&r->has, w.cells.cells[c].slice);
    part_put(&w, &r->has, w.dense);
    source_rank_open(&w, 0, NULL, false);
}

/* A source that has nothing of the view gets no end, and nothing beside the view is bound, although each end passes
 * over what is another's. */
static void the_view_and_nothing_else(void **state)
{
    weft_block blocks[SLICES];
    uint32_t key = 0;
    (void)state;
    for (open_key(key); rank_session()->joint->count == w.source_count; open_key(++key))
        source_rank_close(&w.ranks[0]);
    part more = w.ranks[0].has;
    part_add(&more, w.cells.cells[w.cells.cells[0].key == key ? w.cells.count - 1 : 0].slice);
    part_blocks(&w, &more, blocks);
    assert_int_equal(weft_bind_blocks(rank_session(), blocks, more.count, NULL, 0, 0), WEFT_E_LAYOUT);
}

static void no_attachment(void **state)
{
    const weft_publish_options options = {.size = sizeof options, .attachment = "x", .attachment_bytes = 1};
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
    rounds_of(300);
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
    (void)state;
    join_same(false);
    stage_next(300);
    other_hand();
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_E_BASE);
    other_hand_again();
    assert_int_equal(held_number(), 5);
    assert_true(has_bits(5));
    assert_int_equal(stats_now().versions, 0);
    wait_staged(6); /* the end that failed gets the version again */
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_OK);
    assert_int_equal(stats_now().versions, 1);
    source_check(&w, &w.ranks[0]);
}

/* A weight rots in one end while all of them stage the next version. The commit finds that, and the end is repaired to
 * the version that the others hold, and comes to the next one with them. */
static void a_rotten_end_is_repaired(bool named)
{
    join_same(named);
    publish_all(300);
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
    stage_next(300);
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
    for (uint32_t i = 0; i < joint->count; i += joint->count - 1)
        weft_binding_view(&joint->ends[i]->current.weights, 0).runs[0].data[0] ^= 1;
    assert_int_equal(weft_scrub(rank_session()), WEFT_E_BASE);
    assert_true(rank_end(0)->current.version.run == 0 && last_end()->current.version.run == 0);
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
    weft_staged_info info = {.size = sizeof info};
    weft_version held;
    (void)state;
    join_same(false);
    stage_next(100);
    assert_int_equal(weft_commit(rank_session(), 5, NULL, 0, NULL), WEFT_E_STATE);
    assert_non_null(strstr(weft_last_error(), "another version is staged"));
    assert_int_equal(weft_commit(rank_session(), 6, NULL, WEFT_COMMIT_HOLD, &held), WEFT_OK);
    assert_int_equal(held.number, 5);
    assert_true(has_bits(6));
    assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_AGAIN);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_E_STATE);
    assert_non_null(strstr(weft_last_error(), "call weft_settle first"));
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_UNDO, NULL, &held), WEFT_OK);
    assert_true(has_bits(5));
    assert_int_equal(held.number, 5);
    assert_int_equal(stats_now().versions, 0);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, WEFT_COMMIT_HOLD, NULL), WEFT_OK);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, &held), WEFT_OK);
    assert_int_equal(held.number, 6);
    assert_int_equal(stats_now().versions, 1);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, &held), WEFT_E_STATE);
}

/* ---- snapshots of single sources */

/* Other hands have written all weights of the first end. Its source has a snapshot for it. */
static void wreck_first(void)
{
    weft_rollout *end = rank_end(0);
    for (uint64_t unit = 0; unit < end->layout->unit_count; unit++) {
        const weft_view view = weft_binding_view(&end->current.weights, unit);
        for (uint32_t run = 0; run < view.run_count; run++)
            if (view.runs[run].data)
                view.runs[run].data[0] ^= 1;
    }
    assert_int_equal(weft_scrub(rank_session()), WEFT_E_BASE);
}

static bool seen_held; /* while a commit takes snapshots */
static unsigned seen;

static void turns_that_look(source_world *world)
{
    weft_version held;
    turns(world);
    seen_held = seen_held || weft_joint_held(rank_session()->joint, &held);
    seen++;
}

/* A commit takes the snapshot of one source, and the others do not publish that version: nothing is held meanwhile and
 * after that, and the commit ends at its deadline. */
static void a_snapshot_that_nobody_follows(void **state)
{
    weft_staged_info info = {.size = sizeof info};
    weft_version held;
    (void)state;
    join_same(false);
    source_publish(&w, 100);
    source_go_to(&w, &w.sources[0], 6);
    wreck_first();
    for (unsigned i = 0; i < MOST && weft_staged(rank_session(), 0, &info) != WEFT_OK; i++)
        round_of();
    assert_int_equal(info.kind, WEFT_STAGED_SNAPSHOT);
    assert_true(info.target.number == 6 && info.target.root == 0);
    assert_int_equal(commit_flags(6, WEFT_COMMIT_HOLD), WEFT_E_STATE);
    assert_non_null(strstr(weft_last_error(), "has no way back"));
    w.turn = turns_that_look;
    seen_held = false;
    rank_end(1)->wishing.open = true; /* what was wanted before does not stand in the way */
    rank_end(1)->wishing.number = 5;
    const uint64_t begun_ns = w.time.now_ns;
    assert_int_equal(commit_flags(6, 0), WEFT_E_TIMEOUT);
    assert_non_null(strstr(weft_last_error(), "nothing is held: version 6 did not come within 400 ms"));
    assert_in_range((w.time.now_ns - begun_ns) / WEFT_NS_PER_MS, 400, 600);
    assert_true(seen > 400 && !seen_held);
    for (uint32_t i = 1; i < 3; i++)
        assert_true(rank_end(i)->wishing.open && rank_end(i)->wishing.number == 6);
    assert_int_equal(weft_held(rank_session(), &held), WEFT_E_STATE);
    source_go_to(&w, &w.sources[1], 6);
    source_go_to(&w, &w.sources[2], 6);
    come_to(6);
}

/* A snapshot that is staged beside the weights moves last, because it has no way back. */
static void a_snapshot_moves_last(void **state)
{
    (void)state;
    join_with(false, "commit.snapshot=staged");
    wreck_first();
    stage_next(300);
    assert_true(weft_joint_is_snapshot(rank_end(0)));
    const weft_view view = weft_binding_view(&rank_end(0)->current.weights, 0);
    const uint8_t before = view.runs[0].data[0];
    other_hand();
    assert_int_equal(weft_commit(rank_session(), 6, NULL, 0, NULL), WEFT_E_BASE);
    assert_int_equal(view.runs[0].data[0], before);
    come_to(6);
}

static void queue_version(uint64_t number)
{
    weft_version held;
    stage_next(300);
    assert_int_equal(weft_commit(rank_session(), number, NULL, WEFT_COMMIT_QUEUE, &held), WEFT_OK);
    assert_int_equal(held.number, number - 1);
    assert_true(has_bits(number - 1));
    assert_int_equal(weft_commit(rank_session(), number, NULL, 0, NULL), WEFT_E_STATE);
}

static void a_queued_commit_moves_all_sources(void **state)
{
    weft_version held;
    (void)state;
    join_same(false);
    queue_version(6);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_UNDO, NULL, &held), WEFT_OK);
    assert_int_equal(held.number, 5);
    assert_true(has_bits(5));
    assert_int_equal(weft_commit(rank_session(), 6, NULL, WEFT_COMMIT_QUEUE, NULL), WEFT_OK);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, &held), WEFT_OK);
    assert_int_equal(held.number, 6);
    source_check(&w, &w.ranks[0]);
    queue_version(7);
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, &held), WEFT_OK);
    assert_int_equal(held.number, 7);
    source_check(&w, &w.ranks[0]);
}

/* Another hand writes weights of the last end: before the proof of all ends, or after the proof. */
static void a_queued_commit_moves_none(void **state)
{
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
        for (uint32_t i = 0; i < rank_session()->joint->count; i++) /* the last end failed, and no other is blamed */
            assert_int_equal(rank_end(i)->joining.faults > 0, rank_end(i) == last_end());
        assert_int_equal(held_number(), number - 1);
        assert_false(has_bits(number - 1));
        other_hand_again();
        assert_true(has_bits(number - 1)); /* but for that */
        other_hand_again();
        come_to(number);
    }
}

/* To undo what met other bits is no error, because no weight was moved. A close undoes what is queued, and touches no
 * weight that the device did not move. */
static void what_is_queued_is_undone(void **state)
{
    weft_version held;
    (void)state;
    join_same(false);
    queue_version(6);
    other_hand();
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_UNDO, NULL, &held), WEFT_OK);
    assert_int_equal(held.number, 5);
    other_hand_again();
    for (int other = 0; other < 2; other++) {
        come_to(w.newest);
        queue_version(w.newest + 1);
        if (other)
            other_hand();
        weft_close(rank_session());
        if (other)
            other_hand_again();
        assert_true(has_bits(w.newest - 1));
        source_rank_open(&w, 0, NULL, false);
    }
}

/* A queue without room, or an update that the device cannot decode by itself: the commit is one that is held. */
static void what_cannot_be_queued_is_held(void **state)
{
    (void)state;
    join_same(false);
    stage_next(300);
    last_end()->arriving.kept.encoded = true;
    pthread_mutex_lock(&rank_session()->lock);
    assert_int_equal(weft_joint_queue_begin(rank_session()->joint, NULL), WEFT_AGAIN);
    pthread_mutex_unlock(&rank_session()->lock);
    last_end()->arriving.kept.encoded = false;
    deferred_queue_fail(WEFT_E_BUDGET, false);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, WEFT_COMMIT_QUEUE, NULL), WEFT_OK);
    assert_true(has_bits(6));
    assert_int_equal(weft_settle(rank_session(), WEFT_SETTLE_KEEP, NULL, NULL), WEFT_OK);
    assert_int_equal(held_number(), 6);
}

/* A stream that is refused is one commit that was undone. All come to the version again. */
static void a_queue_that_is_refused(void **state)
{
    (void)state;
    join_same(false);
    stage_next(300);
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
    for (uint32_t i = 0; i < rank_session()->joint->count; i++)
        assert_false(rank_end(i)->current.known);
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

/* A commit that is held for long is told once, and not once for each source. */
static void a_long_hold_is_told_once(void **state)
{
    weft_event event = {.size = sizeof event};
    unsigned told = 0;
    (void)state;
    join_same(false);
    stage_next(300);
    assert_int_equal(weft_commit(rank_session(), 6, NULL, WEFT_COMMIT_HOLD, NULL), WEFT_OK);
    for (unsigned i = 0; i < 1000; i++) {
        w.time.now_ns += WEFT_NS_PER_MS;
        for (unsigned s = 0; s < w.source_count; s++)
            fleet_step(w.sources[s].session);
        fleet_need(weft_progress(rank_session(), 0), "progress");
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
            publish_all(50);
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
        w.time.now_ns += WEFT_NS_PER_MS;
        turns_that_publish(&w);
        if (i % 75 != 0) /* 1200 versions, and a journal holds 1024 */
            continue;
        assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_OK);
        w.ranks[0].blocked = true;
        fleet_need(weft_commit(rank_session(), info.target.number, NULL, 0, &held), "commit");
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
        joined_ns[view] = w.time.now_ns;
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
    stage_next(100);
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
            fleet_step(world->sources[i].session);
    fleet_need(weft_progress(rank_session(), 0), "progress");
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
        w.time.now_ns += WEFT_NS_PER_MS;
        turns_without_events(&w);
        lost += count_events(WEFT_EVENT_LOST, "source 1");
    }
    assert_int_equal(lost, 1);
    assert_true(stats_now().away_ms > 900);
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
        cmocka_unit_test_setup_teardown(what_does_not_cover_is_refused, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(the_view_and_nothing_else, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(no_attachment, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(all_sources_or_none, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(all_sources_or_none, setup_orders, rank_teardown),
        cmocka_unit_test_setup_teardown(a_failure_of_one_undoes_all, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(a_failure_of_one_undoes_all, setup_orders, rank_teardown),
        cmocka_unit_test_setup_teardown(rot_is_repaired, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(rot_is_repaired_by_name, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(rot_is_repaired_by_name, setup_orders, rank_teardown),
        cmocka_unit_test_setup_teardown(a_repair_waits_for_the_caller, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(rot_has_no_name_at_rest, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(rot_has_no_name_beside_what_is_staged, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(rot_is_repaired_at_a_join, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(hold_keeps_or_undoes_all, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_that_nobody_follows, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_moves_last, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(a_queued_commit_moves_all_sources, setup_queue, teardown_queue),
        cmocka_unit_test_setup_teardown(a_queued_commit_moves_none, setup_queue, teardown_queue),
        cmocka_unit_test_setup_teardown(what_is_queued_is_undone, setup_queue, teardown_queue),
        cmocka_unit_test_setup_teardown(what_cannot_be_queued_is_held, setup_queue, teardown_queue),
        cmocka_unit_test_setup_teardown(a_queue_that_is_refused, setup_queue, teardown_queue),
        cmocka_unit_test_setup_teardown(the_device_is_lost_beside_a_queue, setup_queue, teardown_queue),
        cmocka_unit_test_setup_teardown(what_one_passes_over_is_told_once, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(a_long_hold_is_told_once, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(a_slow_source_delays_by_one_merge_and_one_transfer, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(an_engine_slower_than_the_journals_is_not_starved, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(a_name_brings_a_new_view_once_a_second, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(weights_are_bound_again, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(weights_are_bound_again, setup_orders, rank_teardown),
        cmocka_unit_test_setup_teardown(a_source_that_dies_is_named_and_comes_back, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(each_source_is_described, rank_setup, rank_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
