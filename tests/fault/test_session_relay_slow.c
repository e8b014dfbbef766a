/* Relays: a slow rollout holds back no other. Whatever the order of joins, losses and publishes, each ends with the
 * trainer's bits. */
#include "tests/support/fleet_fake.h"

/* An update of ten buckets at least, and six blocks for what is shared. The sibling may stand still for a second
 * before it is slow too. */
static const fleet_kind stopped_fleet = {
    FLEET_LARGE, .starts = true,
    .overrides = FLEET_WITH("peer.b.via=a", "peer.c.via=a", "peer.x4.via=a", "peers.level=full", "peers.bucket=64KiB",
                            "peer.a.relay_memory=25MiB", "peer.a.rate_limit=20Mbit/s", "peers.heartbeat=20s"),
    .relays = "a"};

static const fleet_kind random_fleet = {
    FLEET_TILES, .starts = true,
    .overrides = FLEET_WITH("peer.b.via=a", "peer.c.via=a", "peer.x1.via=a", "peer.x2.via=b", "peer.x3.via=b, a",
                            "peer.a.relay_memory=64MiB", "peer.b.relay_memory=64MiB", "peers.heartbeat=1s"),
    .relays = "ab"};

/* Answers what keeps the connection alive until the relay closes it; grants no slot. */
static void stay_alive(fleet_fake *fake)
{
    uint8_t body[WEFT_MESSAGE_MAX], pong[WEFT_MESSAGE_PREFIX + 8] = {8, 0, 0, 0, WEFT_MESSAGE_PONG};
    uint64_t length;
    uint32_t type;
    while ((type = fake_read(fake, body, &length)) != 0) {
        if (type != WEFT_MESSAGE_PING || length != 8)
            continue;
        memcpy(pong + WEFT_MESSAGE_PREFIX, body, 8);
        fake_send(fake, pong, sizeof pong);
    }
}

/* A rollout that takes its buckets and gives no slot back is dropped by name once the relay's blocks run out; neither
 * the relay nor its sibling wait for it. */
static void one_that_stopped(void **state)
{
    fleet *f = *state;
    fleet_fake fake;
    weft_wire_hello hello;
    weft_event event;
    weft_peer_info info = {0};
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    char trainer[sizeof f->listen];
    fleet_join(f, 0, FLEET_SAME);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fleet_join(f, 1, FLEET_SAME);
    fleet_wait_state(f, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    memcpy(trainer, f->listen, sizeof trainer);
    snprintf(f->listen, sizeof f->listen, "%s", f->relays[0]);
    fake_open(&fake, f);
    memcpy(f->listen, trainer, sizeof trainer);
    fake_hello(&fake, f, "x4", f->history[0].root, &hello);
    fake_send_hello(&fake, &hello);
    assert_true(fake_read_until(&fake, WEFT_MESSAGE_WELCOME, body, &length));
    fleet_wait_state(f, "x4", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_true(fleet_peer(f, "x4", &info));
    assert_string_equal(info.via, "a");
    uint64_t before = fleet_stats(f->trainer.session).bytes_sent;
    fleet_publish(f, 1000);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
    const char *const both[] = {"a", "b"};
    assert_int_equal(weft_wait(f->trainer.session, f->newest, both, 2, FLEET_WAIT_MS), WEFT_OK);
    assert_true(fleet_peer(f, "a", &info));
    assert_true(info.update_bytes > 5 << 20); /* of tiles of 1 MiB at most */
    assert_in_range(fleet_stats(f->trainer.session).bytes_sent - before, info.update_bytes,
                    info.update_bytes * 11 / 10);
    stay_alive(&fake);
    fake_close(&fake);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_RESYNC, "x4", FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_BUDGET);
    assert_non_null(strstr(event.text, "behind relay a"));
    fleet_wait_state(f, "x4", WEFT_PEER_LOST, FLEET_WAIT_MS);
    fleet_join(f, 6, FLEET_SAME); /* x4 in earnest: it is served alone for a while */
    fleet_wait_state(f, "x4", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fleet_publish(f, 10);
    fleet_catch_up(f, 6);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
    assert_true(fleet_peer(f, "x4", &info));
    assert_string_equal(info.via, "a");
    assert_true(info.bytes > 0);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 1);
}

/* A version that a relay lacks is no reason to stay away: the rollout gets that answer, and goes on to the next relay.
 */
static void what_a_relay_lacks(void **state)
{
    fleet *f = *state;
    fleet_fake fake;
    weft_wire_hello hello;
    weft_wire_notice notice;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    char trainer[sizeof f->listen];
    fleet_join(f, 0, FLEET_SAME);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    memcpy(trainer, f->listen, sizeof trainer);
    snprintf(f->listen, sizeof f->listen, "%s", f->relays[0]);
    fake_open(&fake, f);
    memcpy(f->listen, trainer, sizeof trainer);
    fake_hello(&fake, f, "x4", f->history[0].root, &hello);
    snprintf(hello.provider, sizeof hello.provider, "smoke");
    fake_send_hello(&fake, &hello);
    assert_true(fake_read_until(&fake, WEFT_MESSAGE_REFUSE, body, &length));
    assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
    assert_int_equal(notice.status, WEFT_E_SYSTEM);
    assert_non_null(strstr(notice.text, "smoke"));
    fake_close(&fake);
}

/* Joins, leaves, publishes and commits in random order, under faults of the fabric; then all is well. */
static void any_order(void **state)
{
    fleet *f = *state;
    uint64_t seed = 11;
    const weft_loop_faults faults = {.seed = 3,
                                     .reorder_window = 4,
                                     .corrupt_every = 97,
                                     .fail_every = 211,
                                     .duplicate_every = 0,
                                     .again_every = 13};
    weft_loop_set_faults(&faults);
    for (int i = 0; i < 250; i++) {
        unsigned at = (unsigned)fleet_below(&seed, 6);
        bool open = f->rollouts[at].session != NULL;
        switch (fleet_below(&seed, 6)) {
        case 0:
            if (f->history_count < 60)
                fleet_publish(f, (uint32_t)fleet_below(&seed, 60));
            break;
        case 1:
            if (open && fleet_below(&seed, 4) == 0)
                fleet_leave(f, at);
            break;
        case 2:
            if (!open)
                fleet_join(f, at, fleet_below(&seed, 4) ? FLEET_SAME : FLEET_OTHER);
            break;
        default:
            if (open)
                fleet_commit(f, at, 5);
        }
    }
    weft_loop_set_faults(NULL);
    for (unsigned i = 0; i < 6; i++)
        if (!f->rollouts[i].session)
            fleet_join(f, i, FLEET_SAME);
    for (unsigned i = 0; i < 6; i++)
        fleet_catch_up(f, i);
    fleet_publish(f, 20);
    for (unsigned i = 0; i < 6; i++) {
        fleet_catch_up(f, i);
        assert_int_equal(weft_scrub(f->rollouts[i].session), WEFT_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(one_that_stopped, stopped_fleet),
        FLEET_TEST(what_a_relay_lacks, stopped_fleet),
        FLEET_TEST(any_order, random_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
