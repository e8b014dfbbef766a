/* Ends with several addresses of which one is away, the first above all: peers come by those that are there, and the
 * other is used when it is back. */
#include "tests/support/fleet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/status.h"

/* An address that is away is asked for again after a quarter of io_deadline; no thread stands still for all of it. */
#define SITE "provider.loop.chunk=32KiB", "session.io_deadline=8s", "peers.heartbeat=30s"

static const char *const two[] = {"trainer.address=r0, r1", "peers.address=p0, p1", SITE, NULL};
static const char *const one[] = {"trainer.address=r0, r1", "peers.address=p0", SITE, NULL};

static void set_away(const char *address, bool away)
{
    const weft_loop_faults faults = {.away = true};
    weft_loop_set_rail(address, away ? &faults : NULL);
}

/* ---- an address that becomes another IP: what was opened by it before is of no use any more */

static weft_provider lent;
static const char *moving; /* the address */
static const weft_link *_Atomic opened, *_Atomic stale;

static weft_status open_link(const weft_link_options *options, weft_link **link)
{
    weft_status status = weft_provider_loop.link_open(options, link);
    if (status == WEFT_OK && strcmp(options->address, moving) == 0)
        opened = *link;
    return status;
}

static void close_link(weft_link *link)
{
    if (link == stale)
        stale = NULL;
    weft_provider_loop.link_close(link);
}

static weft_status is_here(const weft_link *link)
{
    return link == stale ? weft_fail_quiet(WEFT_E_CONFIG, "it is another IP now") : weft_provider_loop.link_here(link);
}

static weft_status open_port(weft_link *link, weft_port **port)
{
    weft_status status = is_here(link);
    return status == WEFT_OK ? weft_provider_loop.port_open(link, port) : status;
}

static void lend_moving(const char *address)
{
    lent = weft_provider_loop;
    lent.link_open = open_link;
    lent.link_close = close_link;
    lent.link_here = is_here;
    lent.port_open = open_port;
    moving = address;
    opened = stale = NULL;
    weft_provider_lend(&lent);
}

static int teardown(void **state)
{
    set_away("r0", false);
    set_away("r1", false);
    set_away("p0", false);
    set_away("p1", false);
    fleet_close(*state);
    weft_provider_lend(NULL);
    return 0;
}

static int setup_two(void **state)
{
    *state = fleet_open(FLEET_TILES, two);
    return 0;
}

static int setup_single(void **state)
{
    static const char *const single[] = {"trainer.address=r0", "peers.address=p0", SITE, NULL};
    *state = fleet_open(FLEET_TILES, single);
    return 0;
}

static int setup_one(void **state)
{
    *state = fleet_open(FLEET_TILES, one);
    return 0;
}

/* Returns the bytes that went to the peer by an address so far. */
static uint64_t sent(fleet *f, const char *name, unsigned rail)
{
    const weft_peer_info info = fleet_line(f, name);
    assert_int_equal(info.rail_count, 2);
    return info.rails[rail].bytes;
}

static void wait_up(fleet *f, const char *name, unsigned rail)
{
    for (uint64_t end = fleet_now_ms() + FLEET_WAIT_MS; fleet_line(f, name).rails[rail].up == 0;) {
        assert_true(fleet_now_ms() < end);
        fleet_sleep_ms(2);
    }
}

/* Publishes until the address was used. */
static void publish_until_used(fleet *f, const char *name, unsigned rail)
{
    wait_up(f, name, rail);
    for (uint64_t before = sent(f, name, rail), left = 50; sent(f, name, rail) == before; left--) {
        assert_true(left > 0);
        fleet_publish_all(f, 1, 300);
    }
}

static void check_nobody_lost(fleet *f, uint64_t joined)
{
    const weft_stats_info stats = fleet_stats(f->trainer.session);
    assert_int_equal(stats.peers_joined, joined);
    assert_int_equal(stats.peers_lost, 0);
}

/* The peer goes on without joining again. */
static void when_the_trainer_opens(void **state)
{
    fleet *f = *state;
    set_away("r0", true);
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish_all(f, 1, 300);
    assert_int_equal(fleet_line(f, "a").streams, 1);
    assert_int_equal(sent(f, "a", 0), 0);
    assert_true(sent(f, "a", 1) > 0);
    set_away("r0", false);
    publish_until_used(f, "a", 0);
    assert_int_equal(fleet_line(f, "a").streams, 2);
    check_nobody_lost(f, 1);
}

/* A peer with one address is joined with the first of the trainer's; it comes by the second. */
static void to_a_peer_with_one(void **state)
{
    fleet *f = *state;
    set_away("r0", true);
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_EMPTY);
    fleet_publish_all(f, 1, 300);
    assert_int_equal(sent(f, "a", 0), 0);
    assert_true(sent(f, "a", 1) > 0);
    set_away("r0", false);
    fleet_publish_all(f, 1, 300);
    check_nobody_lost(f, 1);
}

/* One that comes while it is away, after others that came by it. */
static void after_the_first_peer(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish_all(f, 1, 300);
    set_away("r0", true);
    fleet_open_rollout(f, 1, "peers.address=p0");
    fleet_bind_rollout(f, 1, FLEET_SAME, NULL);
    fleet_join(f, 2, FLEET_SAME);
    fleet_publish_all(f, 3, 300);
    assert_true(sent(f, "b", 0) == 0 && sent(f, "b", 1) > 0);
    assert_true(sent(f, "c", 0) == 0 && sent(f, "c", 1) > 0);
    check_nobody_lost(f, 3);
}

/* The second may be as well. */
static void the_other(void **state)
{
    fleet *f = *state;
    set_away("r1", true);
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish_all(f, 1, 300);
    assert_true(sent(f, "a", 0) > 0 && sent(f, "a", 1) == 0);
    set_away("r1", false);
    publish_until_used(f, "a", 1);
    check_nobody_lost(f, 1);
}

/* Without any it does not open, and says which it has. */
static void all_when_it_opens(void **state)
{
    fleet *f = *state;
    weft_session *session = NULL;
    weft_site *site = fleet_site(f, "session.connect_deadline=500ms");
    const uint64_t begin = fleet_now_ms();
    set_away("r0", true);
    set_away("r1", true);
    assert_int_equal(weft_trainer_open(site, f->layout, NULL, &session), WEFT_E_UNREACHABLE);
    assert_true(fleet_now_ms() >= begin + 500);
    assert_non_null(strstr(weft_last_error(), "[trainer] address = r0, r1"));
    assert_non_null(strstr(weft_last_error(), "connect_deadline"));
    weft_site_free(site);
}

/* Some of the opening's time later. */
static void *come_back(void *address)
{
    fleet_sleep_ms(300);
    set_away(address, false);
    return NULL;
}

static void comes_back(pthread_t *thread, char *address)
{
    assert_int_equal(pthread_create(thread, NULL, come_back, address), 0);
}

/* One that comes while the trainer opens will do. */
static void one_comes_as_it_opens(void **state)
{
    fleet *f = *state;
    pthread_t thread;
    set_away("r0", true);
    set_away("r1", true);
    comes_back(&thread, (char[]){"r1"});
    fleet_start_trainer(f, NULL);
    pthread_join(thread, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish_all(f, 1, 300);
    assert_true(sent(f, "a", 0) == 0 && sent(f, "a", 1) > 0);
}

/* The only one, too; and so of a rollout. */
static void the_only_one_comes(void **state)
{
    fleet *f = *state;
    pthread_t thread;
    set_away("r0", true);
    comes_back(&thread, (char[]){"r0"});
    fleet_start_trainer(f, NULL);
    pthread_join(thread, NULL);
    set_away("p0", true);
    comes_back(&thread, (char[]){"p0"});
    fleet_join(f, 0, FLEET_SAME);
    pthread_join(thread, NULL);
    fleet_publish_all(f, 1, 300);
    check_nobody_lost(f, 1);
}

/* A peer that comes while none is there waits for one. */
static void all_for_a_while(void **state)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_start_trainer(f, NULL);
    set_away("r0", true);
    set_away("r1", true);
    fleet_join(f, 0, FLEET_SAME);
    assert_int_equal(weft_staged(f->rollouts[0].session, 300, &staged), WEFT_AGAIN);
    assert_int_equal(fleet_stats(f->trainer.session).peers_joined, 0);
    set_away("r1", false);
    fleet_publish_all(f, 1, 300);
    assert_true(sent(f, "a", 0) == 0 && sent(f, "a", 1) > 0);
}

/* One of the rollout's own addresses is missing. */
static void when_a_rollout_opens(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    set_away("p0", true);
    fleet_join(f, 0, FLEET_EMPTY);
    fleet_publish_all(f, 1, 300);
    assert_true(sent(f, "a", 0) == 0 && sent(f, "a", 1) > 0);
    set_away("p0", false);
    publish_until_used(f, "a", 0);
    assert_string_equal(fleet_stats(f->rollouts[0].session).rails[0].address, "p0");
    check_nobody_lost(f, 1);
}

/* With none it does not open. */
static void all_when_a_rollout_opens(void **state)
{
    fleet *f = *state;
    weft_session *session = NULL;
    weft_site *site = fleet_site(f, "session.connect_deadline=500ms");
    set_away("p0", true);
    set_away("p1", true);
    assert_int_equal(weft_rollout_open(site, "a", f->layout, NULL, &session), WEFT_E_UNREACHABLE);
    weft_site_free(site);
}

/* The ports open by the address fail when it moves; then the rail comes by what it is now. */
static void one_moves(fleet *f, const char *address)
{
    const weft_loop_faults breaks = {.break_at = 1};
    lend_moving(address);
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish_all(f, 1, 300);
    publish_until_used(f, "a", 1);
    stale = opened;
    weft_loop_set_rail("r1", &breaks);
    for (unsigned left = 50; fleet_line(f, "a").rails[1].failures == 0; left--) {
        assert_true(left > 0);
        fleet_publish_all(f, 1, 300);
    }
    weft_loop_set_rail("r1", NULL);
    publish_until_used(f, "a", 1);
    assert_null(stale);
    check_nobody_lost(f, 1);
}

static void the_rollouts_moves(void **state)
{
    one_moves(*state, "p1");
}

/* The trainer opens its address anew after the last port by it is closed. */
static void the_trainers_moves(void **state)
{
    one_moves(*state, "r1");
}

/* One with a single address finds it when it joins anew. */
static void the_only_one_moves(void **state)
{
    fleet *f = *state;
    lend_moving("p0");
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish_all(f, 1, 300);
    fleet_stop_trainer(f);
    stale = opened;
    fleet_start_trainer(f, NULL);
    fleet_publish_all(f, 1, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(when_the_trainer_opens, setup_two, teardown),
        cmocka_unit_test_setup_teardown(to_a_peer_with_one, setup_one, teardown),
        cmocka_unit_test_setup_teardown(after_the_first_peer, setup_two, teardown),
        cmocka_unit_test_setup_teardown(the_other, setup_two, teardown),
        cmocka_unit_test_setup_teardown(all_when_it_opens, setup_two, teardown),
        cmocka_unit_test_setup_teardown(one_comes_as_it_opens, setup_two, teardown),
        cmocka_unit_test_setup_teardown(the_only_one_comes, setup_single, teardown),
        cmocka_unit_test_setup_teardown(all_for_a_while, setup_two, teardown),
        cmocka_unit_test_setup_teardown(when_a_rollout_opens, setup_two, teardown),
        cmocka_unit_test_setup_teardown(all_when_a_rollout_opens, setup_two, teardown),
        cmocka_unit_test_setup_teardown(the_rollouts_moves, setup_two, teardown),
        cmocka_unit_test_setup_teardown(the_trainers_moves, setup_two, teardown),
        cmocka_unit_test_setup_teardown(the_only_one_moves, setup_one, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
