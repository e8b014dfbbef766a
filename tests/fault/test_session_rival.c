/* A newcomer with a peer's name beside the peer: it is asked to come again until it is known that the peer lives. All
 * other cases are rows of unit.peer. */
#include "tests/support/fleet_fake.h"

#include <string.h>

static fleet_fake newcomer;

static void nobody_comes(fleet *f)
{
    (void)f;
    newcomer.fd = -1;
}

static void ended(fleet *f)
{
    (void)f;
    fake_close(&newcomer);
}

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .open = nobody_comes, .close = ended};

/* The answer to a newcomer: WEFT_OK, or why it was refused. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(a_second_one_beside_a_live_one, plain_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
