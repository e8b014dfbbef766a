/* Parts of a trainer by themselves: what is given up first when the journal is full, who lags, how many descriptors
 * peers may take, and where the shadow lies. */
#include <stdlib.h>
#include <sys/resource.h>

#include "backends/host/host.h"
#include "base/descriptors.h"
#include "base/status.h"
#include "peer/peer.h"
#include "tests/support/site_load.h"
#include "trainer/publish.h"
#include "trainer/recorder.h"

#define NEWEST 5u

typedef struct world {
    weft_session session;
    weft_publisher publisher;
    weft_peer_table peers;
    weft_peer peer;
} world;

static char said[1024];
static unsigned warnings;

static void hear(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    warnings += level == WEFT_LOG_WARN;
    snprintf(said, sizeof said, "%s", line);
}

/* A trainer with one peer, which holds what was published before all in the journal. */
static world *world_open(void)
{
    world *w = calloc(1, sizeof *w);
    weft_publisher *publisher = &w->publisher;
    said[0] = 0;
    warnings = 0;
    pthread_mutex_init(&w->session.lock, NULL);
    pthread_cond_init(&w->session.changed, NULL);
    w->session.sink = (weft_log_sink){WEFT_LOG_DEBUG, hear};
    w->session.wake_fd = -1;
    w->session.events = calloc(WEFT_EVENTS, sizeof *w->session.events);
    w->peers = (weft_peer_table){.list = &w->peer, .count = 1};
    w->peer = (weft_peer){.session = &w->session, .state = WEFT_PEER_LIVE, .claim.name = "p"};
    w->peer.connection.control.fd = -1;
    w->peer.connection.greeted = true;
    weft_log_limit_open(&w->peer.claim.limit, &w->session.sink, 32);
    publisher->session = &w->session;
    publisher->peers = &w->peers;
    publisher->bridge.publisher = publisher;
    publisher->bridge.entries = calloc(WEFT_BRIDGE_ENTRIES, sizeof *publisher->bridge.entries);
    assert_int_equal(weft_journal_open(&publisher->journal, 1 << 20, 4096), WEFT_OK);
    weft_log_enter(&w->session.sink);
    return w;
}

static void world_close(world *w)
{
    weft_log_enter(NULL);
    weft_journal_close(&w->publisher.journal);
    weft_log_limit_end(&w->peer.claim.limit);
    free(w->publisher.bridge.entries);
    free(w->session.events);
    free(w);
}

static void frames_put(world *w, weft_update *update, weft_level level)
{
    update->levels |= 1u << level;
    weft_chain_begin(&update->chain[level]);
    assert_true(weft_chain_extend(&w->publisher.journal.arena, &update->chain[level]));
    weft_chain_note(&w->publisher.journal.arena, &update->chain[level], 0, 64);
}

static weft_update *publish(world *w, bool tight)
{
    weft_update update = {.published_ns = weft_clock_ns()};
    frames_put(w, &update, WEFT_LEVEL_FAST);
    if (tight)
        frames_put(w, &update, WEFT_LEVEL_TIGHT);
    weft_update *kept = weft_journal_append(&w->publisher.journal, &update);
    w->publisher.newest.order = kept->order;
    return kept;
}

/* ---- what goes first */

/* Names what there is: frames of the withdrawn update, of each update by level, of a merge; and whether the peer and
 * the work of the bridge are there. */
static const char *what_is_there(world *w)
{
    static char text[64];
    int used = snprintf(text, sizeof text, "%s", w->publisher.eager.withdrawn.levels ? "w " : "");
    for (uint64_t order = 1; order <= NEWEST; order++) {
        const uint32_t levels = weft_journal_at(&w->publisher.journal, order)->levels;
        if (levels)
            used += snprintf(text + used, sizeof text - (size_t)used, "%u%s ", (unsigned)order,
                             levels >> WEFT_LEVEL_TIGHT & 1 ? "t" : "");
    }
    snprintf(text + used, sizeof text - (size_t)used, "%s%s%s",
             w->publisher.bridge.entries[0].state == WEFT_BRIDGED_READY ? "m" : "",
             w->publisher.bridge.broken ? "" : "b", w->peer.connection.greeted ? "p" : "");
    return text;
}

/* A peer reads the second update, and a merge the third. */
static void the_cheapest_goes_first(void **state)
{
    static const char *const after[] = {
        "1t 2t 3t 4 5t mbp", /* what is left of a withdrawn update */
        "1 2t 3t 4 5t mbp",  /* dense levels, but for what a peer reads and for the newest */
        "1 2t 3 4 5t mbp",
        "1 2t 3 4 5t bp", /* merged updates */
        "2t 3 4 5t bp",
        "2t 3 5t bp",
        "2t 3 bp", /* what nobody reads, and then what a merge reads */
        "2t p",
        "",
    };
    world *w = world_open();
    weft_bridged *merge = &w->publisher.bridge.entries[0];
    weft_bridge_source source = {.bridge = &w->publisher.bridge};
    (void)state;
    frames_put(w, &w->publisher.eager.withdrawn, WEFT_LEVEL_FAST);
    for (uint64_t order = 1; order <= NEWEST; order++)
        publish(w, order != 4);
    w->peer.feed.update = weft_journal_at(&w->publisher.journal, 2);
    w->peer.feed.update->readers = 1;
    source.update = weft_journal_at(&w->publisher.journal, 3);
    source.update->pins = 1;
    w->publisher.bridge.sources = &source;
    w->publisher.bridge.source_count = 1;
    w->publisher.bridge.pinned = true;
    frames_put(w, &merge->update, WEFT_LEVEL_FAST);
    merge->state = WEFT_BRIDGED_READY;
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
        assert_true(weft_eviction_give_up(&w->publisher));
        assert_string_equal(what_is_there(w), after[i]);
    }
    assert_int_equal(source.update->pins, 0);
    assert_int_equal(w->session.stats.peers_lost, 1);
    assert_non_null(strstr(said, "raise [trainer] journal"));
    assert_false(weft_eviction_give_up(&w->publisher));
    world_close(w);
}

/* What writes under way read of a withdrawn update goes only where nothing else is left that nobody reads. */
static void a_withdrawn_update_that_is_read(void **state)
{
    world *w = world_open();
    weft_update *withdrawn = &w->publisher.eager.withdrawn;
    (void)state;
    frames_put(w, withdrawn, WEFT_LEVEL_FAST);
    w->peer.feed.update = withdrawn;
    withdrawn->readers = 1;
    publish(w, false);
    assert_false(weft_eager_give_up(&w->publisher, false));
    assert_true(weft_eviction_give_up(&w->publisher));
    assert_true(withdrawn->levels && w->peer.connection.greeted);
    assert_true(weft_eviction_give_up(&w->publisher));
    assert_false(withdrawn->levels || w->peer.connection.greeted);
    world_close(w);
}

/* Frames of an update that is shown to peers, and takes its place in the ring. */
static weft_update *show(world *w, weft_update *update)
{
    *update = (weft_update){0};
    frames_put(w, update, WEFT_LEVEL_FAST);
    update->attachment = weft_blob_make("attached", 8);
    update->chain[WEFT_LEVEL_FAST].bytes = 1 << 20; /* enough to be let out */
    weft_eager_show(&w->publisher, update);
    assert_non_null(w->publisher.eager.update);
    return w->publisher.eager.update;
}

/* Whatever reads of an update that is withdrawn goes on reading, apart from the ring, until the next one is. */
static void a_withdrawn_update_is_kept_apart(void **state)
{
    world *w = world_open();
    weft_update *withdrawn = &w->publisher.eager.withdrawn, update;
    weft_arena *arena = &w->publisher.journal.arena;
    const uint32_t free_blocks = weft_arena_free_blocks(arena);
    static const uint32_t readers[] = {2, 0, 1}, used[] = {1, 1, 1};
    (void)state;
    for (int i = 0; i < 3; i++) {
        weft_update *place = show(w, &update);
        place->readers = readers[i];
        if (i == 0)
            w->peer.sender.flights.list[3].update = w->peer.sender.posting.update = place;
        weft_eager_withdraw(&w->publisher, &update);
        assert_null(w->publisher.eager.update);
        assert_true(place->levels == 0 && place->readers == 0);
        assert_int_equal(weft_arena_free_blocks(arena), free_blocks - used[i]);
        assert_int_equal(withdrawn->readers, i < 2 ? 2 : 1);
        assert_null(withdrawn->attachment);
        assert_ptr_equal(w->peer.sender.posting.update, i < 2 ? withdrawn : NULL);
        assert_int_equal(w->peer.connection.greeted, i < 2);
        weft_blob_drop(update.attachment);
        if (i == 1) { /* writes that ended: the peer reads by its stream alone */
            assert_ptr_equal(w->peer.sender.flights.list[3].update, withdrawn);
            w->peer.sender.flights.list[3].update = w->peer.sender.posting.update = NULL;
            w->peer.feed.update = withdrawn;
        }
    }
    assert_true(weft_eager_give_up(&w->publisher, true));
    assert_int_equal(weft_arena_free_blocks(arena), free_blocks);
    world_close(w);
}

static void a_full_ring(void **state)
{
    world *w = world_open();
    const weft_update none = {.snapshot_only = true};
    (void)state;
    for (uint32_t i = 0; i < WEFT_JOURNAL_UPDATES; i++)
        weft_journal_append(&w->publisher.journal, &none);
    w->peer.feed.update = weft_journal_oldest(&w->publisher.journal);
    w->peer.feed.update->readers = 1;
    weft_eviction_make_place(&w->publisher);
    assert_int_equal(weft_journal_oldest(&w->publisher.journal)->order, 2);
    assert_false(w->peer.connection.greeted);
    assert_null(w->peer.feed.update);
    weft_eviction_make_place(&w->publisher); /* there is room for one */
    assert_int_equal(weft_journal_oldest(&w->publisher.journal)->order, 2);
    world_close(w);
}

/* Publish leaves merges their share as long as anything else can be given up, and then takes that too. */
static void merges_keep_their_share(void **state)
{
    world *w = world_open();
    weft_arena *arena = &w->publisher.journal.arena;
    weft_chain chain;
    (void)state;
    publish(w, false);
    w->publisher.bridge.share = weft_arena_free_blocks(arena);
    weft_chain_begin(&chain);
    assert_true(weft_eviction_extend(&w->publisher, &chain));
    assert_int_equal(weft_journal_at(&w->publisher.journal, 1)->levels, 0);
    assert_int_equal(weft_arena_free_blocks(arena), w->publisher.bridge.share);
    assert_true(weft_eviction_extend(&w->publisher, &chain));
    assert_int_equal(weft_arena_free_blocks(arena), w->publisher.bridge.share - 1);
    weft_chain_free(arena, &chain);
    world_close(w);
}

/* ---- who lags */

static void who_lags(void **state)
{
    static const struct {
        uint64_t held, joined, most;
        weft_feed_kind kind;
        bool lags;
    } rows[] = {
        {1, 0, 3, WEFT_FEED_UPDATE, true},
        {2, 0, 3, WEFT_FEED_UPDATE, false},
        {1, 0, 0, WEFT_FEED_UPDATE, false},                  /* no bound */
        {1, 2, 3, WEFT_FEED_UPDATE, false},                  /* it lacked the second when it joined */
        {1, 0, 3, WEFT_FEED_SNAPSHOT, false},                /* it catches up already */
        {WEFT_ORDER_UNKNOWN, 2, 3, WEFT_FEED_UPDATE, false}, /* three since it joined */
        {WEFT_ORDER_UNKNOWN, 1, 3, WEFT_FEED_UPDATE, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        world *w = world_open();
        for (uint64_t order = 1; order <= NEWEST; order++)
            publish(w, false);
        w->peer.site.max_lag = rows[i].most;
        w->peer.standing.held_order = rows[i].held;
        w->peer.standing.joined_order = rows[i].joined;
        w->peer.feed.kind = rows[i].kind;
        weft_lag_judge(&w->publisher, &w->peer);
        weft_lag_judge(&w->publisher, &w->peer);
        assert_int_equal(w->session.events_end, rows[i].lags); /* once */
        assert_true(w->peer.connection.greeted);
        w->peer.feed.kind = WEFT_FEED_NONE;
        world_close(w);
    }
}

static void since_when(void **state)
{
    static const struct {
        uint64_t held, since_s;
    } rows[] = {{5, 0}, {4, 1}, {2, 3}, {0, 4}, {WEFT_ORDER_UNKNOWN, 60}};
    world *w = world_open();
    const uint64_t second = 1000 * WEFT_NS_PER_MS, now_ns = weft_clock_ns();
    (void)state;
    for (uint64_t order = 1; order <= NEWEST; order++)
        publish(w, false)->published_ns = now_ns - (NEWEST + 1 - order) * second;
    weft_journal_empty(&w->publisher.journal, weft_journal_at(&w->publisher.journal, 1));
    weft_journal_drop(&w->publisher.journal); /* the first: nobody knows any more when it was published */
    w->peer.connection.opened_ns = now_ns - 60 * second;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        w->peer.standing.held_order = rows[i].held;
        const uint64_t lag_ns = weft_peer_lag_ns(&w->publisher.journal, &w->publisher.newest, &w->peer);
        assert_int_equal((lag_ns + second / 2) / second, rows[i].since_s);
    }
    world_close(w);
}

/* ---- descriptors */

/* A port takes a part of what may still be opened: the listed peers have one of them each, gpu-* four. */
static void descriptors_of_peers(void **state)
{
    static const struct {
        uint32_t part, warned;
        weft_status status;
        const char *max_peers, *text;
    } rows[] = {
        {9, 1, WEFT_OK, "trainer.max_peers=4", "max_peers = 4 may take"}, /* 2 + 2 x 4 ninths */
        {9, 0, WEFT_OK, "trainer.max_peers=3", ""},
        {3, 1, WEFT_OK, "trainer.max_peers=3", "max_peers = 3 may take"},
        {3, 0, WEFT_OK, "trainer.max_peers=2", ""},
        {1, 0, WEFT_E_SYSTEM, "trainer.max_peers=4", "the 2 peers of the site take"},
    };
    struct rlimit before;
    (void)state;
    getrlimit(RLIMIT_NOFILE, &before);
    const struct rlimit limit = {400, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        world *w = world_open();
        const weft_descriptors_use use = weft_descriptors_now();
        weft_outlets outlets = {.session = &w->session, .count = 1};
        outlets.list[0] = (weft_outlet){.provider = weft_provider_find("loop"), .link = (weft_link *)w};
        outlets.list[0].facts.descriptors = (uint32_t)(use.limit - use.open) / rows[i].part;
        w->session.site = load_with("[peers]\nprovider = loop\n[peer.a]\n[peer.b]\n[peer.gpu-*]\nstreams = 4\n",
                                    &rows[i].max_peers, 1);
        assert_int_equal(weft_trainer_limit(&outlets), rows[i].status);
        assert_int_equal(warnings, rows[i].warned);
        assert_non_null(strstr(rows[i].status == WEFT_OK ? said : weft_last_error(), rows[i].text));
        weft_site_free(w->session.site);
        world_close(w);
    }
    setrlimit(RLIMIT_NOFILE, &before);
}

/* ---- the shadow */

static uint64_t left;

static uint64_t memory_left(weft_backend_state *device)
{
    (void)device;
    return left;
}

static weft_status take_nothing(weft_backend_state *device, uint64_t bytes, weft_memory_kind kind, void **memory)
{
    (void)device, (void)bytes, (void)kind, (void)memory;
    return weft_fail(WEFT_E_MEMORY, "none is left");
}

/* Where the site leaves that to weft the shadow takes at most half of the device memory that is free. Without
 * memory for the shadow there is no trainer. */
static void where_the_shadow_lies(void **state)
{
    static const struct {
        weft_choice_shadow given;
        int64_t beyond; /* bytes free beyond twice the shadow's */
        weft_choice_shadow place;
        unsigned warned;
    } rows[] = {
        {WEFT_SHADOW_AUTO, 0, WEFT_SHADOW_DEVICE, 0},
        {WEFT_SHADOW_AUTO, -1, WEFT_SHADOW_HOST, 1},
        {WEFT_SHADOW_HOST, 1 << 30, WEFT_SHADOW_HOST, 0},
        {WEFT_SHADOW_DEVICE, -1, WEFT_SHADOW_DEVICE, 0},
    };
    weft_backend far = {.caps = WEFT_BACKEND_DEVICE, .memory_left = memory_left};
    const uint64_t shape = 65536;
    const weft_tensor tensor = {"t", WEFT_BF16, 1, &shape};
    world *w = world_open();
    (void)state;
    assert_int_equal(weft_layout_create(&tensor, 1, &w->session.layout), WEFT_OK);
    w->session.site = load("[peers]\nprovider = loop\n[peer.a]\n");
    w->session.backend = &far;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        w->session.site->trainer.shadow = rows[i].given;
        left = 2 * weft_binding_spaced_bytes(w->session.layout) + (uint64_t)rows[i].beyond;
        warnings = 0;
        weft_shadow_settle(&w->session);
        assert_int_equal(w->session.site->trainer.shadow, rows[i].place);
        assert_int_equal(warnings, rows[i].warned);
    }
    w->session.backend = &weft_backend_host;
    assert_int_equal(weft_shadow_open(&w->publisher.shadow, &w->session), WEFT_E_CONFIG);
    assert_string_equal(weft_last_error(), "[trainer] shadow = device: backend host has no device; use shadow = host");
    weft_backend poor = weft_backend_host;
    poor.memory_take = take_nothing;
    w->session.backend = &poor;
    w->session.site->trainer.shadow = WEFT_SHADOW_HOST;
    assert_int_equal(weft_shadow_open(&w->publisher.shadow, &w->session), WEFT_E_MEMORY);
    assert_non_null(strstr(weft_last_error(), "no memory for a shadow of 131072 bytes: none is left"));
    weft_layout_free(w->session.layout);
    weft_site_free(w->session.site);
    world_close(w);
}

/* ---- weights */

static weft_status rests;

static weft_status rest(weft_backend_state *device)
{
    (void)device;
    return rests;
}

/* Weights whose memory is to be given away are let go of at once, and waited for until nothing reads them any more. */
static void old_weights_are_waited_for(void **state)
{
    static uint8_t memory[2][64];
    const uint64_t shape = 64;
    const weft_tensor tensor = {"t", WEFT_U8, 1, &shape};
    weft_backend fake = weft_backend_host;
    world *w = world_open();
    weft_publisher *publisher = &w->publisher;
    weft_binding fresh;
    (void)state;
    fake.rest = rest;
    w->session.backend = &fake;
    assert_int_equal(weft_layout_create(&tensor, 1, &w->session.layout), WEFT_OK);
    pthread_mutex_lock(&w->session.lock);
    assert_int_equal(weft_shadow_unbind(publisher), WEFT_E_STATE); /* nothing is bound */
    publisher->bound = true;
    rests = WEFT_OK;
    for (int i = 0; i < 4; i++) { /* bound, kept because the call fails, bound, let go of */
        const bool binds = i != 3;
        rests = i == 1 || i == 3 ? WEFT_E_TIMEOUT : WEFT_OK;
        assert_int_equal(weft_binding_open(w->session.layout, &(weft_piece){0, 0, 64, memory[i % 2]}, 1, &fresh),
                         WEFT_OK);
        if (binds) {
            assert_int_equal(weft_shadow_bind(publisher, &fresh, NULL, 0), rests);
            assert_ptr_equal(publisher->weights.runs[0].data, memory[0]);
        } else {
            weft_binding_close(&fresh);
            assert_int_equal(weft_shadow_unbind(publisher), rests);
            assert_null(publisher->weights.runs);
        }
        assert_int_equal(publisher->away, !binds);
    }
    pthread_mutex_unlock(&w->session.lock);
    weft_layout_free(w->session.layout);
    world_close(w);
}

/* ---- the recorder */

/* At the end all versions that are not in the store are counted, and told if the last one is among them. */
static void what_is_left_is_told(void **state)
{
    static const struct {
        uint64_t next;
        bool linked;
        unsigned unrecorded, warned;
    } rows[] = {{6, true, 0, 0}, {4, true, 2, 1}, {6, false, 0, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        world *w = world_open();
        weft_recorder recorder = {.publisher = &w->publisher, .next = rows[i].next, .linked = rows[i].linked};
        w->publisher.newest.order = NEWEST;
        weft_recorder_tell_left(&recorder);
        assert_int_equal(w->session.stats.unrecorded, rows[i].unrecorded);
        assert_int_equal(warnings, rows[i].warned);
        world_close(w);
    }
}

static void a_store_of_slices_needs_the_sources(void **state)
{
    world *w = world_open();
    (void)state;
    w->session.site = load("[trainer]\nstore = /tmp/nowhere/weft\n[peers]\nprovider = loop\n[peer.a]\n");
    w->session.has_share = true;
    assert_int_equal(weft_recorder_open(&w->publisher), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "no section [source.R]"));
    assert_null(w->publisher.recorder);
    weft_site_free(w->session.site);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_goes_first),
        cmocka_unit_test(a_withdrawn_update_that_is_read),
        cmocka_unit_test(a_withdrawn_update_is_kept_apart),
        cmocka_unit_test(a_full_ring),
        cmocka_unit_test(merges_keep_their_share),
        cmocka_unit_test(who_lags),
        cmocka_unit_test(since_when),
        cmocka_unit_test(descriptors_of_peers),
        cmocka_unit_test(where_the_shadow_lies),
        cmocka_unit_test(old_weights_are_waited_for),
        cmocka_unit_test(what_is_left_is_told),
        cmocka_unit_test(a_store_of_slices_needs_the_sources),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
