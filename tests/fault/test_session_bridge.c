/* Peers that lack versions take what they lack as one update, which is made beside all other work. */
#include "tests/support/fleet_direct.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peer/peer.h"

/* A merge that is made, or given up, keeps no update of the journal: else its memory could never be used again. */
static void check_pins(fleet *f)
{
    uint32_t pins = 1;
    for (unsigned i = 0; f->trainer.session && pins > 0 && i < FLEET_WAIT_MS; i++) {
        weft_session *session = f->trainer.session;
        weft_journal *journal = &session->trainer->publisher.journal;
        weft_log_sink *before = weft_session_enter(session);
        pins = 0;
        for (uint64_t order = journal->oldest; order < journal->next; order++) {
            const weft_update *update = weft_journal_at(journal, order);
            pins += update ? update->pins : 0;
        }
        weft_session_leave(session, before);
        if (pins > 0)
            usleep(1000);
    }
    if (f->trainer.session)
        assert_int_equal(pins, 0);
}

#define JOURNAL "trainer.journal=256MiB" /* a block a version is 1 MiB */

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH(JOURNAL),
                                       .attachment = "attached", .close = check_pins};

/* For what counts merges: a peer whose link seems slow for a moment would have the next version as tight, by one more.
 */
static const fleet_kind fast_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH(JOURNAL, "peers.level=fast"),
                                      .attachment = "attached", .close = check_pins};

/* Merges are made of both ends' bits. */
static const fleet_kind tight_fleet = {FLEET_TILES, .starts = true,
                                       .overrides = FLEET_WITH(JOURNAL, "peers.level=tight"), .attachment = "attached",
                                       .close = check_pins};

/* A lost bucket is given up at this deadline, because nothing else shortens it: not the fleet's 30 s. */
#define SOON "session.io_deadline=5s"

static const fleet_kind soon_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH(JOURNAL, SOON),
                                      .attachment = "attached", .close = check_pins};

static const fleet_kind soon_tight_fleet = {FLEET_TILES, .starts = true,
                                            .overrides = FLEET_WITH(JOURNAL, "peers.level=tight", SOON),
                                            .attachment = "attached", .close = check_pins};

static uint64_t updates_at(fleet *f, unsigned at)
{
    return fleet_stats(f->rollouts[at].session).versions;
}

/* A peer that was away for eight versions receives what lies between, once, and not eight updates. */
static void rejoining(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 8; i++)
        fleet_publish(f, 12);
    fleet_join_bits(f, 0, f->history[0].dense);
    fleet_catch_up(f, 0);
    uint64_t direct = fleet_direct_bytes(f, 0, 8, "fast");
    weft_peer_info a = fleet_line(f, "a");
    print_message("received %llu bytes, a direct update has %llu\n", (unsigned long long)a.bytes,
                  (unsigned long long)direct);
    assert_int_equal(updates_at(f, 0), 1);
    assert_int_equal(a.snapshot_bytes, 0);
    assert_true(a.bytes * 100 <= direct * 105);
    assert_int_equal(fleet_stats(f->trainer.session).merges, 1);
    fleet_join_bits(f, 1, f->history[0].dense);
    fleet_catch_up(f, 1);
    assert_int_equal(fleet_stats(f->trainer.session).merges, 1); /* the merge to the newest version is kept */
    const weft_bridge *bridge = &f->trainer.session->trainer->publisher.bridge;
    assert_true(atomic_load(&bridge->blocks) > 0);
    for (int i = 0; i < 2; i++) {
        fleet_publish(f, 12);
        fleet_catch_up(f, 0);
        fleet_catch_up(f, 1);
    }
    assert_int_equal(fleet_stats(f->trainer.session).merges, 1); /* the next alone is no merge */
    assert_int_equal(atomic_load(&bridge->blocks), 0);           /* and nobody needs the merge of before */
}

/* Three at one base share one merged update; one at another base has its own. */
static void shared(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 5; i++)
        fleet_publish(f, 30);
    for (unsigned at = 0; at < 3; at++)
        fleet_join_bits(f, at, f->history[0].dense);
    fleet_join_bits(f, 3, f->history[2].dense);
    for (unsigned at = 0; at < 4; at++) {
        fleet_catch_up(f, at);
        assert_int_equal(updates_at(f, at), 1);
    }
    assert_int_equal(fleet_stats(f->trainer.session).merges, 2);
}

/* One that takes its time skips: what was sent is finished, the rest comes as one. */
static void a_slow_one_skips(void **state)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_publish(f, 20);
    fleet_catch_up(f, 1);
    uint64_t before = updates_at(f, 0);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    for (int i = 0; i < 9; i++) {
        fleet_publish(f, 20);
        fleet_catch_up(f, 1);
    }
    assert_int_equal(fleet_commit(f, 0, FLEET_WAIT_MS), WEFT_OK);
    fleet_check_bytes(f, 0, f->history[1].dense);
    fleet_catch_up(f, 0);
    assert_true(updates_at(f, 0) <= before + 3); /* one may have been sent ahead */
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
}

/* Publishes go on while merges are made and sent: every peer ends at the newest bits. */
static void publishes_meanwhile(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 6; i++)
        fleet_publish(f, 100);
    for (unsigned at = 0; at < 4; at++) {
        fleet_join_bits(f, at, f->history[at].dense);
        for (int i = 0; i < 4; i++)
            fleet_publish(f, 60);
    }
    for (int i = 0; i < 15; i++) {
        fleet_publish(f, 40);
        fleet_commit(f, (unsigned)i % 4, 20);
    }
    for (unsigned at = 0; at < 4; at++) {
        fleet_catch_up(f, at);
        assert_int_equal(fleet_line(f, f->rollouts[at].name).snapshot_bytes, 0);
    }
}

/* Units of which all changed at some version, and units of which nothing did. */
static void with_dense_versions(void **state)
{
    fleet *f = *state;
    fleet_publish(f, 20);
    fleet_publish(f, 1000);
    fleet_publish(f, 0);
    fleet_publish(f, 20);
    fleet_join_bits(f, 0, f->history[0].dense);
    fleet_catch_up(f, 0);
    assert_int_equal(updates_at(f, 0), 1);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
}

/* Versions of which none changes a unit wholly, and which do together: no frame of steps is shorter than the unit. */
static void that_change_all(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 14; i++)
        fleet_publish(f, 300);
    fleet_join_bits(f, 0, f->history[0].dense);
    fleet_catch_up(f, 0);
    assert_int_equal(updates_at(f, 0), 1);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
    assert_int_equal(fleet_stats(f->trainer.session).merges, 1);
}

/* The link fails while a merged update is under way. */
static void lost_in_the_middle(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 4; i++)
        fleet_publish(f, 300);
    const weft_loop_faults faults = {.seed = 5, .drop_every = 3};
    weft_loop_set_faults(&faults);
    for (unsigned at = 0; at < 2; at++)
        fleet_join_bits(f, at, f->history[0].dense);
    for (int i = 0; i < 10; i++)
        for (unsigned at = 0; at < 2; at++)
            fleet_commit(f, at, 30);
    fleet_recover(f, 2);
}

/* The trainer closes while merges are wanted and made. */
static void closed_meanwhile(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 6; i++)
        fleet_publish(f, 300);
    for (unsigned at = 0; at < 4; at++)
        fleet_join_bits(f, at, f->history[at].dense);
    fleet_stop_trainer(f);
    fleet_start_trainer(f, "attached");
    for (unsigned at = 0; at < 4; at++)
        fleet_catch_up(f, at);
}

/* A journal of eight blocks of 2 MiB: versions of large models fill it, and merges keep to their share. */
static const fleet_kind full_fleet = {FLEET_LARGE, .starts = true, .overrides = FLEET_WITH("peers.staging=64MiB"),
                                      .attachment = "attached", .close = check_pins};

/* One version changes too much for a merge's share of the journal. Then single updates serve while they are kept. */
static void out_of_room(void **state)
{
    fleet *f = *state;
    for (int i = 0; i < 2; i++)
        fleet_publish(f, 1000);
    fleet_publish(f, 1);
    fleet_join_bits(f, 0, f->history[1].dense);
    fleet_catch_up(f, 0);
    assert_int_equal(fleet_stats(f->trainer.session).merges, 0);
    assert_true(fleet_stats(f->trainer.session).journal_bytes <= 16u << 20);
}

/* True if the bridge has nothing left to do; `most` is the most blocks that it had. */
static bool bridge_rests(fleet *f, uint32_t *most)
{
    weft_session *session = f->trainer.session;
    const weft_bridge *bridge = &session->trainer->publisher.bridge;
    bool rests = true;
    pthread_mutex_lock(&session->lock);
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_bridged_state now = bridge->entries[i].state;
        rests = rests && now != WEFT_BRIDGED_WANTED && now != WEFT_BRIDGED_MAKING;
    }
    *most = bridge->blocks > *most ? bridge->blocks : *most;
    pthread_mutex_unlock(&session->lock);
    return rests;
}

/* Sixty-four blocks of 2 MiB. */
static const fleet_kind wide_fleet = {FLEET_LARGE, .starts = true,
                                      .overrides = FLEET_WITH("peers.staging=64MiB", "trainer.journal=128MiB"),
                                      .attachment = "attached", .close = check_pins};

/* Rollouts that never commit, each with a merged update of its own: together they would have the whole share, of which
 * they leave a part to snapshots and repairs. */
static void that_never_commit(void **state)
{
    fleet *f = *state;
    const weft_bridge *bridge = &f->trainer.session->trainer->publisher.bridge;
    uint32_t most = 0, rests = 0;
    for (int i = 0; i < 9; i++)
        fleet_publish(f, 150);
    for (unsigned at = 0; at < FLEET_ROLLOUTS; at++)
        fleet_join_bits(f, at, f->history[at].dense);
    /* the peers it works for may be late: rest alone does not say that it has done its part */
    for (uint32_t i = 0; i < FLEET_WAIT_MS / 10 && (rests < 20 || most <= bridge->share / 2); i++) {
        rests = bridge_rests(f, &most) ? rests + 1 : 0;
        fleet_sleep_ms(10);
    }
    print_message("%u of %u blocks\n", most, bridge->share);
    assert_true(most > bridge->share / 2);
    assert_true(most <= bridge->share - bridge->share / 4);
}

/* Sixteen blocks of 1 MiB, one or more a version. */
static const fleet_kind small_fleet = {FLEET_TILES, .starts = true, .attachment = "attached", .close = check_pins};

static const fleet_kind small_tight_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH("peers.level=tight"),
                                             .attachment = "attached", .close = check_pins};

/* The journal is full all the time; what is old gives way, and peers reach the newest all the same. */
static void a_full_journal(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
    for (int i = 0; i < 40; i++) {
        fleet_publish(f, 150);
        fleet_catch_up(f, 0);
        if (i % 6 == 5)
            fleet_catch_up(f, 1);
        assert_true(fleet_stats(f->trainer.session).journal_bytes <= 16u << 20);
    }
    assert_true(fleet_stats(f->trainer.session).merges > 0);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* True if the next `count` blocks, which no update had yet, are backed by memory. */
static bool next_are_resident(weft_arena *arena, uint32_t count)
{
    pthread_mutex_lock(&arena->lock);
    const uint32_t fresh = arena->fresh;
    pthread_mutex_unlock(&arena->lock);
    for (uint32_t block = fresh; block < fresh + count; block++) {
        unsigned char page;
        assert_int_equal(mincore(weft_arena_block(arena, block), 1, &page), 0);
        if (!(page & 1))
            return false;
    }
    return true;
}

/* Linux does from 5.14 on. */
static bool kernel_prefaults(void *page)
{
#ifdef MADV_POPULATE_WRITE
    return madvise(page, 1, MADV_POPULATE_WRITE) == 0;
#else
    (void)page;
    return false;
#endif
}

/* Before the first publish, and after each for two of its size: here at least a block for each level. */
static void memory_comes_before_the_update(void **state)
{
    fleet *f = *state;
    weft_arena *arena = &f->trainer.session->trainer->publisher.journal.arena;
    if (!kernel_prefaults(weft_arena_block(arena, arena->block_count - 1)))
        skip();
    for (uint32_t publishes = 0; publishes < 3; publishes++) {
        for (uint32_t i = 0; i < FLEET_WAIT_MS / 10 && !next_are_resident(arena, publishes ? 2 : 1); i++)
            fleet_sleep_ms(10);
        assert_true(next_are_resident(arena, publishes ? 2 : 1));
        fleet_publish(f, 150);
    }
}

#define TEST(name)  FLEET_TEST(name, plain_fleet)
#define FAST(name)  FLEET_TEST(name, fast_fleet)
#define TIGHT(name) FLEET_TEST(name, tight_fleet)
#define SMALL(name) FLEET_TEST(name, small_fleet)
#define FULL(name)  FLEET_TEST(name, full_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAST(rejoining),
        FAST(shared),
        TEST(a_slow_one_skips),
        TEST(publishes_meanwhile),
        TEST(with_dense_versions),
        TEST(that_change_all),
        FLEET_TEST(lost_in_the_middle, soon_fleet),
        TEST(closed_meanwhile),
        FULL(out_of_room),
        FLEET_TEST(that_never_commit, wide_fleet),
        SMALL(a_full_journal),
        TEST(memory_comes_before_the_update),
        TIGHT(a_slow_one_skips),
        TIGHT(publishes_meanwhile),
        TIGHT(with_dense_versions),
        FLEET_TEST(lost_in_the_middle, soon_tight_fleet),
        TIGHT(closed_meanwhile),
        FLEET_TEST(a_full_journal, small_tight_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
