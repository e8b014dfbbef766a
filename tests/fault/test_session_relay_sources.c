/* A relay of several sources: it serves the ranks behind it with what each source sends, from a port for each. Each
 * source sends one copy for the relay and for those of its view, and a rank goes on by itself when the relay is gone.
 */
#include "tests/support/source_rank.h"

#include <string.h>

#include "peer/peer.h"

static int begin(unsigned relays)
{
    source_world_open(&w, 11);
    source_relay_begin(&w, relays);
    w.turn = turns;
    source_run_whole(&w, 3, 5);
    w.rank_count = 3;
    return 0;
}

/* The relay is rank 0; ranks 1 and 2 are behind it. */
static int setup(void **state)
{
    (void)state;
    return begin(1);
}

/* Rank 1 is a relay behind rank 0, and rank 2 is behind rank 1. */
static int setup_chain(void **state)
{
    (void)state;
    return begin(2);
}

/* Takes the whole model, or a view that is drawn. */
static void open_rank(unsigned i, bool whole, bool empty)
{
    rank *r = &w.ranks[i];
    part_open(&w, &r->has);
    for (uint64_t c = 0; whole && c < w.cells.count; c++)
        part_add(&r->has, w.cells.cells[c].slice);
    if (!whole)
        source_view_draw(&w, r);
    if (!empty)
        part_put(&w, &r->has, w.dense);
    source_rank_open(&w, i, NULL, empty);
}

static bool commits(unsigned i)
{
    weft_staged_info info = {.size = sizeof info};
    weft_version held;
    if (!w.ranks[i].session || weft_staged(w.ranks[i].session, 0, &info) != WEFT_OK)
        return false;
    w.ranks[i].blocked = true;
    const weft_status status = weft_commit(w.ranks[i].session, info.target.number, NULL, 0, &held);
    w.ranks[i].blocked = false;
    if (status != WEFT_E_PASSED &&
        status != WEFT_E_PEER_LOST) /* of a snapshot, and of a source that went with the relay */
        fleet_need(status, "commit");
    source_check(&w, &w.ranks[i]);
    return true;
}

static bool holds_newest(unsigned i)
{
    weft_version held;
    return w.ranks[i].session && weft_held(w.ranks[i].session, &held) == WEFT_OK && held.run == w.run &&
           held.number == w.newest;
}

/* Goes on until the ranks from `first` on hold the newest version. */
static void all_hold(unsigned first)
{
    bool all = false;
    for (unsigned i = 0; i < MOST && !all; i++) {
        all = true;
        round_of();
        for (unsigned r = first; r < w.rank_count; r++) {
            commits(r);
            all = all && (!w.ranks[r].session || holds_newest(r));
        }
    }
    assert_true(all);
    for (unsigned i = 0; i < 50; i++) /* until the sources know */
        round_of();
}

static void publish(unsigned first)
{
    source_publish(&w, 100);
    for (unsigned i = 0; i < w.source_count; i++)
        source_go_to(&w, &w.sources[i], w.newest);
    all_hold(first);
}

/* Returns the row that a source has for a rank. */
static weft_peer_info told(unsigned source, const char *name)
{
    weft_peer_info infos[8], found = {0};
    size_t count = 0;
    infos[0].size = sizeof infos[0];
    fleet_need(weft_peers(w.sources[source].session, infos, 8, &count), "peers");
    for (size_t i = 0; i < count && i < 8; i++)
        if (!strcmp(infos[i].name, name))
            found = infos[i];
    return found;
}

static void one_copy_of_each_source(void **state)
{
    (void)state;
    open_rank(0, true, false);
    all_hold(0);
    open_rank(1, true, false);
    open_rank(2, false, false);
    all_hold(0);
    for (unsigned i = 0; i < 4; i++)
        publish(0);
    for (unsigned s = 0; s < w.source_count; s++) {
        const weft_peer_info relay = told(s, "rank0"), same = told(s, "rank1");
        assert_string_equal(same.via, "rank0");
        assert_int_equal(same.state, WEFT_PEER_LIVE);
        assert_int_equal(same.held.number, w.newest);
        assert_true(relay.bytes > 0);
        assert_int_equal(same.bytes, 0); /* nothing was sent for this rank alone */
    }
    const weft_joint *joint = w.ranks[2].session->joint;
    for (uint32_t i = 0; i < joint->count; i++)
        assert_string_equal(told(joint->ends[i]->joining.route.source - 1, "rank2").via, "rank0");
}

static void one_copy_by_two_relays(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        open_rank(i, true, false);
        all_hold(0);
    }
    for (unsigned i = 0; i < 8; i++)
        publish(0);
    for (unsigned s = 0; s < w.source_count; s++) {
        assert_string_equal(told(s, "rank2").via, "rank1");
        assert_int_equal(told(s, "rank2").held.number, w.newest);
        assert_int_equal(told(s, "rank1").bytes, 0);
        assert_int_equal(told(s, "rank2").bytes, 0);
    }
}

/* A wish stirs the relay before the rank alone, because nobody else waits for that rank. */
static void a_wish_stirs_the_relay_alone(void **state)
{
    (void)state;
    open_rank(0, true, false);
    all_hold(0);
    open_rank(1, true, false);
    all_hold(0);
    weft_trainer *trainer = w.sources[0].session->trainer;
    for (unsigned i = 0; i < 20; i++) {
        fleet_need(weft_wishing_want(w.ranks[1].session->joint->ends[0], w.newest + 7 + i), "want");
        for (unsigned step = 0; step < 3; step++) {
            fleet_step(w.ranks[1].session);
            fleet_step(w.ranks[0].session);
            fleet_step(w.sources[0].session);
            assert_false(trainer->peers.again);
        }
    }
}

/* A rank without weights gets a snapshot of each source through the relay. */
static void snapshots_come_through(void **state)
{
    (void)state;
    open_rank(0, true, false);
    publish(0);
    open_rank(1, true, true);
    all_hold(0);
    for (unsigned s = 0; s < w.source_count; s++) {
        assert_string_equal(told(s, "rank1").via, "rank0");
        assert_true(told(s, "rank1").snapshot_bytes > 0);
    }
    publish(0);
}

static void a_relay_that_dies_leaves_its_ranks_to_the_sources(void **state)
{
    (void)state;
    open_rank(0, true, false);
    all_hold(0);
    open_rank(1, true, false);
    open_rank(2, false, false);
    all_hold(0);
    source_publish(&w, 300);
    for (unsigned i = 0; i < w.source_count; i++)
        source_go_to(&w, &w.sources[i], w.newest);
    for (unsigned i = 0; i < 5; i++) /* the update is under way */
        round_of();
    source_rank_kill(&w.ranks[0]);
    all_hold(1);
    publish(1);
    for (unsigned s = 0; s < w.source_count; s++)
        assert_string_equal(told(s, "rank1").via, "");
}

/* A source that is restarted alone is found again through the relay. */
static void a_source_that_comes_back_is_joined_through_the_relay(void **state)
{
    (void)state;
    open_rank(0, true, false);
    all_hold(0);
    open_rank(1, true, false);
    all_hold(0);
    source_kill(&w.sources[1]);
    source_publish(&w, 100);
    source_go_to(&w, &w.sources[0], w.newest);
    source_go_to(&w, &w.sources[2], w.newest);
    for (unsigned i = 0; i < 500; i++)
        round_of();
    assert_false(holds_newest(0) || holds_newest(1));
    source_start(&w, 1);
    source_go_to(&w, &w.sources[1], w.newest);
    all_hold(0);
    publish(0);
}

static void ports_that_do_not_go_so_far_are_refused(void **state)
{
    weft_trainer_source sources[SOURCES];
    weft_session *session = NULL;
    weft_site *site = source_site(&w, "peer.rank0.relay=127.0.0.1:65534");
    weft_options options = {.size = sizeof options, .sources = sources, .source_count = 3};
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        sources[i] = (weft_trainer_source){w.sources[i].listen, w.sources[i].has.slices, w.sources[i].has.count};
    assert_int_equal(weft_rollout_open(site, "rank0", w.layout, &options, &session), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "no port for source 2"));
    weft_site_free(site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_copy_of_each_source, setup, rank_teardown),
        cmocka_unit_test_setup_teardown(one_copy_by_two_relays, setup_chain, rank_teardown),
        cmocka_unit_test_setup_teardown(a_wish_stirs_the_relay_alone, setup, rank_teardown),
        cmocka_unit_test_setup_teardown(snapshots_come_through, setup, rank_teardown),
        cmocka_unit_test_setup_teardown(a_relay_that_dies_leaves_its_ranks_to_the_sources, setup, rank_teardown),
        cmocka_unit_test_setup_teardown(a_source_that_comes_back_is_joined_through_the_relay, setup, rank_teardown),
        cmocka_unit_test_setup_teardown(ports_that_do_not_go_so_far_are_refused, setup, rank_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
