/* What a peer is sent next, from which memory, and what is made for it: feeds, slabs, wishes, repairs, merged updates.
 */
#include "tests/support/peer_world.h"

static unsigned warnings;

static void count_line(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)line;
    warnings += level == WEFT_LOG_WARN;
}

/* ---- what is begun */

/* A peer that lacks the newest version, of the state that the row says, is begun this, up to that order. */
static void what_is_begun(void **state)
{
    (void)state;
    const uint64_t order = publisher->newest.order;
    const struct {
        poke change, more;
        weft_feed_kind kind;
        uint64_t order;
    } rows[] = {
        {{0}, {0}, WEFT_FEED_UPDATE, order},
        {POKE(receipts.count, 1), {0}, WEFT_FEED_UPDATE, order},
        {POKE(receipts.count, WEFT_UPDATES_AHEAD), {0}, WEFT_FEED_NONE, 0},
        {POKE(receipts.count, 1), POKE(receipts.expected[0].withdrawn, true), WEFT_FEED_NONE, 0},
        {POKE(receipts.count, 1), POKE(following.followed, true), WEFT_FEED_NONE, 0},
        {POKE(following.followed, true), {0}, WEFT_FEED_UPDATE, order},
        {POKE(standing.held_order, WEFT_ORDER_UNKNOWN), {0}, WEFT_FEED_OFFERED, 0},
        {POKE(standing.held_order, WEFT_ORDER_UNKNOWN), POKE(receipts.count, 1), WEFT_FEED_NONE, 0},
        {POKE(claim.hello.staging_bytes, 1), {0}, WEFT_FEED_OFFERED, 0},
        {POKE(claim.hello.staging_bytes, 1), POKE(receipts.count, 1), WEFT_FEED_NONE, 0},
        /* two versions: as one if the link is slow, one by one if it is not, or if they could not be merged */
        {POKE(standing.sent_order, order - 2), {0}, WEFT_FEED_UPDATE, order},
        {POKE(standing.sent_order, order - 2), POKE(tuning.estimate.rate_bytes_s, 0x7fe0000000000000), WEFT_FEED_UPDATE,
         order - 1},
        {POKE(standing.sent_order, order - 2), POKE(standing.single_until, order), WEFT_FEED_UPDATE, order - 1}};
    static weft_peer before;
    step_back(a);
    a->state = WEFT_PEER_CATCHING_UP;
    a->claim.hello.encoded_bytes = 0;
    a->tuning.estimate.rate_bytes_s = 0;
    before = *a;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        *a = before;
        put(a, &rows[i].change);
        put(a, &rows[i].more);
        weft_feed_next(publisher, a);
        if (a->feed.kind != rows[i].kind || a->feed.order != rows[i].order)
            fail_msg("row %zu: feed %d to %llu", i, (int)a->feed.kind, (unsigned long long)a->feed.order);
        assert_null(a->feed.attachment); /* the peer was sent that */
    }
    *a = before;
    a->standing.sent_order = order - 2; /* a version of a run before is no stop */
    a->tuning.estimate.rate_bytes_s = 1e300;
    weft_journal_at(&publisher->journal, order - 1)->target.run ^= 1;
    weft_feed_next(publisher, a);
    assert_int_equal(a->feed.order, order);
    weft_journal_at(&publisher->journal, order - 1)->target.run ^= 1;
    *a = before;
    a->standing.sent_attachment = 0;
    weft_feed_next(publisher, a);
    assert_non_null(a->feed.attachment);
    weft_feed_end(&a->feed);
    *a = before;
}

/* A level is sent to who decodes it, and in staging encoded only at level fast. */
static void at_which_level(void **state)
{
    weft_wire_update update;
    uint64_t length;
    (void)state;
    step_back(a);
    newest()->levels |= 1u << WEFT_LEVEL_TIGHT;
    newest()->chain[WEFT_LEVEL_TIGHT] = newest()->chain[WEFT_LEVEL_FAST];
    a->tuning.wanted = WEFT_LEVEL_TIGHT;
    for (uint32_t decodes = 0; decodes < 2; decodes++) {
        a->claim.hello.levels = 1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_FULL | decodes << WEFT_LEVEL_TIGHT;
        assert_int_equal(weft_feed_begin(publisher, a, newest()), WEFT_OK);
        assert_int_equal(a->feed.level, decodes ? WEFT_LEVEL_TIGHT : WEFT_LEVEL_FAST);
        const uint8_t *body = heard(WEFT_MESSAGE_UPDATE, &length);
        assert_int_equal(weft_wire_get_update(body, length, &update), WEFT_OK);
        assert_int_equal(update.target.root, 0); /* the trailer alone names it */
        weft_feed_end(&a->feed);
    }
    /* what is withdrawn the peer is to drop, and to say so */
    assert_int_equal(weft_feed_begin(publisher, a, newest()), WEFT_OK);
    assert_int_equal(weft_feed_withdraw(&trainer->peers, a), WEFT_OK);
    assert_true(a->receipts.expected[0].withdrawn && a->receipts.expected[0].order == newest()->from);
    assert_true(weft_feed_drops(&a->receipts) && newest()->readers == 0);
    a->claim.hello.staging_bytes = 1;
    a->claim.hello.encoded_bytes = newest()->chain[WEFT_LEVEL_FAST].bytes;
    const weft_arena *arena = &publisher->journal.arena;
    assert_true(weft_peer_view_stages(a, arena, newest(), WEFT_LEVEL_FAST));
    assert_false(weft_peer_view_stages(a, arena, newest(), WEFT_LEVEL_TIGHT));
    a->claim.hello.encoded_bytes--;
    assert_false(weft_peer_view_stages(a, arena, newest(), WEFT_LEVEL_FAST));
    newest()->levels &= ~(1u << WEFT_LEVEL_TIGHT);
    newest()->chain[WEFT_LEVEL_TIGHT] = (weft_chain){0};
}

/* A snapshot begins after its offer, comes from a shadow that is up to date, and not from one that is lost. Its reason
 * is a warning once, until more staging would be needed. */
static void snapshots(void **state)
{
    weft_log_sink sink = {WEFT_LOG_WARN, count_line}, *before = weft_log_enter(&sink);
    (void)state;
    step_back(a);
    a->state = WEFT_PEER_CATCHING_UP;
    warnings = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(weft_feed_instead(publisher, a, newest()), WEFT_OK);
    assert_int_equal(warnings, 1);
    a->standing.staging_said--;
    assert_int_equal(weft_feed_instead(publisher, a, newest()), WEFT_OK);
    assert_int_equal(warnings, 2);
    assert_int_equal(weft_feed_snapshot(publisher, a), WEFT_OK);
    publisher->shadow.busy = true;
    assert_int_equal(weft_feed_next(publisher, a), WEFT_AGAIN);
    publisher->shadow.busy = false;
    assert_int_equal(weft_feed_next(publisher, a), WEFT_OK);
    weft_feed_give_slab(&a->sender.flights, a->sender.posting.slab);
    weft_feed_end(&a->feed);
    publisher->shadow.lost = true;
    assert_int_equal(weft_feed_offer(&publisher->newest, &publisher->shadow, a), WEFT_E_REFUSED);
    weft_log_enter(before);
}

/* Tiles are packed for a link that is known to be slow, or limited. */
static void what_is_packed(void **state)
{
    static const struct {
        double rate;
        uint64_t limit;
        weft_choice_coding coding;
        bool packed;
    } rows[] = {{1e9, 0, WEFT_CODING_AUTO, false},      {0, 0, WEFT_CODING_AUTO, false},
                {1e6, 0, WEFT_CODING_AUTO, true},       {0, 1000000, WEFT_CODING_AUTO, true},
                {1e9, 1000000, WEFT_CODING_AUTO, true}, {1e6, 0, WEFT_CODING_VERBATIM, false},
                {1e9, 0, WEFT_CODING_PLANES, true}};
    uint64_t whole = 0;
    (void)state;
    world_size = FLEET_TILES;
    anew();
    world_size = FLEET_SMALL;
    memset(s->dense, 0, s->bytes);
    sim_publish(s, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        a->state = WEFT_PEER_CATCHING_UP;
        a->feed.kind = WEFT_FEED_OFFERED;
        a->tuning.estimate = (weft_estimate){.rate_bytes_s = rows[i].rate};
        a->site.rate_limit = rows[i].limit;
        a->site.snapshot_coding = rows[i].coding;
        a->site.bucket = 1 << 20;
        assert_int_equal(weft_feed_snapshot(publisher, a), WEFT_OK);
        assert_int_equal(weft_feed_next(publisher, a), WEFT_OK);
        const uint64_t mean = a->feed.frame_bytes / a->feed.frames;
        whole = whole ? whole : mean;
        if ((mean < whole / 2) != rows[i].packed)
            fail_msg("row %zu: %llu of %llu bytes", i, (unsigned long long)mean, (unsigned long long)whole);
        weft_feed_give_slab(&a->sender.flights, a->sender.posting.slab);
        weft_feed_end(&a->feed);
    }
}

/* ---- slabs */

/* A peer takes its share of the pool, and leaves what is free to those who have waited longer and are there. */
static void slabs(void **state)
{
    (void)state;
    weft_slabs *pool = &trainer->buffers.slabs;
    const uint32_t all = pool->free_count;
    assert_true(all == pool->count && pool->turn > 0); /* all came back after a snapshot and attachments */
    a->feed.kind = b->feed.kind = WEFT_FEED_SNAPSHOT;
    const uint32_t share = all / 2 < 4 ? all / 2 : 4;
    for (uint32_t i = 0; i < share; i++)
        assert_int_not_equal(weft_feed_take_slab(&trainer->peers, &a->sender.flights), -1);
    assert_int_equal(weft_feed_take_slab(&trainer->peers, &a->sender.flights), -1);
    a->sender.flights.slabs_used = 0;
    pool->free_count = 1;
    b->sender.flights.starved = true;
    b->sender.flights.slab_turn = a->sender.flights.slab_turn - 1;
    assert_int_equal(weft_feed_take_slab(&trainer->peers, &a->sender.flights), -1);
    assert_true(a->sender.flights.starved);
    const int fd = b->connection.control.fd;
    b->connection.control.fd = -1;
    assert_int_not_equal(weft_feed_take_slab(&trainer->peers, &a->sender.flights), -1);
    b->connection.control.fd = fd;
    pool->free_count = 1;
    b->sender.flights.slab_turn = a->sender.flights.slab_turn + 1;
    assert_int_not_equal(weft_feed_take_slab(&trainer->peers, &a->sender.flights), -1);
    b->sender.flights.starved = false;
    /* an attachment after an update that is not held yet leaves half of them */
    a->feed.attachment = weft_blob_hold(publisher->newest.attachment);
    a->receipts.count = 1;
    a->sender.flights.slabs_used = 0;
    for (uint32_t spared = 0; spared < 2; spared++) {
        pool->free_count = all / 2 + spared;
        const weft_version *version = &publisher->newest.version;
        assert_int_equal(weft_feed_attach(&trainer->peers, a, version, version), spared ? WEFT_OK : WEFT_AGAIN);
    }
    weft_feed_end(&a->feed);
    b->feed.kind = WEFT_FEED_NONE;
}

/* Who comes through no relay begins early, if it and all who may follow have staging for one like the last. */
static void who_begins_early(void **state)
{
    (void)state;
    const uint64_t need = 1000;
    const struct {
        uint64_t staging, theirs, encoded;
        bool behind, child, other_view, begins;
    } rows[] = {{need, 0, 9, false, false, false, true},        {need - 1, 0, 9, false, false, false, false},
                {need, 0, 9, true, false, false, false},        {need, need, 9, false, true, false, true},
                {need + 1, need, 9, false, true, false, false}, {need, need, 8, false, true, false, false},
                {need + 1, need, 9, false, true, true, true}};
    weft_eager *early = &publisher->eager;
    static weft_peer_view view;
    early->update = newest();
    memset(early->staged, 0, sizeof early->staged);
    early->staged[WEFT_LEVEL_FAST] = need;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        a->claim.hello.staging_bytes = rows[i].staging;
        a->claim.hello.encoded_bytes = 9;
        b->claim.hello.staging_bytes = rows[i].theirs;
        b->claim.hello.encoded_bytes = rows[i].encoded;
        b->view = rows[i].other_view ? &view : NULL;
        a->following.parent = rows[i].behind ? c : NULL;
        b->following.parent = rows[i].child ? a : NULL;
        a->following.children = rows[i].child;
        if (weft_eager_may(early, &trainer->peers, a) != rows[i].begins)
            fail_msg("row %zu", i);
    }
    /* a busy link takes a full bucket of it and no less */
    const uint64_t there = newest()->chain[WEFT_LEVEL_FAST].bytes;
    a->feed.level = WEFT_LEVEL_FAST;
    a->site.bucket_min = 1;
    for (uint32_t busy = 0; busy < 2; busy++) {
        a->sender.flights.slots_free = a->sender.flights.slots - busy;
        a->info.bucket_bytes = there + 1;
        assert_int_equal(weft_eager_ripe(a, newest()), !busy);
        a->info.bucket_bytes = there;
        assert_true(weft_eager_ripe(a, newest()));
    }
    a->sender.flights.slots_free = a->sender.flights.slots;
    early->update = NULL;
    b->view = NULL;
    b->following.parent = NULL;
    a->following.children = 0;
}

/* ---- repairs and questions */

static void what_is_repaired(void **state)
{
    static const struct {
        poke change;
        uint32_t root, first, units; /* off the bits, off the end if over 1000, of the units */
        weft_status status;
        weft_feed_kind kind;
    } rows[] = {{{0}, 0, 0, 1, WEFT_OK, WEFT_FEED_REPAIR},
                {POKE(feed.kind, WEFT_FEED_NONE), 0, 0, 1, WEFT_E_PROTOCOL, WEFT_FEED_NONE},
                {POKE(feed.kind, WEFT_FEED_UPDATE), 0, 0, 1, WEFT_E_PROTOCOL, WEFT_FEED_UPDATE},
                {{0}, 1, 0, 1, WEFT_E_PROTOCOL, WEFT_FEED_OFFERED},
                {{0}, 0, 1000, 1, WEFT_E_PROTOCOL, WEFT_FEED_OFFERED},
                {{0}, 0, 0, 1000, WEFT_OK, WEFT_FEED_OFFERED}, /* a snapshot serves better */
                {POKE(claim.hello.staging_bytes, 1), 0, 0, 1, WEFT_OK, WEFT_FEED_OFFERED}};
    const uint32_t units = (uint32_t)trainer->session->layout->unit_count;
    static weft_peer before;
    (void)state;
    a->state = WEFT_PEER_CATCHING_UP;
    a->feed.kind = WEFT_FEED_OFFERED;
    before = *a;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t body[WEFT_MESSAGE_MAX];
        weft_out out = {body, sizeof body, 0, false};
        const weft_wire_repair repair = {
            .root = a->standing.held.root ^ rows[i].root,
            .count = 1,
            .range = {{rows[i].first == 1000 ? units : 0, rows[i].units == 1000 ? units / 2 + 2 : 1}}};
        *a = before;
        put(a, &rows[i].change);
        weft_wire_put_repair(&out, &repair);
        if (weft_repair_ask(publisher, a, out.data, out.used) != rows[i].status || a->feed.kind != rows[i].kind)
            fail_msg("row %zu: %d", i, (int)a->feed.kind);
        *a = before;
    }
}

/* Three tensors of 5,000 tiles: an answer goes through one whole tensor beyond what it may, and no further. */
static void answers_are_bounded(void **state)
{
    const uint64_t shape = 5000ull << 18;
    const weft_tensor tensors[] = {{"a", WEFT_U8, 1, &shape}, {"b", WEFT_U8, 1, &shape}, {"c", WEFT_U8, 1, &shape}};
    weft_layout *own = trainer->session->layout, *large;
    uint64_t *digests = publisher->newest.digests;
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    const weft_wire_query query = {.kind = WEFT_DIGESTS_TENSORS, .count = 3};
    weft_wire_digests answer;
    uint64_t length;
    (void)state;
    assert_int_equal(weft_layout_create(tensors, 3, &large), WEFT_OK);
    publisher->newest.digests = calloc(large->part_count, sizeof *digests);
    trainer->session->layout = large;
    weft_wire_put_query(&out, &query);
    assert_int_equal(weft_answer(publisher, a, out.data, out.used), WEFT_OK);
    trainer->session->layout = own;
    free(publisher->newest.digests);
    publisher->newest.digests = digests;
    weft_layout_free(large);
    const uint8_t *said = heard(WEFT_MESSAGE_DIGESTS, &length);
    assert_int_equal(weft_wire_get_digests(said, length, &answer), WEFT_OK);
    assert_int_equal(answer.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOCKED(what_is_begun), LOCKED(at_which_level),   LOCKED(snapshots),        TEST(what_is_packed),
        LOCKED(slabs),         LOCKED(who_begins_early), LOCKED(what_is_repaired), LOCKED(answers_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
