/* Updates that are made for peers: which are kept and given up, what a failure leaves; the levels they want. */
#include "tests/support/peer_world.h"

static weft_bridge *bridge;

static int open_bridge(void **state)
{
    open_locked(state);
    bridge = &publisher->bridge;
    while (weft_bridge_yield(bridge)) {
    }
    return 0;
}

/* For room the oldest goes first, of those that nobody reads or waits for. */
static void what_goes_for_room(void **state)
{
    static const struct {
        uint64_t turn[2];
        uint32_t readers[2];
        bool personal, waited; /* the second */
        int goes;              /* 2: none */
    } rows[] = {{{5, 3}, {0, 0}, false, false, 1}, {{3, 5}, {0, 0}, false, false, 0}, {{5, 3}, {0, 1}, false, false, 0},
                {{5, 3}, {1, 1}, false, false, 2}, {{5, 3}, {0, 0}, true, true, 0},   {{5, 3}, {0, 0}, true, false, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_bridged *const entry = bridge->entries;
        for (int at = 0; at < 2; at++) {
            entry[at] = (weft_bridged){.state = WEFT_BRIDGED_READY, .turn = rows[i].turn[at]};
            entry[at].update.readers = rows[i].readers[at];
        }
        entry[1].repair.count = rows[i].personal;
        a->feed.made = rows[i].waited ? &entry[1] : NULL;
        a->feed.made_turn = rows[i].turn[1];
        if (weft_bridge_yield(bridge) != (rows[i].goes < 2) ||
            (entry[0].state == WEFT_BRIDGED_FREE) != (rows[i].goes == 0) ||
            (entry[1].state == WEFT_BRIDGED_FREE) != (rows[i].goes == 1))
            fail_msg("row %zu", i);
    }
    a->feed.made = NULL;
    /* a place for what is wanted comes from what failed before all that is ready */
    weft_update *update;
    for (uint32_t at = 0; at < WEFT_BRIDGE_ENTRIES; at++)
        bridge->entries[at] = (weft_bridged){.state = at == 5 ? WEFT_BRIDGED_FAILED : WEFT_BRIDGED_READY};
    bridge->running = true; /* with a thread, which never comes to it */
    assert_int_equal(weft_bridge_want(bridge, 1, 0, WEFT_LEVEL_FAST, &update), WEFT_AGAIN);
    assert_int_equal(bridge->entries[5].state, WEFT_BRIDGED_WANTED);
    memset(bridge->entries, 0, WEFT_BRIDGE_ENTRIES * sizeof *bridge->entries);
}

/* With a newer version goes what leads elsewhere and nobody waits for, and what failed. */
static void what_a_newer_version_ends(void **state)
{
    (void)state;
    const uint64_t order = publisher->newest.order;
    const struct {
        weft_bridged_state state;
        uint64_t from, order, to;
        uint32_t readers;
        bool kept;
    } rows[] = {
        {WEFT_BRIDGED_READY, 0, order, 0, 0, true},           {WEFT_BRIDGED_READY, 0, order - 1, 0, 0, false},
        {WEFT_BRIDGED_READY, 0, order - 1, 0, 1, true},       {WEFT_BRIDGED_READY, order, order - 1, 0, 0, true},
        {WEFT_BRIDGED_FAILED, order, order - 1, 0, 0, false}, {WEFT_BRIDGED_FAILED, 0, order, 0, 0, true},
        {WEFT_BRIDGED_WANTED, order, 0, 0, 0, true},          {WEFT_BRIDGED_WANTED, 0, 0, 0, 0, false},
        {WEFT_BRIDGED_WANTED, order, 0, order, 0, false},     {WEFT_BRIDGED_MAKING, 0, 0, 0, 0, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_bridged *entry = &bridge->entries[0];
        *entry = (weft_bridged){.state = rows[i].state, .catch_up.to = rows[i].to};
        entry->update.from = rows[i].from;
        entry->update.order = rows[i].order;
        entry->update.readers = rows[i].readers;
        weft_bridge_sweep(bridge);
        if ((entry->state != WEFT_BRIDGED_FREE) != rows[i].kept)
            fail_msg("row %zu", i);
    }
    bridge->entries[0] = (weft_bridged){0};
}

/* A merge is made once for all at that base, within a part of the share; a repair may have all of it. What failed is
 * not tried again at once. */
static void what_is_made(void **state)
{
    const weft_wire_repair repair = {.count = 1, .range = {{0, 1}}};
    const uint64_t order = publisher->newest.order;
    weft_update *update, *same;
    (void)state;
    weft_journal_at(&publisher->journal, order - 1)->snapshot_only = true; /* all of its sources, or none */
    assert_int_equal(weft_bridge_want(bridge, order - 3, 0, WEFT_LEVEL_FAST, &update), WEFT_E_BUDGET);
    weft_journal_at(&publisher->journal, order - 1)->snapshot_only = false;
    weft_bridge_release(bridge, &bridge->entries[0]);
    assert_int_equal(weft_bridge_want(bridge, order - 3, order - 1, WEFT_LEVEL_FAST, &update), WEFT_OK);
    assert_int_equal(weft_bridge_want(bridge, order - 3, order, WEFT_LEVEL_FAST, &same), WEFT_OK);
    assert_true(update->order == order - 1 && same->order == order);
    assert_true(bridge->blocks > 0);
    while (weft_bridge_yield(bridge)) {
    }
    assert_int_equal(bridge->blocks, 0);
    assert_int_equal(weft_bridge_want(bridge, order - 2, 0, WEFT_LEVEL_FAST, &update), WEFT_OK);
    update->readers++;
    assert_int_equal(weft_bridge_want(bridge, order - 2, order, WEFT_LEVEL_FAST, &same), WEFT_OK);
    assert_ptr_equal(same, update);
    update->readers--;
    assert_int_equal(update->from, order - 2);
    assert_int_equal(update->order, order);
    assert_true(bridge->limit < bridge->share);
    for (uint64_t at = order - 1; at <= order; at++)
        assert_int_equal(weft_journal_at(&publisher->journal, at)->pins, 0);
    assert_non_null(weft_bridge_repair(bridge, order, &repair));
    assert_int_equal(bridge->limit, bridge->share);
    weft_version amended = update->target;
    amended.root = 9;
    weft_bridge_amend(bridge, &amended);
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++)
        assert_true(bridge->entries[i].state == WEFT_BRIDGED_FREE || bridge->entries[i].update.target.root == 9);
    bridge->stopping = true; /* so the work is broken off */
    assert_int_equal(weft_bridge_want(bridge, order - 3, 0, WEFT_LEVEL_FAST, &update), WEFT_E_BUDGET);
    bridge->stopping = false;
    const uint64_t turns = bridge->turns;
    assert_int_equal(weft_bridge_want(bridge, order - 3, 0, WEFT_LEVEL_FAST, &update), WEFT_E_BUDGET);
    assert_int_equal(bridge->turns, turns);
}

/* The thread makes what was wanted first, and reads no shadow that a publish is at. */
static void what_the_thread_makes(void **state)
{
    const uint64_t order = publisher->newest.order;
    weft_bridged *entry = bridge->entries;
    pthread_mutex_t *lock = &trainer->session->lock;
    struct timespec soon;
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        entry[i] = (weft_bridged){.state = WEFT_BRIDGED_WANTED, .level = WEFT_LEVEL_FAST, .turn = 9 - i};
        entry[i].update.from = order - 2 - i;
    }
    weft_clock_own = NULL;
    assert_int_equal(weft_bridge_start(bridge), WEFT_OK);
    while (entry[0].state != WEFT_BRIDGED_READY || entry[1].state != WEFT_BRIDGED_READY)
        pthread_cond_wait(&trainer->session->changed, lock);
    assert_int_equal(bridge->source_count, 2); /* of the last */
    publisher->shadow.busy = true;
    weft_bridged *repair = weft_bridge_repair(bridge, order, &(weft_wire_repair){.count = 1, .range = {{0, 1}}});
    clock_gettime(CLOCK_MONOTONIC, &soon);
    soon.tv_nsec += 100 * 1000 * 1000; /* nothing tells that it waits */
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&trainer->session->changed, lock, &soon);
    assert_int_equal(repair->state, WEFT_BRIDGED_MAKING);
    publisher->shadow.busy = false;
    weft_session_changed(trainer->session);
    while (repair->state != WEFT_BRIDGED_READY)
        pthread_cond_wait(&trainer->session->changed, lock);
    pthread_mutex_unlock(lock);
    weft_bridge_stop(bridge);
    pthread_mutex_lock(lock);
    weft_clock_own = &s->time.clock;
}

/* A peer that names another version in each turn has one merge queued. */
static void who_names_another_each_turn(void **state)
{
    const uint64_t order = publisher->newest.order;
    weft_update *update;
    (void)state;
    bridge->running = true; /* with a thread, which never comes to it */
    a->wish = (weft_wish){.named = true, .open = true};
    a->standing.sent_order = order - 3;
    for (uint64_t to = order - 1; to <= order; to++) {
        a->wish.number = weft_journal_at(&publisher->journal, to)->target.number;
        assert_int_equal(weft_bridge_want(bridge, order - 3, to, WEFT_LEVEL_FAST, &update), WEFT_AGAIN);
        uint32_t wanted = 0;
        for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++)
            wanted += bridge->entries[i].state == WEFT_BRIDGED_WANTED;
        assert_int_equal(wanted, 1);
    }
    weft_bridge_sweep(bridge);
    a->wish.open = false;
    weft_bridge_sweep(bridge);
    assert_int_equal(bridge->entries[0].state, WEFT_BRIDGED_FREE);
}

/* ---- levels */

/* The level that the site sets stays, however slow the link is. Lost peers want none. */
static void which_level_is_wanted(void **state)
{
    static const weft_choice_level sites[] = {WEFT_CHOICE_FULL, WEFT_CHOICE_AUTO};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        a->site.level = sites[i];
        a->tuning.wanted = WEFT_LEVEL_FULL;
        a->tuning.estimate.rate_bytes_s = 1000;
        weft_peer_levels(&trainer->demand, &trainer->peers);
        weft_peer_level_judge(&trainer->demand, a);
        uint32_t wanting = 0; /* each of three wants one */
        for (uint32_t level = 0; level < WEFT_LEVEL_COUNT; level++)
            wanting += trainer->demand.wanting[level];
        assert_int_equal(wanting, 3);
        assert_int_equal(a->tuning.wanted == WEFT_LEVEL_FULL, sites[i] == WEFT_CHOICE_FULL);
    }
    a->tuning.wanted = WEFT_LEVEL_TIGHT;
    for (uint32_t joined = 0; joined < 2; joined++) {
        a->connection.greeted = joined;
        weft_peer_levels(&trainer->demand, &trainer->peers);
        assert_int_equal(trainer->demand.levels >> WEFT_LEVEL_TIGHT & 1, joined);
        assert_int_equal(trainer->demand.levels >> WEFT_JOURNAL_LEVEL & 1, 1);
    }
}

#define BRIDGE(name) cmocka_unit_test_setup_teardown(name, open_bridge, close_locked)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BRIDGE(what_goes_for_room),    BRIDGE(what_a_newer_version_ends),   BRIDGE(what_is_made),
        BRIDGE(what_the_thread_makes), BRIDGE(who_names_another_each_turn), BRIDGE(which_level_is_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
