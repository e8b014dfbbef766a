/* The guest that makes room: of the host with the most guests, the one that sent least, and of those the oldest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire/guest.h"

#define MOST 32u

static weft_control controls[MOST];
static weft_guest guests[MOST];

/* "1s" is a silent guest from host 1, "2k" a guest from host 2 that knocked, "3l" a guest that is being answered. They
 * came in this order. */
static uint32_t pick(const char *text)
{
    uint32_t count = 0;
    for (const char *at = text; at[0]; at += at[2] ? 3 : 2, count++) {
        snprintf(controls[count].peer, sizeof controls[count].peer, at[0] < '5' ? "192.0.2.%c:%u" : "[2001:db8::%c]:%u",
                 at[0], 40000 + count);
        controls[count].nonce = at[1] == 'k';
        guests[count] = (weft_guest){&controls[count], 1000 + count, at[1] == 'l', count};
    }
    return weft_guest_pick(guests, count);
}

static void of_one_host(void **state)
{
    (void)state;
    assert_int_equal(pick("1s"), 0);
    assert_int_equal(pick("1s 1s 1s"), 0);
    assert_int_equal(pick("1k 1s 1s"), 1);
    assert_int_equal(pick("1k 1l 1k"), 0);
    assert_int_equal(pick("1l 1l 1k"), 2);
    assert_int_equal(pick("1l 1l 1l"), 0);
}

static void of_several_hosts(void **state)
{
    (void)state;
    assert_int_equal(pick("1s 2s 2s"), 1);
    assert_int_equal(pick("1s 2k 2k"), 1); /* however much it says, it has more than others */
    assert_int_equal(pick("1s 2l 2l 2k"), 3);
    assert_int_equal(pick("1s 2s 3s 4s"), 0); /* alike: the oldest */
    assert_int_equal(pick("1k 2k 3s 4s"), 2);
    assert_int_equal(pick("1s 1s 2s 2s 2s 1s 3s"), 0);
    assert_int_equal(pick("6s 7s 7s 1s"), 1);
    assert_int_equal(pick("1s 6s 6s 1s 6k"), 1);
}

/* A guest that came alone never makes room while another host floods. */
static void never_one_that_came_alone(void **state)
{
    (void)state;
    for (uint32_t flood = 2; flood < MOST; flood++)
        for (uint32_t alone = 0; alone <= flood; alone++) {
            char text[3 * MOST + 1] = "";
            for (uint32_t at = 0; at <= flood; at++)
                snprintf(text + 3 * at, sizeof text - 3 * at, at == alone ? "1s " : "2k ");
            assert_int_not_equal(pick(text), alone);
        }
}

/* The site gives each address two guests, of whatever ports; the newcomer is none yet. */
static void one_more_than_an_address_has(void **state)
{
    static const struct {
        const char *text;
        bool more;
    } rows[] = {{"1s", false},       {"1s 2s 3s 4s", false}, {"1s 1s", false},      {"2s 2s 1s", false},
                {"1s 1k 1s", true},  {"1l 1l 1s", true},     {"1s 2s 1s", false},   {"1s 2s 1s 2s 1s", true},
                {"6s 7s 6s", false}, {"6s 7s 6k 6s", true},  {"1s 1s 2s 6s", false}};
    const weft_site site = {.guests = {.of_address = 2}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint32_t count = (uint32_t)(strlen(rows[i].text) + 1) / 3;
        pick(rows[i].text);
        if (weft_guest_is_one_more(&site, guests, count, &controls[count - 1]) != rows[i].more)
            fail_msg("%s", rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one_host),
        cmocka_unit_test(of_several_hosts),
        cmocka_unit_test(never_one_that_came_alone),
        cmocka_unit_test(one_more_than_an_address_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
