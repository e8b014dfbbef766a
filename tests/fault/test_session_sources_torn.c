/* A source comes back while the weights of another one move, and does not know what is staged there: no weight is
 * moved for good, because a commit is of all sources or of none. */
#include "tests/support/source_world.h"

#include "joint/joint.h"

#define MOST 4000u /* rounds until something that must happen has happened */

static source_world w;
static bool armed;

weft_status __real_weft_stage_commit(weft_rollout *rollout);
weft_status __wrap_weft_stage_commit(weft_rollout *rollout);

/* The first end moves without the lock. So the session's thread may hear WELCOME at the last end now. */
weft_status __wrap_weft_stage_commit(weft_rollout *rollout)
{
    const weft_joint *joint = rollout->session->joint;
    if (armed && rollout == joint->ends[0]) {
        armed = false;
        pthread_mutex_lock(&rollout->session->lock);
        weft_join_again(joint->ends[joint->count - 1], "its source came back, and does not know the version");
        pthread_mutex_unlock(&rollout->session->lock);
    }
    return __real_weft_stage_commit(rollout);
}

static int setup(void **state)
{
    (void)state;
    source_world_open(&w, 7);
    source_run_whole(&w, 3, 5);
    w.rank_count = 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    source_world_close(&w);
    return 0;
}

static void round_of(void)
{
    w.now_ns += WEFT_NS_PER_MS;
    for (unsigned i = 0; i < w.source_count; i++)
        source_step(&w, w.sources[i].session);
    source_step(&w, w.ranks[0].session);
}

static void wait_staged(uint64_t number)
{
    weft_staged_info info = {.size = sizeof info};
    for (unsigned i = 0; i < MOST && weft_staged(w.ranks[0].session, 0, &info) != WEFT_OK; i++)
        round_of();
    assert_int_equal(info.target.number, number);
}

static void a_part_that_is_given_up_meanwhile(void **state)
{
    weft_version held = {0, 0, 0};
    (void)state;
    source_rank_join(&w, 0, NULL, w.dense);
    weft_session *session = w.ranks[0].session;
    for (unsigned i = 0; i < MOST && (weft_held(session, &held) != WEFT_OK || held.run != w.run); i++)
        round_of();
    assert_int_equal(held.number, 5);
    const uint8_t *old = source_find(&w, w.run, 5)->dense;
    source_publish(&w, 300);
    for (unsigned i = 0; i < w.source_count; i++)
        source_go_to(&w, &w.sources[i], 6);
    wait_staged(6);
    armed = true;
    assert_int_equal(weft_commit(session, 6, NULL, 0, NULL), WEFT_E_PEER_LOST);
    assert_false(armed);
    assert_int_equal(weft_held(session, &held), WEFT_OK);
    assert_int_equal(held.number, 5);
    assert_true(part_has(&w, &w.ranks[0].has, old));
    wait_staged(6); /* the end that gave it up gets it again */
    assert_int_equal(weft_commit(session, 6, NULL, 0, &held), WEFT_OK);
    assert_int_equal(held.number, 6);
    source_check(&w, &w.ranks[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_part_that_is_given_up_meanwhile, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
