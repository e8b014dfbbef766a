/* What a trainer says of its peers: who is waited for, and the records that fit the caller's array. The peers are made
 * up, in each state that decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/plan.h"
#include "base/status.h"
#include "peer/peer.h"
#include "tests/support/site_load.h"

#define RUN    UINT64_C(77)
#define NEWEST UINT64_C(5)

static weft_site *site;
static weft_session *session;
static weft_trainer *trainer;

static int begin(void **state)
{
    (void)state;
    site = load("[session]\nprogress = manual\n[peers]\nprovider = loop\n[peer.a]\n");
    session = calloc(1, sizeof *session);
    trainer = calloc(1, sizeof *trainer);
    pthread_mutex_init(&session->lock, NULL);
    weft_turn_open(&session->turn);
    session->site = site;
    session->trainer = trainer;
    trainer->session = trainer->publisher.session = session;
    trainer->publisher.peers = &trainer->peers;
    trainer->publisher.run = RUN;
    trainer->publisher.bound = true;
    trainer->publisher.newest.version = (weft_version){RUN, NEWEST, 9};
    trainer->publisher.newest.order = NEWEST;
    trainer->peers = (weft_peer_table){.list = calloc(4, sizeof(weft_peer)), .count = 4};
    assert_int_equal(weft_journal_open(&trainer->publisher.journal, 1 << 20, 4096), WEFT_OK);
    return 0;
}

static int end(void **state)
{
    (void)state;
    weft_journal_close(&trainer->publisher.journal);
    free(trainer->peers.list);
    free(trainer);
    free(session);
    weft_site_free(site);
    return 0;
}

static weft_peer *put(unsigned at, const char *name, weft_peer_state state, weft_version held, uint64_t order)
{
    weft_peer *peer = &trainer->peers.list[at];
    *peer = (weft_peer){.session = session, .state = state, .claim.known = true};
    snprintf(peer->claim.name, sizeof peer->claim.name, "%s", name);
    peer->standing.held = held;
    peer->standing.held_order = order;
    return peer;
}

/* Waits for version 4, without waiting. */
static void who_is_waited_for(void **state)
{
    static const struct {
        weft_peer_state state;
        uint64_t run, number, order;
        weft_status status;
    } rows[] = {
        {WEFT_PEER_LIVE, RUN, 4, 4, WEFT_OK},
        {WEFT_PEER_LIVE, RUN, 5, 5, WEFT_OK}, /* a later one of this run */
        {WEFT_PEER_CATCHING_UP, RUN, 3, 3, WEFT_E_TIMEOUT},
        {WEFT_PEER_CATCHING_UP, RUN - 1, 9, 3, WEFT_E_TIMEOUT},              /* of another run */
        {WEFT_PEER_CATCHING_UP, RUN, 4, WEFT_ORDER_UNKNOWN, WEFT_E_TIMEOUT}, /* the attachment is on its way */
        {WEFT_PEER_LOST, RUN, 3, 3, WEFT_E_PEER_LOST},
        {WEFT_PEER_LOST, RUN, 4, 4, WEFT_OK}, /* it proved that before */
    };
    const char *a = "a", *nobody = "nobody";
    (void)state;
    assert_int_equal(weft_wait(session, 4, NULL, 0, 0), WEFT_OK); /* no peer has joined */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put(2, "a", rows[i].state, (weft_version){rows[i].run, rows[i].number, 9}, rows[i].order);
        assert_int_equal(weft_wait(session, 4, &a, 1, 0), rows[i].status);
        assert_int_equal(weft_wait(session, 4, NULL, 0, 0), rows[i].status);
        if (rows[i].status != WEFT_OK)
            assert_non_null(strstr(weft_last_error(), ": a") ?: strstr(weft_last_error(), "by a"));
    }
    assert_int_equal(weft_wait(session, 4, &nobody, 1, 0), WEFT_E_TIMEOUT);
    assert_int_equal(weft_wait(session, NEWEST + 1, &a, 1, 0), WEFT_E_STATE);
}

/* No entry is written past the capacity, and none beyond the room of the first; the count says how many there are. */
static void peers_fit_the_array(void **state)
{
    char memory[3 * sizeof(weft_peer_info)];
    weft_peer_info *peers = (weft_peer_info *)memory;
    const size_t short_size = offsetof(weft_peer_info, level);
    size_t count = 0;
    (void)state;
    for (unsigned at = 0; at < 3; at++)
        put(at, (const char *[]){"a", "b", "c"}[at], WEFT_PEER_LIVE, (weft_version){RUN, NEWEST, 9}, NEWEST);
    assert_int_equal(weft_peers(session, NULL, 0, &count), WEFT_OK);
    assert_int_equal(count, 3);
    memset(memory, 0x55, sizeof memory);
    peers[0].size = short_size;
    assert_int_equal(weft_peers(session, peers, 2, &count), WEFT_OK);
    assert_int_equal(count, 3);
    weft_peer_info *second = (weft_peer_info *)(memory + short_size);
    assert_int_equal(peers[0].size, short_size);
    assert_int_equal(second->size, short_size);
    assert_string_equal(peers[0].name, "a");
    assert_string_equal(second->name, "b");
    for (size_t i = 2 * short_size; i < sizeof memory; i++)
        assert_int_equal(memory[i], 0x55);
}

/* What weft check compares with this host: slots for the largest bucket, and headers for guests as for peers. */
static void plans_count_all(void **state)
{
    weft_site_peer peer = {.window = 3, .bucket_min = 1 << 16, .bucket_max = 1 << 20};
    (void)state;
    assert_true(weft_plan_slots(&peer) >= 3 << 20);
    const uint64_t one = weft_plan_slots(&peer);
    peer.window = 6;
    assert_int_equal(weft_plan_slots(&peer), 2 * one);
    site->trainer.max_peers = 1;
    const uint64_t few = weft_plan_trainer(site, 100), slots = weft_trainer_slots(site);
    assert_int_equal(weft_plan_trainer(site, 107), few + 7);
    assert_true(few >= 100 + (1 + WEFT_GUESTS) * slots * WEFT_HEADER_STRIDE + WEFT_SLABS_MAX * WEFT_SIZE_SLAB_MOST);
    site->trainer.max_peers = 3;
    assert_int_equal(weft_plan_trainer(site, 100), few + 2 * slots * WEFT_HEADER_STRIDE);
    weft_site *none = load("[trainer]\nbackend = host\n"); /* no peer has a row */
    assert_int_equal(weft_trainer_slots(none), 1);
    weft_site_free(none);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(who_is_waited_for), TEST(peers_fit_the_array), TEST(plans_count_all)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
