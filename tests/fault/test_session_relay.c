/* Relays: the trainer sends an update once, and all rollouts after the relay get it bit for bit. If one dies, the
 * others go on. */
#include "tests/support/fleet.h"

/* a is a relay for b, c and x1; b is a relay for x2 and x3; x4 joins the trainer. */
#define TREE                                                                                                           \
    "peer.b.via=a", "peer.c.via=a", "peer.x1.via=a", "peer.x2.via=b", "peer.x3.via=b, a", "peer.a.relay_memory=64MiB", \
        "peer.b.relay_memory=64MiB", "peers.level=fast"

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH(TREE), .relays = "ab",
                                       .tells = true};

static void join_live(fleet *f, unsigned at, const char *via)
{
    weft_peer_info info = {0};
    fleet_join(f, at, FLEET_SAME);
    fleet_wait_state(f, f->rollouts[at].name, WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_true(fleet_peer(f, f->rollouts[at].name, &info));
    assert_string_equal(info.via, via);
}

/* Waits until the rollout holds the newest version and the trainer knows it, because the rollout follows only then. */
static void catch_up_heard(fleet *f, unsigned at)
{
    const char *name = f->rollouts[at].name;
    fleet_catch_up(f, at);
    assert_int_equal(weft_wait(f->trainer.session, f->newest, &name, 1, FLEET_WAIT_MS), WEFT_OK);
}

static void publish_to(fleet *f, unsigned count, uint32_t per_mille)
{
    fleet_publish(f, per_mille);
    const char *names[FLEET_ROLLOUTS];
    for (unsigned i = 0; i < count; i++) {
        fleet_catch_up(f, i);
        names[i] = f->rollouts[i].name;
    }
    assert_int_equal(weft_wait(f->trainer.session, f->newest, names, count, FLEET_WAIT_MS),
                     WEFT_OK); /* and reported it */
}

/* The relay and the rollouts after it take the same buckets, which the trainer sends once. */
static void one_copy_for_all(void **state)
{
    fleet *f = *state;
    join_live(f, 0, "");
    publish_to(f, 1, 100);
    uint64_t one = fleet_stats(f->trainer.session).bytes_sent;
    join_live(f, 1, "a");
    join_live(f, 2, "a");
    join_live(f, 3, "a");
    uint64_t before = fleet_stats(f->trainer.session).bytes_sent;
    publish_to(f, 4, 100);
    uint64_t four = fleet_stats(f->trainer.session).bytes_sent - before;
    assert_true(one > f->bytes / 20);
    assert_in_range(four, one * 8 / 10, one * 12 / 10);
    for (unsigned i = 0; i < 4; i++) {
        weft_version held;
        assert_int_equal(weft_held(f->rollouts[i].session, &held), WEFT_OK);
        assert_true(held.root == f->history[f->history_count - 1].root);
        assert_int_equal(weft_scrub(f->rollouts[i].session), WEFT_OK);
    }
    assert_int_equal(weft_wait(f->trainer.session, f->newest, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* A tree: the buckets that a relay itself follows are followed by the rollouts after it. */
static void trees_of_any_depth(void **state)
{
    fleet *f = *state;
    join_live(f, 0, "");
    join_live(f, 1, "a");
    join_live(f, 2, "a");
    join_live(f, 3, "a");
    join_live(f, 4, "b");
    join_live(f, 5, "b");
    join_live(f, 6, "");
    for (int i = 0; i < 3; i++) {
        uint64_t before = fleet_stats(f->trainer.session).bytes_sent;
        publish_to(f, 7, 100);
        uint64_t sent = fleet_stats(f->trainer.session).bytes_sent - before;
        weft_peer_info info = {0};
        assert_true(fleet_peer(f, "x4", &info)); /* which takes a copy of its own */
        assert_in_range(sent, info.update_bytes * 2 - 4096, info.update_bytes * 2 + 4096);
        assert_true(fleet_peer(f, "x3", &info));
        assert_int_equal(info.bytes, 0); /* nothing was sent for it alone */
        assert_int_equal(info.held.number, f->newest);
    }
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(weft_scrub(f->rollouts[i].session), WEFT_OK);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* One that holds an older version catches up by a stream of its own, through the relay, and follows from then on. */
static void late_with_an_older_version(void **state)
{
    fleet *f = *state;
    weft_peer_info info = {0};
    join_live(f, 0, "");
    fleet_open_rollout(f, 2, NULL);
    uint8_t *older = test_malloc(f->bytes), *newest = test_malloc(f->bytes);
    memcpy(older, f->dense, f->bytes);
    publish_to(f, 1, 50);
    publish_to(f, 1, 50);
    memcpy(newest, f->dense, f->bytes);
    memcpy(f->dense, older, f->bytes);
    fleet_bind_rollout(f, 2, FLEET_SAME, NULL);
    memcpy(f->dense, newest, f->bytes);
    test_free(older);
    test_free(newest);
    catch_up_heard(f, 2);
    assert_true(fleet_peer(f, "c", &info));
    assert_string_equal(info.via, "a");
    assert_int_equal(info.snapshot_bytes, 0);
    uint64_t own = info.bytes;
    assert_true(own > 0);
    fleet_publish(f, 50);
    catch_up_heard(f, 0);
    catch_up_heard(f, 2);
    assert_true(fleet_peer(f, "c", &info));
    assert_int_equal(info.bytes, own);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* A rollout that holds nothing, or unknown bits, takes a snapshot through two relays. */
static void snapshots_through_relays(void **state)
{
    fleet *f = *state;
    weft_peer_info info = {0};
    weft_layout *fetched = NULL;
    join_live(f, 0, "");
    join_live(f, 1, "a");
    fleet_publish(f, 50);
    catch_up_heard(f, 0);
    catch_up_heard(f, 1);
    weft_site *site = fleet_site(f, "trainer.listen=127.0.0.1:9"); /* no trainer there: the relay has the address too */
    assert_int_equal(weft_layout_fetch(site, "x2", FLEET_WAIT_MS, &fetched), WEFT_OK);
    weft_site_free(site);
    weft_layout_free(fetched);
    fleet_join(f, 4, FLEET_EMPTY);
    fleet_join(f, 5, FLEET_OTHER);
    catch_up_heard(f, 4);
    catch_up_heard(f, 5);
    assert_true(fleet_peer(f, "x2", &info));
    assert_string_equal(info.via, "b");
    assert_true(info.snapshot_bytes >= f->bytes / 2);
    publish_to(f, 2, 50);
    catch_up_heard(f, 4);
    catch_up_heard(f, 5);
    assert_true(fleet_peer(f, "x3", &info));
    assert_int_equal(info.bytes, 0);
}

/* ---- who dies */

static void wait_via(fleet *f, const char *name, const char *via)
{
    uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    weft_peer_info info = {0};
    do {
        if (fleet_now_ms() > end)
            fail_msg("%s is %s via '%s', not via '%s'", name, weft_peer_state_name(info.state), info.via, via);
        fleet_sleep_ms(2);
    } while (!fleet_peer(f, name, &info) || info.state == WEFT_PEER_LOST || strcmp(info.via, via) != 0);
}

/* A relay dies in the middle of an update. The rollouts after it are reported lost by name, go on at the next relay of
 * their site from what they hold, and come back at their next join. */
static void a_relay_dies(void **state)
{
    fleet *f = *state;
    for (unsigned i = 0; i < 6; i++)
        join_live(f, i, i == 0 ? "" : i < 4 ? "a" : "b");
    publish_to(f, 6, 20);
    fleet_publish(f, 500);
    fleet_sleep_ms(20);
    fleet_leave(f, 1);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, "x2", FLEET_WAIT_MS, NULL));
    fleet_catch_up(f, 4); /* what is staged is committed before a rollout joins again */
    fleet_catch_up(f, 5);
    wait_via(f, "x3", "a");
    wait_via(f, "x2", "");
    fleet_leave(f, 0);
    for (unsigned i = 2; i < 6; i++)
        fleet_catch_up(f, i);
    wait_via(f, "c", "");
    wait_via(f, "x3", "");
    fleet_publish(f, 20);
    for (unsigned i = 2; i < 6; i++)
        fleet_catch_up(f, i);
    join_live(f, 0, "");
    fleet_leave(f, 2);
    fleet_wait_state(f, "c", WEFT_PEER_LOST, FLEET_WAIT_MS); /* or its old line is taken for the new one */
    join_live(f, 2, "a");
    fleet_publish(f, 20);
    for (unsigned i = 2; i < 6; i++)
        fleet_catch_up(f, i);
    fleet_catch_up(f, 0);
    weft_peer_info info = {0};
    assert_true(fleet_peer(f, "x1", &info));
    assert_string_equal(info.via, ""); /* it had no reason to join again */
    assert_int_equal(info.snapshot_bytes, 0);
}

static const fleet_kind paced_fleet = {FLEET_LARGE, .starts = true,
                                       .overrides = FLEET_WITH(TREE, "peer.a.rate_limit=200Mbit/s"), .relays = "ab",
                                       .tells = true};

/* Without the trainer as a last resort a peer waits until its relay is there. */
static const fleet_kind none_fleet = {FLEET_TILES, .starts = true,
                                      .overrides = FLEET_WITH(TREE, "peer.c.last_resort=none"), .relays = "ab",
                                      .tells = true};

static void none_but_the_relay(void **state)
{
    fleet *f = *state;
    weft_peer_info info = {0};
    fleet_join(f, 2, FLEET_SAME);
    fleet_sleep_ms(200);
    assert_false(fleet_peer(f, "c", &info));
    join_live(f, 0, "");
    wait_via(f, "c", "a");
    fleet_publish(f, 20);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 2);
}

/* The trainer goes and comes back. The relay joins it again, and the rollouts after the relay wait there. */
static void the_trainer_restarts(void **state)
{
    fleet *f = *state;
    join_live(f, 0, "");
    join_live(f, 2, "a");
    publish_to(f, 1, 20);
    fleet_catch_up(f, 2);
    fleet_stop_trainer(f);
    fleet_sleep_ms(100);
    fleet_start_trainer(f, NULL);
    wait_via(f, "c", "a");
    fleet_publish(f, 20);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 2);
}

/* ---- who holds less */

static const fleet_kind wide_fleet = {FLEET_LARGE, .starts = true,
                                      .overrides = FLEET_WITH(TREE, "peers.bucket_start=2MiB"), .relays = "ab",
                                      .tells = true};

/* Slots smaller than the relay's, of which only the rollout's own site knows: the trainer is told of these. */
static void smaller_slots_behind_a_relay(void **state)
{
    fleet *f = *state;
    weft_peer_info info = {0};
    join_live(f, 0, "");
    fleet_publish(f, 500);
    catch_up_heard(f, 0);
    fleet_open_rollout(f, 2, "peer.c.bucket_max=1088KiB");
    fleet_bind_rollout(f, 2, FLEET_EMPTY, NULL);
    catch_up_heard(f, 2);
    assert_true(fleet_peer(f, "c", &info));
    assert_string_equal(info.via, "a");
    publish_to(f, 1, 500);
    catch_up_heard(f, 2);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* ---- who lies */

static const fleet_kind small_fleet = {FLEET_SMALL, .starts = true, .overrides = FLEET_WITH(TREE), .relays = "ab",
                                       .tells = true};

/* Damage after the relay is found where it arrives, and both ends are named. The peer goes round that relay. */
static void a_relay_that_damages_is_named(void **state)
{
    fleet *f = *state;
    weft_event event;
    /* writes: header and payload to the relay, then to the rollout after it */
    const weft_loop_faults faults = {.seed = 5, .corrupt_at = 4};
    weft_loop_counts counts;
    join_live(f, 0, "");
    join_live(f, 2, "a");
    fleet_publish(f, 20);
    catch_up_heard(f, 0);
    catch_up_heard(f, 2); /* it follows from here on: its writes come after the relay's */
    weft_loop_set_faults(&faults);
    fleet_publish(f, 100);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_RESYNC, "c", FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_CHECK);
    assert_non_null(strstr(event.text, "relay a"));
    weft_loop_counted(&counts);
    assert_int_equal(counts.corrupted, 1);
    weft_loop_set_faults(NULL);
    wait_via(f, "c", "");
    fleet_catch_up(f, 2);
    fleet_catch_up(f, 0);
    assert_int_equal(fleet_stats(f->rollouts[0].session).check_failures, 0);
}

static const fleet_kind short_fleet = {FLEET_SMALL, .starts = true,
                                       .overrides = FLEET_WITH(TREE, "session.io_deadline=500ms"), .relays = "ab",
                                       .tells = true};

/* A bucket lost after a relay is missed there, although the relay's own stream goes on. */
static void what_is_lost_behind_a_relay(void **state)
{
    fleet *f = *state;
    const weft_loop_faults faults = {.seed = 5, .drop_at = 4}; /* as above */
    bool missed = false;
    join_live(f, 0, "");
    join_live(f, 2, "a");
    weft_loop_set_faults(&faults);
    for (int i = 0; i < 150 && !missed; i++) {
        fleet_publish(f, 100);
        fleet_catch_up(f, 0);
        missed = fleet_event(f->trainer.session, WEFT_EVENT_LOST, "c", 50, NULL);
    }
    weft_loop_set_faults(NULL);
    assert_true(missed);
    fleet_catch_up(f, 2);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 2);
}

/* The trainer's goodbye reaches everyone, at any depth, and each knows at once that nothing is to be waited for. */
static void goodbye_at_any_depth(void **state)
{
    fleet *f = *state;
    const unsigned all[] = {0, 1, 2, 4};
    weft_staged_info staged = {.size = sizeof staged};
    join_live(f, 0, "");
    join_live(f, 1, "a");
    join_live(f, 2, "a");
    join_live(f, 4, "b");
    fleet_publish(f, 50);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        catch_up_heard(f, all[i]);
    fleet_stop_trainer(f);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_session *session = f->rollouts[all[i]].session;
        assert_true(fleet_event(session, WEFT_EVENT_GOODBYE, "trainer", FLEET_WAIT_MS, NULL));
        assert_int_equal(weft_staged(session, 0, &staged), WEFT_E_PEER_LOST);
        assert_non_null(strstr(weft_last_error(), "goodbye"));
    }
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_copy_for_all),
        TEST(trees_of_any_depth),
        TEST(late_with_an_older_version),
        TEST(snapshots_through_relays),
        FLEET_TEST(a_relay_dies, paced_fleet),
        FLEET_TEST(none_but_the_relay, none_fleet),
        TEST(the_trainer_restarts),
        TEST(goodbye_at_any_depth),
        FLEET_TEST(smaller_slots_behind_a_relay, wide_fleet),
        FLEET_TEST(a_relay_that_damages_is_named, small_fleet),
        FLEET_TEST(what_is_lost_behind_a_relay, short_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
