/* The trainer's view of a peer moves on the peer's own word, and waiting for one ends with it. */
#include "tests/support/fleet.h"

#include <string.h>

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true};

static void held_moves_on_commit(void **state)
{
    fleet *f = *state;
    const char *a = "a";
    weft_peer_info info;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_publish(f, 50);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    fleet_sleep_ms(50);
    assert_int_equal(weft_wait(f->trainer.session, 1, &a, 1, 100), WEFT_E_TIMEOUT);
    assert_non_null(strstr(weft_last_error(), "a"));
    assert_int_equal(weft_wait(f->trainer.session, 1, NULL, 0, 0), WEFT_E_TIMEOUT);
    assert_true(fleet_peer(f, "a", &info));
    assert_int_equal(info.held.number, 0);
    assert_int_equal(info.lag, 1);
    assert_int_equal(info.state, WEFT_PEER_CATCHING_UP);
    assert_int_equal(weft_commit(f->rollouts[0].session, 1, NULL, 0, NULL), WEFT_OK);
    assert_int_equal(weft_wait(f->trainer.session, 1, &a, 1, FLEET_WAIT_MS), WEFT_OK);
    assert_true(fleet_peer(f, "a", &info));
    assert_int_equal(info.held.number, 1);
    assert_true(info.held.root == f->history[1].root);
    assert_int_equal(info.lag, 0);
    assert_int_equal(info.state, WEFT_PEER_LIVE);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_HELD, "a", FLEET_WAIT_MS, NULL));
}

/* Two versions under way are two, not one: each is proved by itself. */
static void each_version_by_itself(void **state)
{
    fleet *f = *state;
    const char *a = "a";
    weft_peer_info info;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_publish(f, 50);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK); /* else they go as one */
    fleet_publish(f, 50);
    assert_int_equal(fleet_commit(f, 0, FLEET_WAIT_MS), WEFT_OK);
    assert_int_equal(weft_wait(f->trainer.session, 1, &a, 1, FLEET_WAIT_MS), WEFT_OK);
    assert_int_equal(weft_wait(f->trainer.session, 2, &a, 1, 100), WEFT_E_TIMEOUT);
    assert_true(fleet_peer(f, "a", &info));
    assert_int_equal(info.held.number, 1);
    assert_int_equal(info.lag, 1);
    assert_int_equal(info.state, WEFT_PEER_CATCHING_UP);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_wait(f->trainer.session, 2, &a, 1, FLEET_WAIT_MS), WEFT_OK);
}

static void missing(fleet *f, const char *const *names, size_t count, const char *text)
{
    assert_int_equal(weft_wait(f->trainer.session, 1, names, count, 0), WEFT_E_TIMEOUT);
    assert_string_equal(weft_last_error(), text);
}

/* All who are missing are named: not one that is lost, and is not waited for. */
static void the_missing_are_named(void **state)
{
    fleet *f = *state;
    const char *names[] = {"a", "b", "nobody", "c"};
    for (unsigned at = 0; at < 4; at++) {
        fleet_join(f, at, FLEET_SAME);
        fleet_catch_up(f, at);
    }
    fleet_leave(f, 3);
    fleet_wait_state(f, f->rollouts[3].name, WEFT_PEER_LOST, FLEET_WAIT_MS);
    fleet_publish(f, 50);
    fleet_catch_up(f, 1);
    assert_int_equal(weft_wait(f->trainer.session, 1, names + 1, 1, FLEET_WAIT_MS), WEFT_OK);
    missing(f, NULL, 0, "wait: after 0 ms version 1 is not held by a, c");
    missing(f, names, 4, "wait: after 0 ms version 1 is not held by a, nobody, c");
    fleet_catch_up(f, 0);
    assert_int_equal(weft_wait(f->trainer.session, 1, names, 2, FLEET_WAIT_MS), WEFT_OK);
    missing(f, NULL, 0, "wait: after 0 ms version 1 is not held by c");
}

/* A text has room for some. */
static void many_missing_are_counted(void **state)
{
    fleet *f = *state;
    char name[101];
    const char *names[40];
    memset(name, 'x', 100);
    name[100] = '\0';
    for (size_t i = 0; i < 40; i++)
        names[i] = i % 4 < 2 ? name : "short";
    fleet_publish(f, 50);
    assert_int_equal(weft_wait(f->trainer.session, 1, names, 40, 0), WEFT_E_TIMEOUT);
    const char *text = weft_last_error();
    assert_true(strlen(text) < 320);
    assert_non_null(strstr(text, "not held by xxxxxxxx"));
    assert_non_null(strstr(text, "x, short, short, x"));
    assert_string_equal(strstr(text, " and "), " and 35 more");
}

/* A lost peer holds nothing new: waiting for it ends at once. */
static void waiting_for_the_lost(void **state)
{
    fleet *f = *state;
    const char *names[] = {"a", "b"};
    for (uint32_t i = 0; i < 2; i++) { /* in this order, in which they are named */
        fleet_join(f, i, FLEET_SAME);
        fleet_catch_up(f, i);
    }
    assert_int_equal(weft_wait(f->trainer.session, 0, names, 2, FLEET_WAIT_MS), WEFT_OK);
    fleet_leave(f, 1);
    fleet_wait_state(f, "b", WEFT_PEER_LOST, FLEET_WAIT_MS);
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_wait(f->trainer.session, 1, names, 1, FLEET_WAIT_MS), WEFT_OK);
    assert_int_equal(weft_wait(f->trainer.session, 1, names, 2, FLEET_WAIT_MS), WEFT_E_PEER_LOST);
    assert_string_equal(weft_last_error(), "wait: lost without version 1: b");
    assert_int_equal(weft_wait(f->trainer.session, 1, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
    fleet_leave(f, 0);
    fleet_wait_state(f, "a", WEFT_PEER_LOST, FLEET_WAIT_MS);
    fleet_publish(f, 50);
    assert_int_equal(weft_wait(f->trainer.session, 2, NULL, 0, FLEET_WAIT_MS), WEFT_E_PEER_LOST);
    assert_string_equal(weft_last_error(), "wait: lost without version 2: a, b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(held_moves_on_commit, plain_fleet),  FLEET_TEST(each_version_by_itself, plain_fleet),
        FLEET_TEST(the_missing_are_named, plain_fleet), FLEET_TEST(many_missing_are_counted, plain_fleet),
        FLEET_TEST(waiting_for_the_lost, plain_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
