/* Attachments travel beside the weights: with a version, with a snapshot, or alone; byte for byte. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>

static const fleet_kind plain_fleet = {.size = FLEET_SMALL};

/* `text` NULL: none. */
static bool has(fleet *f, unsigned at, const char *text)
{
    const void *data = NULL;
    uint64_t bytes = 0, expected = text ? strlen(text) : 0;
    assert_int_equal(weft_attachment(f->rollouts[at].session, &data, &bytes), WEFT_OK);
    return bytes == expected && (!bytes || memcmp(data, text, bytes) == 0);
}

/* Commits what comes until the attachment is there. */
static void await(fleet *f, unsigned at, const char *text)
{
    for (uint64_t end = fleet_now_ms() + FLEET_WAIT_MS; !has(f, at, text);) {
        assert_true(fleet_now_ms() < end);
        fleet_commit(f, at, 50);
    }
    fleet_check(f, at);
}

static void travels_when_it_changes(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, "one");
    fleet_open_rollout(f, 0, NULL);
    fleet_bind_rollout(f, 0, FLEET_SAME, "one");
    fleet_catch_up(f, 0);
    assert_true(has(f, 0, "one"));
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    assert_true(has(f, 0, "one"));
    fleet_publish_dense(f, "two is longer");
    fleet_catch_up(f, 0);
    assert_true(has(f, 0, "two is longer"));
    fleet_publish_dense(f, "one");
    fleet_publish_dense(f, "3");
    fleet_catch_up(f, 0);
    assert_true(has(f, 0, "3"));
    weft_update_info same = {.size = sizeof same}, none = {.size = sizeof none}; /* no weight changes either */
    const weft_publish_options options = {.size = sizeof options, .attachment = "3", .attachment_bytes = 1};
    assert_int_equal(weft_publish(f->trainer.session, f->newest + 1, NULL, &options, &same), WEFT_OK);
    assert_int_equal(weft_publish(f->trainer.session, f->newest + 2, NULL, NULL, &none), WEFT_OK);
    assert_int_equal(same.bytes, none.bytes);
}

/* Weights equal, attachment not: it comes alone, as an update that changes nothing. */
static void only_the_joiner_differs(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, "the trainer's");
    fleet_open_rollout(f, 0, NULL);
    fleet_bind_rollout(f, 0, FLEET_SAME, "its own");
    fleet_join(f, 1, FLEET_SAME);
    await(f, 0, "the trainer's");
    await(f, 1, "the trainer's");
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* A rollout that has the bits but not the attachment does not hold the version yet. */
static void waited_for_by_the_trainer(void **state)
{
    fleet *f = *state;
    weft_event event;
    weft_peer_info a;
    weft_version held;
    fleet_start_trainer(f, "header");
    fleet_join(f, 0, FLEET_SAME);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_JOINED, "a", FLEET_WAIT_MS, NULL));
    assert_int_equal(weft_wait(f->trainer.session, 0, NULL, 0, 0), WEFT_E_TIMEOUT);
    assert_int_equal(weft_wait(f->trainer.session, 0, (const char *[]){"a"}, 1, 20), WEFT_E_TIMEOUT);
    assert_false(fleet_event(f->trainer.session, WEFT_EVENT_HELD, "a", 0, NULL));
    assert_true(fleet_peer(f, "a", &a));
    assert_int_equal(a.held.run, 0);
    await(f, 0, "header");
    assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_OK);
    assert_int_equal(weft_wait(f->trainer.session, 0, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_HELD, "a", 0, &event));
    assert_memory_equal(&event.version, &held, sizeof held);
}

static void comes_with_a_snapshot(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, "header");
    fleet_join(f, 0, FLEET_EMPTY);
    fleet_open_rollout(f, 1, "commit.snapshot=staged");
    fleet_bind_rollout(f, 1, FLEET_OTHER, NULL);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
    assert_true(has(f, 0, "header"));
    assert_true(has(f, 1, "header"));
}

/* One that takes many buckets, alone and under way while versions are published. */
static void large_and_overtaken(void **state)
{
    fleet *f = *state;
    uint64_t bytes = 12u << 20, seed = 8;
    char *text = test_malloc(bytes + 1);
    for (uint64_t i = 0; i < bytes; i++)
        text[i] = (char)('a' + fleet_below(&seed, 26));
    text[bytes] = 0;
    fleet_start_trainer(f, text);
    fleet_join(f, 0, FLEET_SAME);
    for (int i = 0; i < 10; i++) {
        fleet_sleep_ms(4);
        fleet_publish(f, 50);
    }
    await(f, 0, text);
    fleet_catch_up(f, 0);
    assert_true(has(f, 0, text));
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    test_free(text);
}

static const fleet_kind slow_fleet = {
    FLEET_SMALL, .overrides = FLEET_WITH("peers.rate_limit=800Mbit/s", "provider.loop.chunk=64KiB")};

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(travels_when_it_changes),
        TEST(only_the_joiner_differs),
        TEST(waited_for_by_the_trainer),
        TEST(comes_with_a_snapshot),
        FLEET_TEST(large_and_overtaken, slow_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
