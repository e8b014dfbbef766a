/* A rollout that joins and then only sends PING keeps its name and place while no other wants them. After io_deadline
 * and a heartbeat it makes room, and until then the newcomer is asked to come again. */
#include "tests/support/fleet_fake.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define STAYS_MS 3500u /* as the overrides have it */

static fleet_fake idle, newcomer;

static int open_with(void **state, const char *last)
{
    const char *overrides[] = {
        "session.io_deadline=500ms", "peers.heartbeat=3s", "peer.a.heartbeat=60s", "peer.c.heartbeat=60s", last, NULL};
    *state = fleet_open(FLEET_TILES, overrides);
    fleet_start_trainer(*state, NULL);
    idle.fd = newcomer.fd = -1;
    return 0;
}

static int setup(void **state)
{
    return open_with(state, NULL);
}

static int setup_full(void **state)
{
    return open_with(state, "trainer.max_peers=3");
}

static int teardown(void **state)
{
    fake_close(&idle);
    fake_close(&newcomer);
    fleet_close(*state);
    return 0;
}

/* Joins as b and holds nothing. */
static void join_idle(fleet *f)
{
    weft_wire_hello hello;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fake_open(&idle, f);
    fake_hello(&idle, f, "b", 0, &hello);
    hello.holds = false;
    hello.incarnation = 1000;
    fake_send_hello(&idle, &hello);
    assert_true(fake_read_until(&idle, WEFT_MESSAGE_WELCOME, body, &length));
}

/* Sends PING and ignores all answers; false: the connection was closed. */
static bool say_ping(void)
{
    static const uint8_t ping[WEFT_MESSAGE_PREFIX + 8] = {8, 0, 0, 0, WEFT_MESSAGE_PING, 0, 0, 0};
    uint8_t ignored[4096];
    const ssize_t got = recv(idle.fd, ignored, sizeof ignored, MSG_DONTWAIT);
    fake_send(&idle, ping, sizeof ping);
    return got != 0;
}

static void ping_for(uint32_t ms)
{
    const uint64_t end = fleet_now_ms() + ms;
    while (fleet_now_ms() < end) {
        assert_true(say_ping());
        fleet_sleep_ms(50);
    }
}

/* The answer to a newcomer. */
static weft_status knock(fleet *f, const char *name, uint64_t incarnation)
{
    weft_wire_hello hello;
    weft_wire_notice notice = {0};
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fake_close(&newcomer);
    fake_open(&newcomer, f);
    fake_hello(&newcomer, f, name, f->history[0].root, &hello);
    hello.incarnation = incarnation;
    fake_send_hello(&newcomer, &hello);
    uint32_t type = fake_read(&newcomer, body, &length);
    if (type == WEFT_MESSAGE_WELCOME)
        return WEFT_OK;
    assert_int_equal(type, WEFT_MESSAGE_REFUSE);
    assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
    if (notice.status == WEFT_E_SYSTEM && !strstr(notice.text, "gives way in "))
        fail_msg("\"%s\" does not say for how long", notice.text);
    return notice.status;
}

/* Comes again until it is let in, which takes as long as the idle one stays. */
static void knock_on(fleet *f, const char *name, uint64_t incarnation, uint64_t joined_ms)
{
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    weft_status status = knock(f, name, incarnation);
    for (; status == WEFT_E_SYSTEM && fleet_now_ms() < end; status = knock(f, name, incarnation)) {
        assert_true(say_ping());
        fleet_sleep_ms(20);
    }
    if (status != WEFT_OK)
        fail_msg("refused: %s", weft_status_name(status));
    assert_true(fleet_now_ms() >= joined_ms + STAYS_MS);
}

static void must_have_given_way(fleet *f)
{
    weft_event event;
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, "b", FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_PEER_LOST);
    if (!strstr(event.text, "gives way to"))
        fail_msg("%s", event.text);
}

/* Not its next life, and not the same one. */
static void its_name(void **state)
{
    fleet *f = *state;
    const uint64_t begun_ms = fleet_now_ms();
    join_idle(f);
    knock_on(f, "b", 999, begun_ms);
    must_have_given_way(f);
    fleet_wait_state(f, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
}

static void its_place(void **state)
{
    fleet *f = *state;
    const uint64_t begun_ms = fleet_now_ms();
    join_idle(f);
    for (unsigned at = 0; at <= 2; at += 2) {
        fleet_join(f, at, FLEET_SAME);
        fleet_catch_up(f, at);
    }
    knock_on(f, "x1", 1, begun_ms);
    must_have_given_way(f);
    fleet_wait_state(f, "x1", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fake_close(&idle);
    idle = newcomer; /* and stays */
    newcomer = (fleet_fake){.fd = -1};
    assert_int_equal(knock(f, "x2", 1), WEFT_E_REFUSED); /* those who hold a version keep theirs */
}

/* No other wants the name, so an engine may warm up as long as it likes. */
static void not_without_need(void **state)
{
    fleet *f = *state;
    weft_peer_info info = {0};
    join_idle(f);
    ping_for(STAYS_MS * 3 / 2);
    assert_true(fleet_peer(f, "b", &info));
    assert_int_not_equal(info.state, WEFT_PEER_LOST);
    assert_int_equal(knock(f, "c", 1), WEFT_OK); /* there is room */
    assert_true(say_ping());
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(its_name, setup, teardown),
        cmocka_unit_test_setup_teardown(its_place, setup_full, teardown),
        cmocka_unit_test_setup_teardown(not_without_need, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
