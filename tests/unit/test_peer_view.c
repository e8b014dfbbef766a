/* Views that peers take: their places and roots, and how often a name may bring one that nobody had, which takes long
 * to be made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backends/host/host.h"
#include "base/mem.h"
#include "base/status.h"
#include "peer/peer.h"
#include "tests/support/clock_own.h"
#include "tests/support/sim.h"

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

/* A view takes the place of one that no peer takes, and of no other. */
static void places(void **state)
{
    const bool wanted[64] = {true};
    weft_wire_hello hello = {.name = "rank-1"};
    weft_peer_view *view;
    sim *s = sim_open(FLEET_SMALL, 0, 1);
    (void)state;
    sim_cut(s);
    sim_start_trainer(s);
    weft_publisher *publisher = &s->trainer.session->trainer->publisher;
    const uint32_t keys = publisher->session->division.cells.key_count;
    hello.keys = (weft_view_keys){.count = 1, .range = {{keys - 1, 2}}};
    assert_int_equal(weft_peer_view_find(publisher, &hello, &view), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "keys that are not among the trainer's"));
    assert_int_equal(weft_view_keys_of(wanted, keys, &hello.keys), WEFT_OK);
    for (uint32_t i = 0; i < WEFT_PEER_VIEWS; i++) {
        publisher->views.list[i] = weft_mem_take(1, sizeof *view);
        publisher->views.list[i]->peers = 1;
    }
    assert_int_equal(weft_peer_view_find(publisher, &hello, &view), WEFT_E_REFUSED);
    publisher->views.list[7]->peers = 0;
    assert_int_equal(weft_peer_view_find(publisher, &hello, &view), WEFT_OK);
    assert_ptr_equal(publisher->views.list[7], view);
    sim_close(s);
}

static sim *tears; /* whose weights change when its next frame is decoded for the shadow */

static weft_status decode(weft_backend_state *state, weft_decode_job *job)
{
    if (!tears)
        return weft_backend_host.decode(state, job);
    *fleet_model_at(&tears->trainer.model, 0) ^= 1;
    tears = NULL;
    return weft_fail_quiet(WEFT_E_CORRUPT, "of this test");
}

/* A version that is amended has in each view the root of the bits that the shadow has. */
static void a_torn_version(void **state)
{
    weft_wire_hello hello = {.name = "rank-1"};
    weft_peer_view *view;
    weft_backend table = weft_backend_host;
    sim *s = sim_open(FLEET_SMALL, 0, 1);
    (void)state;
    table.decode = decode;
    weft_backend_lend(&table);
    sim_cut(s);
    sim_start_trainer(s);
    weft_publisher *publisher = &s->trainer.session->trainer->publisher;
    const weft_newest *newest = &publisher->newest;
    hello.keys = (weft_view_keys){.count = 1, .range = {{0, publisher->session->division.cells.key_count - 1}}};
    assert_int_equal(weft_peer_view_find(publisher, &hello, &view), WEFT_OK);
    for (int torn = 0; torn < 2; torn++) {
        fleet_change(s->layout, s->dense, 100, &s->seed);
        fleet_model_put(&s->trainer.model, s->dense);
        tears = torn ? s : NULL;
        assert_int_equal(weft_publish(s->trainer.session, ++s->newest, NULL, NULL, NULL), WEFT_OK);
        assert_null(tears);
        assert_int_equal(weft_peer_view_version(view, &newest->version, newest->order).root,
                         weft_excerpt_root(&view->excerpt, publisher->session->layout, newest->digests));
    }
    sim_close(s);
    weft_backend_lend(NULL);
}

/* Of a version whose root over the keys is not known the root stays. */
static void roots(void **state)
{
    static const uint64_t named[] = {9, 50, 60, 9}; /* from order 4 on */
    static const weft_peer_view view = {.oldest = 5, .newest = 6, .roots = {1, 1, 1, 1, 40, 50, 60, 70}};
    (void)state;
    for (uint64_t order = 4; order < 8; order++)
        assert_int_equal(weft_peer_view_version(&view, &(weft_version){1, 2, 9}, order).root, named[order - 4]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_a_second), cmocka_unit_test(each_name_its_first),
        cmocka_unit_test(a_dear_one),   cmocka_unit_test(roots),
        cmocka_unit_test(places),       cmocka_unit_test(a_torn_version), /* have the simulation's clock */
    };
    return cmocka_run_group_tests(tests, set_clock, give_clock);
}
