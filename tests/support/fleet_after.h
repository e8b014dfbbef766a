/* fleet_after.h - versions published while a rollout takes its snapshot, after the cursor and before it. */
#ifndef WEFT_TESTS_FLEET_AFTER_H
#define WEFT_TESTS_FLEET_AFTER_H

#include <pthread.h>

#include "tests/support/fleet.h"

typedef struct fleet_committer {
    weft_session *session;
    weft_status status;
    weft_version held;
} fleet_committer;

/* Asserts nothing: it is not the test's thread. */
static void *fleet_commit_snapshot(void *argument)
{
    fleet_committer *c = argument;
    weft_staged_info staged = {.size = sizeof staged};
    c->status = weft_staged(c->session, FLEET_WAIT_MS, &staged);
    if (c->status == WEFT_OK)
        c->status = weft_commit(c->session, staged.target.number, NULL, 0, &c->held);
    return NULL;
}

/* Rollout 0 joins with other weights and takes a snapshot, and meanwhile five versions follow, one every `pause_ms`. It
 * ends with the trainer's bits, and no peer was lost. Returns whether it ended at a later version than the offered one.
 * On a busy machine the snapshot may be over before the first version. */
static inline bool fleet_publish_after_once(fleet *f, const char *mode, uint32_t pause_ms, uint32_t per_mille)
{
    pthread_t thread;
    uint64_t offered = f->newest, lost = fleet_stats(f->trainer.session).peers_lost;
    fleet_open_rollout(f, 0, mode);
    fleet_bind_rollout(f, 0, FLEET_OTHER, NULL);
    fleet_committer c = {f->rollouts[0].session, WEFT_AGAIN, {0, 0, 0}};
    assert_int_equal(pthread_create(&thread, NULL, fleet_commit_snapshot, &c), 0);
    for (int i = 0; i < 5; i++) {
        fleet_sleep_ms(pause_ms);
        fleet_publish(f, per_mille);
    }
    pthread_join(thread, NULL);
    assert_int_equal(c.status, WEFT_OK);
    fleet_check(f, 0);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, lost);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    return c.held.number > offered;
}

/* As above, until it did end at a later version. */
static inline void fleet_publish_after(fleet *f, const char *mode, uint32_t pause_ms, uint32_t per_mille)
{
    bool later = fleet_publish_after_once(f, mode, pause_ms, per_mille);
    for (int i = 0; i < 5 && !later; i++) {
        fleet_leave(f, 0);
        fleet_wait_state(f, "a", WEFT_PEER_LOST, FLEET_WAIT_MS);
        later = fleet_publish_after_once(f, mode, pause_ms, per_mille);
    }
    assert_true(later);
}

#endif
