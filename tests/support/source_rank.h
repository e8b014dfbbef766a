/* source_rank.h - one rank of three sources, and what tests do with them, round after round. */
#ifndef WEFT_TESTS_SOURCE_RANK_H
#define WEFT_TESTS_SOURCE_RANK_H

#include "tests/support/source_world.h"

#include "joint/joint.h"

#define MOST 4000u /* rounds until something that must happen has happened */

static source_world w;

/* The first source takes one turn of so many. */
static unsigned slower = 1;

static inline void turns(source_world *world)
{
    world->time.rounds++;
    for (unsigned i = 0; i < world->source_count; i++)
        if (world->sources[i].session && (i > 0 || world->time.rounds % slower == 0))
            fleet_step(world->sources[i].session);
    for (unsigned i = 0; i < world->rank_count; i++)
        if (world->ranks[i].session && !world->ranks[i].blocked)
            fleet_step(world->ranks[i].session);
}

static inline void round_of(void)
{
    w.time.now_ns += WEFT_NS_PER_MS;
    turns(&w);
}

static inline void rounds_of(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        round_of();
}

static inline int rank_setup(void **state)
{
    (void)state;
    source_world_open(&w, 7);
    w.turn = turns;
    source_run_whole(&w, 3, 5);
    w.rank_count = 1;
    return 0;
}

static inline int rank_teardown(void **state)
{
    (void)state;
    source_heard = NULL;
    source_world_close(&w);
    return 0;
}

static inline weft_session *rank_session(void)
{
    return w.ranks[0].session;
}

static inline weft_rollout *rank_end(uint32_t i)
{
    return rank_session()->joint->ends[i];
}

static inline weft_rollout *last_end(void)
{
    return rank_end(rank_session()->joint->count - 1);
}

static inline uint64_t held_number(void)
{
    weft_version held;
    return weft_held(rank_session(), &held) == WEFT_OK ? held.number : UINT64_MAX;
}

/* Returns whether the rank's weights are the bits of that number. */
static inline bool has_bits(uint64_t number)
{
    return part_has(&w, &w.ranks[0].has, source_find(&w, w.run, number)->dense);
}

/* Opens the rank with the bits of the newest version, and waits until it knows that. */
static inline void join_with(bool named, const char *override)
{
    weft_version held;
    w.ranks[0].named = named;
    source_rank_join(&w, 0, override, w.dense);
    for (unsigned i = 0; i < MOST && (weft_held(rank_session(), &held) != WEFT_OK || held.run != w.run); i++)
        round_of();
    assert_int_equal(weft_held(rank_session(), &held), WEFT_OK);
    assert_int_equal(held.number, w.newest);
}

static inline void join_same(bool named)
{
    join_with(named, NULL);
}

static inline bool is_staged(uint64_t number)
{
    weft_staged_info info = {.size = sizeof info};
    return weft_staged(rank_session(), 0, &info) == WEFT_OK && info.target.number == number;
}

static inline void wait_staged(uint64_t number)
{
    for (unsigned i = 0; i < MOST && !is_staged(number); i++)
        round_of();
    assert_true(is_staged(number));
}

static inline void go_all(uint64_t number)
{
    for (unsigned i = 0; i < w.source_count; i++)
        source_go_to(&w, &w.sources[i], number);
}

/* All sources publish the next number. */
static inline void publish_all(uint32_t per_mille)
{
    source_publish(&w, per_mille);
    go_all(w.newest);
}

/* The same, and the rank stages that. */
static inline void stage_next(uint32_t per_mille)
{
    publish_all(per_mille);
    wait_staged(w.newest);
}

/* Commits, while the others go on. */
static inline weft_status commit_flags(uint64_t number, uint32_t flags)
{
    w.ranks[0].blocked = true;
    const weft_status status = weft_commit(rank_session(), number, NULL, flags, NULL);
    w.ranks[0].blocked = false;
    return status;
}

/* Commits what comes until the weights are the version. */
static inline void come_to(uint64_t number)
{
    weft_version held = {0, 0, 0};
    for (unsigned i = 0; i < MOST && (held.run != w.run || held.number != number); i++) {
        weft_staged_info info = {.size = sizeof info};
        round_of();
        if (weft_staged(rank_session(), 0, &info) == WEFT_OK)
            fleet_need(commit_flags(info.target.number, 0), "commit");
        if (weft_held(rank_session(), &held) != WEFT_OK)
            held = (weft_version){0, 0, 0};
    }
    assert_true(held.run == w.run && held.number == number);
    source_check(&w, &w.ranks[0]);
}

static inline weft_stats_info stats_now(void)
{
    weft_stats_info stats = {.size = sizeof stats};
    assert_int_equal(weft_stats(rank_session(), &stats), WEFT_OK);
    return stats;
}

static uint8_t *hand_at; /* where the other hand wrote */

static inline void other_hand_again(void)
{
    for (unsigned i = 0; i < 64; i++)
        hand_at[i] ^= 1;
}

/* Another hand writes weights of an end, of the unit that its update changes first. */
static inline void other_hand_at(weft_rollout *end)
{
    weft_staging *staging = &end->stage.staging;
    const uint64_t unit = staging->count > 0 ? weft_staging_at(staging, 0)->unit : 0;
    hand_at = weft_binding_view(&end->current.weights, unit).runs[0].data;
    other_hand_again();
}

static inline void other_hand(void)
{
    other_hand_at(last_end());
}

#endif
