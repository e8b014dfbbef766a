/* weft_interrupt ends a blocking call from another thread, in both kinds of progress, and the session goes on. */
#include "tests/support/fleet.h"

#include <pthread.h>
#include <string.h>

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true};

static const fleet_kind manual_fleet = {FLEET_TILES, .starts = true,
                                        .overrides = FLEET_WITH("session.progress=manual")};

static const fleet_kind slow_fleet = {FLEET_LARGE, .starts = true,
                                      .overrides = FLEET_WITH("peer.a.rate_limit=1Mbit/s")};

static void *interrupt_soon(void *session)
{
    fleet_sleep_ms(150);
    weft_interrupt(session);
    return NULL;
}

/* Calls `body` while another thread interrupts `session`; it must come back long before its own deadline. */
static void interrupted(fleet *f, weft_session *session, weft_status (*body)(fleet *f))
{
    pthread_t thread;
    uint64_t begun = fleet_now_ms();
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, session), 0);
    assert_int_equal(body(f), WEFT_E_TIMEOUT);
    assert_non_null(strstr(weft_last_error(), "interrupted"));
    assert_true(fleet_now_ms() - begun < FLEET_WAIT_MS / 2);
    pthread_join(thread, NULL);
}

static weft_status wait_for_staged(fleet *f)
{
    weft_staged_info staged = {.size = sizeof staged};
    return weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged);
}

static weft_status wait_for_peer(fleet *f)
{
    const char *a = "a";
    return weft_wait(f->trainer.session, 1, &a, 1, FLEET_WAIT_MS);
}

static void staged_and_wait(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    interrupted(f, f->rollouts[0].session, wait_for_staged);
    fleet_publish(f, 50);
    interrupted(f, f->trainer.session, wait_for_peer);
    fleet_catch_up(f, 0);
}

static weft_status receive_snapshot(fleet *f)
{
    return weft_commit(f->rollouts[0].session, f->newest, NULL, 0, NULL);
}

static void snapshot_in_place(void **state)
{
    fleet *f = *state;
    weft_version held;
    weft_event event;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_join(f, 0, FLEET_EMPTY);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    assert_int_equal(staged.kind, WEFT_STAGED_SNAPSHOT);
    interrupted(f, f->rollouts[0].session, receive_snapshot);
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_E_STATE);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_LOST, "trainer", FLEET_WAIT_MS, &event));
    assert_non_null(strstr(event.text, "trainer away, holding nothing: a snapshot was interrupted"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(staged_and_wait, plain_fleet),
        FLEET_TEST(staged_and_wait, manual_fleet),
        FLEET_TEST(snapshot_in_place, slow_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
