/* How often a name may bring a view that nobody had, which takes long to be made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "peer/peer_view.h"
#include "tests/support/clock_own.h"

static bool hurries(weft_peer_views *views, uint32_t name)
{
    static weft_wire_hello hello;
    snprintf(hello.name, sizeof hello.name, "rank-%u", name);
    hello.keys.count = 1;
    return weft_peer_view_hurries(views, &hello);
}

/* Whether or not the peer joined by its first one: no record is asked. */
static void one_a_second(void **state)
{
    (void)state;
    static weft_peer_views views;
    uint32_t made = 0;
    for (int i = 0; i < 10000; i++, own_now += WEFT_NS_PER_MS)
        made += !hurries(&views, 1);
    assert_int_equal(made, 11); /* the first is not counted */
}

/* A fleet that starts at once. */
static void each_name_its_first(void **state)
{
    (void)state;
    static weft_peer_views views;
    for (uint32_t view = 0; view < 3; view++)
        for (uint32_t name = 0; name < WEFT_VIEW_NAMES; name++)
            assert_int_equal(hurries(&views, name), view == 2);
}

/* A view that took long costs its name a longer pause, and no other name. */
static void a_dear_one(void **state)
{
    (void)state;
    static weft_peer_views views;
    assert_false(hurries(&views, 1));
    weft_peer_view_took(&views, "rank-1", 500 * WEFT_NS_PER_MS);
    own_now += 9999 * WEFT_NS_PER_MS;
    assert_true(hurries(&views, 1));
    assert_false(hurries(&views, 2));
    own_now += WEFT_NS_PER_MS;
    assert_false(hurries(&views, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_a_second),
        cmocka_unit_test(each_name_its_first),
        cmocka_unit_test(a_dear_one),
    };
    return cmocka_run_group_tests(tests, set_clock, give_clock);
}
