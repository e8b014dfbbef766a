/* A newcomer with a peer's name is that peer's next life or a second one. It is asked to come again until that is
 * known. */
#include "tests/support/fleet_fake.h"

#include <string.h>

static fleet_fake fakes[2];

static int open_with(void **state, const char *const *overrides)
{
    *state = fleet_open(FLEET_TILES, overrides);
    fleet_start_trainer(*state, NULL);
    fakes[0].fd = fakes[1].fd = -1;
    return 0;
}

static int setup(void **state)
{
    return open_with(state, NULL);
}

static int setup_short(void **state)
{
    static const char *const overrides[] = {"peers.heartbeat=8s", NULL};
    return open_with(state, overrides);
}

static int teardown(void **state)
{
    fake_close(&fakes[0]);
    fake_close(&fakes[1]);
    fleet_close(*state);
    return 0;
}

/* The answer to a newcomer: WEFT_OK, or why it was refused. */
static weft_status knock(fleet *f, const char *name, uint64_t incarnation)
{
    weft_wire_hello hello;
    weft_wire_notice notice = {0};
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fake_close(&fakes[1]);
    fake_open(&fakes[1], f);
    fake_hello(&fakes[1], f, name, f->history[0].root, &hello);
    hello.incarnation = incarnation;
    fake_send_hello(&fakes[1], &hello);
    uint32_t type = fake_read(&fakes[1], body, &length);
    if (type == WEFT_MESSAGE_WELCOME)
        return WEFT_OK;
    assert_int_equal(type, WEFT_MESSAGE_REFUSE);
    assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
    return notice.status;
}

static weft_status knock_on(fleet *f, const char *name, uint64_t incarnation)
{
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    weft_status status = knock(f, name, incarnation);
    for (; status == WEFT_E_SYSTEM && fleet_now_ms() < end; status = knock(f, name, incarnation))
        fleet_sleep_ms(20);
    return status;
}

/* The connection stands, but its other end is gone: a host without power, or a worker that outlived the process. */
static void the_next_life_of_a_silent_one(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    fake_open(&fakes[0], f);
    fake_hello(&fakes[0], f, "b", f->history[0].root, &hello);
    hello.incarnation = 5;
    fake_send_hello(&fakes[0], &hello);
    fleet_wait_state(f, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_int_equal(knock(f, "b", 6), WEFT_E_SYSTEM);
    assert_int_equal(knock_on(f, "b", 6), WEFT_OK);
}

/* Its clock went back: it has to wait until the heartbeat of its former life is over. */
static void an_earlier_incarnation_of_a_silent_one(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    fake_open(&fakes[0], f);
    fake_hello(&fakes[0], f, "b", f->history[0].root, &hello);
    hello.incarnation = 5;
    fake_send_hello(&fakes[0], &hello);
    fleet_wait_state(f, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_int_equal(knock(f, "b", 4), WEFT_E_SYSTEM);
    assert_int_equal(knock_on(f, "b", 4), WEFT_OK);
}

static void a_second_one_beside_a_live_one(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_int_equal(knock(f, "a", UINT64_MAX), WEFT_E_SYSTEM);
    assert_int_equal(knock_on(f, "a", UINT64_MAX), WEFT_E_REFUSED);
    assert_int_equal(knock_on(f, "a", 1), WEFT_E_REFUSED); /* an earlier one neither */
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
}

/* Each gets the answer that the name is taken, although the other asks too. */
static void two_that_ask_in_turn(void **state)
{
    fleet *f = *state;
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    uint32_t refused = 0;
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    while (refused == 0 && fleet_now_ms() < end)
        refused += (knock(f, "a", UINT64_MAX) == WEFT_E_REFUSED) + (knock(f, "a", UINT64_MAX - 1) == WEFT_E_REFUSED);
    assert_int_not_equal(refused, 0);
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
}

/* Neither takes the other's answer, although the bearer is read before each asks. */
static void two_that_ask_slowly(void **state)
{
    fleet *f = *state;
    weft_status said[2] = {WEFT_E_SYSTEM, WEFT_E_SYSTEM};
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    for (unsigned tries = 0; tries < 40; tries++)
        if (said[tries % 2] == WEFT_E_SYSTEM) {
            said[tries % 2] = knock(f, "a", 1 + tries % 2);
            fleet_sleep_ms(100);
        }
    assert_int_equal(said[0], WEFT_E_REFUSED);
    assert_int_equal(said[1], WEFT_E_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_next_life_of_a_silent_one, setup_short, teardown),
        cmocka_unit_test_setup_teardown(an_earlier_incarnation_of_a_silent_one, setup_short, teardown),
        cmocka_unit_test_setup_teardown(a_second_one_beside_a_live_one, setup, teardown),
        cmocka_unit_test_setup_teardown(two_that_ask_in_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(two_that_ask_slowly, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
