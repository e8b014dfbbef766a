/* A store that several sources write: each writes its own files, a version is there when all have written theirs, a
 * process takes the keys that it has and moves all of its weights or none, and sources that come back lead ranks that
 * are ahead back by updates. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "joint/joint.h"
#include "peer/peer.h"
#include "store/store.h"
#include "tests/support/folder.h"
#include "tests/support/source_world.h"
#include "trainer/recorder.h"

#define MOST  4000u /* rounds until something that must happen has happened */
#define FIRST 5u
#define LAST  11u

static source_world w;
static char folder[300];
static unsigned awake; /* sources that take their turns */
static bool shuffles;  /* each source has the tensors in an order of its own */

static void turns(source_world *world)
{
    for (unsigned i = 0; i < world->source_count && i < awake; i++)
        if (world->sources[i].session)
            fleet_step(world->sources[i].session);
    for (unsigned i = 0; i < world->rank_count; i++)
        if (world->ranks[i].session && !world->ranks[i].blocked)
            fleet_step(world->ranks[i].session);
}

static void round_of(void)
{
    w.time.now_ns += WEFT_NS_PER_MS;
    turns(&w);
}

static bool all_have_something(void)
{
    bool all = true;
    for (unsigned i = 0; i < w.source_count; i++)
        all = all && w.sources[i].has.count > 0;
    return all;
}

/* A world of three sources with a store, which have published FIRST alone. */
static void begin(uint64_t seed, unsigned sources)
{
    const char *level = w.store_level;
    source_world_open(&w, seed);
    awake = SOURCES;
    w.turn = turns;
    w.store_level = level;
    w.store = folder;
    if (shuffles)
        source_shuffle(&w);
    do {
        source_run_end(&w);
        folder_close(folder);
        w.history_count = 0;
        source_run_begin(&w, sources, FIRST);
    } while (!all_have_something());
}

static int setup(void **state)
{
    (void)state;
    folder_open(folder, sizeof folder);
    w.store_level = "fast";
    begin(7, 3);
    return 0;
}

static int setup_orders(void **state)
{
    shuffles = true;
    return setup(state);
}

static int teardown(void **state)
{
    (void)state;
    shuffles = false;
    source_world_close(&w);
    folder_close(folder);
    return 0;
}

static void wait_recorded(const weft_session *session, uint64_t recorded)
{
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    while (fleet_stats((weft_session *)(uintptr_t)session).recorded < recorded) {
        if (fleet_now_ms() > end)
            fail_msg("not recorded: %llu versions", (unsigned long long)recorded);
        fleet_sleep_ms(1);
    }
}

/* All sources publish up to a number, and write each version. */
static void publish_to(uint64_t number)
{
    while (w.newest < number) {
        source_publish(&w, w.newest % 2 ? 10 : 300);
        for (unsigned i = 0; i < w.source_count; i++) {
            const uint64_t recorded = fleet_stats(w.sources[i].session).recorded;
            source_go_to(&w, &w.sources[i], w.newest);
            wait_recorded(w.sources[i].session, recorded + 1);
        }
    }
}

static void run_whole(void)
{
    for (unsigned i = 0; i < w.source_count; i++)
        wait_recorded(w.sources[i].session, 1);
    publish_to(LAST);
}

/* ---- readers */

static weft_store *store_open(void)
{
    weft_store *store = NULL;
    if (weft_store_open(folder, NULL, &store) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return store;
}

static void part_whole(part *p)
{
    part_open(&w, p);
    for (uint64_t t = 0; t < w.layout->count; t++)
        part_add(p, weft_slice_whole(w.layout, t));
}

static weft_status apply(weft_store *store, const part *p, uint64_t number, weft_store_info *info)
{
    weft_block blocks[SLICES];
    const weft_version version = {0, number, 0};
    part_blocks(&w, p, blocks);
    return weft_store_apply_blocks(store, &version, w.layout, blocks, p->count, NULL, info);
}

static weft_store_info leads_to(weft_store *store, const part *p, uint64_t number)
{
    weft_store_info info = {.size = sizeof info};
    if (apply(store, p, number, &info) != WEFT_OK)
        fail_msg("version %llu: %s", (unsigned long long)number, weft_last_error());
    assert_true(part_has(&w, p, source_find(&w, w.run, number)->dense));
    assert_true(part_is_clean(&w, p));
    assert_int_equal(info.version.number, number);
    return info;
}

static weft_status tell_fault(void *user, const weft_store_fault *fault)
{
    (void)user;
    fail_msg("%s: version %llu: %s", fault->file ? fault->file : "lost", (unsigned long long)fault->version.number,
             fault->text);
    return WEFT_OK;
}

/* Any way through the versions, for all of the model. */
static void versions_are_there(unsigned sources)
{
    static const uint64_t order[] = {8, 9, LAST, 6, FIRST, 10};
    weft_store_entry entries[16];
    uint64_t faults = 1;
    size_t count = 0;
    part all;
    run_whole();
    source_run_end(&w); /* w.run and the history stay */
    weft_store *store = store_open();
    assert_int_equal(weft_store_list(store, entries, 16, &count), WEFT_OK);
    assert_int_equal(count, LAST - FIRST + 1);
    part_whole(&all);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const weft_store_info info = leads_to(store, &all, order[i]);
        const weft_store_entry *entry = &entries[order[i] - FIRST];
        assert_true(entry->reachable && !entry->damaged && entry->version.number == order[i]);
        assert_true(entry->version.root == info.version.root);
        assert_true(i != 0 || info.anchors == sources); /* the weights are nobody's at first */
        assert_true(i != 1 || (info.files == sources && info.anchors == 0));
    }
    assert_int_equal(weft_store_check(store, NULL, tell_fault, NULL, &faults), WEFT_OK);
    assert_int_equal(faults, 0);
    part_free(&all);
    weft_store_close(store);
}

static void of_three_sources(void **state)
{
    (void)state;
    versions_are_there(3);
}

static void of_one_source_with_cuts(void **state)
{
    (void)state;
    source_world_close(&w);
    begin(11, 1);
    versions_are_there(1);
}

/* The layout that a reader finds is the model's, and pieces of the whole model do too. */
static void pieces_do_too(void **state)
{
    weft_layout *layout = NULL;
    const weft_version version = {0, LAST, 0};
    fleet_model model;
    uint8_t *dense = malloc(w.bytes);
    (void)state;
    run_whole();
    weft_store *store = store_open();
    assert_int_equal(weft_store_layout(store, &version, &layout), WEFT_OK);
    assert_int_equal(weft_layout_match(w.layout, layout, NULL), WEFT_OK);
    fleet_model_open(&model, w.layout, 0);
    if (weft_store_apply(store, &version, w.layout, model.pieces, model.piece_count, NULL, NULL) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    fleet_model_get(&model, dense);
    assert_memory_equal(dense, w.dense, w.bytes);
    fleet_model_close(&model);
    weft_layout_free(layout);
    weft_store_close(store);
    free(dense);
}

/* ---- views */

static uint64_t file_bytes(weft_store *store, uint64_t number)
{
    weft_store_entry entries[16];
    size_t count = 0;
    assert_int_equal(weft_store_list(store, entries, 16, &count), WEFT_OK);
    return entries[number - FIRST].update_bytes;
}

static void file_of(char path[400], uint64_t number, const char *kind, unsigned source)
{
    snprintf(path, 400, "%s/%016llx/%020llu/%s-%u-of-3.weft", folder, (unsigned long long)w.run,
             (unsigned long long)number, kind, source);
}

static size_t versions_of(weft_store *store, const part *view)
{
    size_t count = 0;
    assert_int_equal(weft_store_view(store, w.layout, view ? view->slices : NULL, view ? view->count : 0), WEFT_OK);
    assert_int_equal(weft_store_list(store, NULL, 0, &count), WEFT_OK);
    return count;
}

static void a_view_takes_its_keys(void **state)
{
    unsigned less = 0;
    (void)state;
    run_whole();
    weft_store *store = store_open();
    for (unsigned i = 0; i < 20; i++) {
        rank r = {0};
        part_open(&w, &r.has);
        source_view_draw(&w, &r);
        leads_to(store, &r.has, 7);
        const weft_store_info info = leads_to(store, &r.has, 8);
        assert_int_equal(info.anchors, 0);
        assert_true(info.bytes <= file_bytes(store, 8));
        less += info.bytes < file_bytes(store, 8);
        leads_to(store, &r.has, LAST);
        leads_to(store, &r.has, 6);
        part_free(&r.has);
    }
    assert_true(less > 5);
    weft_store_close(store);
}

/* The slices have a part of a key, which is a whole tensor here. */
static void a_part_of_a_key_is_refused(void **state)
{
    part p;
    char path[400];
    (void)state;
    run_whole();
    weft_store *store = store_open();
    part_whole(&p);
    p.slices[0].rows--;
    part_put(&w, &p, source_find(&w, w.run, 6)->dense);
    assert_int_equal(apply(store, &p, 8, NULL), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "would part them"));
    assert_true(part_has(&w, &p, source_find(&w, w.run, 6)->dense));
    assert_int_equal(versions_of(store, &p), LAST - FIRST + 1);
    file_of(path, LAST, "source", 1); /* all sources are waited for, so that the reader is told why it has nothing */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(weft_store_refresh(store), WEFT_OK);
    assert_int_equal(versions_of(store, &p), LAST - FIRST);
    part_free(&p);
    weft_store_close(store);
}

/* Tight updates are beside the others, and less; readers that go forward take them. */
static void tight_updates_are_taken_forward(void **state)
{
    weft_store_entry entries[16];
    uint64_t faults = 1;
    size_t count = 0;
    part all;
    (void)state;
    source_world_close(&w);
    w.store_level = "tight";
    begin(7, 3);
    run_whole();
    source_run_end(&w);
    weft_store *store = store_open();
    assert_int_equal(weft_store_list(store, entries, 16, &count), WEFT_OK);
    assert_int_equal(count, LAST - FIRST + 1);
    part_whole(&all);
    leads_to(store, &all, 9);
    for (uint64_t number = 10; number <= LAST; number++) {
        assert_true(entries[number - FIRST].tight_bytes > 0);
        const weft_store_info info = leads_to(store, &all, number);
        assert_true(info.bytes <= entries[number - FIRST].tight_bytes);
    }
    assert_int_equal(weft_store_check(store, NULL, tell_fault, NULL, &faults), WEFT_OK);
    assert_int_equal(faults, 0);
    part_free(&all);
    weft_store_close(store);
}

/* What lies before an anchor goes, alike at all sources, and what stays can be read. */
static void old_versions_go_at_all_sources(void **state)
{
    const weft_store_keep keep = {sizeof keep, 1, 0, 0, 0};
    weft_store_entry entries[16];
    uint64_t removed = 0;
    size_t count = 0;
    part all;
    (void)state;
    run_whole();
    w.newest = 63;
    publish_to(66);
    source_run_end(&w); /* the anchors of 64 are there */
    weft_store *store = store_open();
    assert_int_equal(weft_store_list(store, entries, 16, &count), WEFT_OK);
    assert_int_equal(count, LAST - FIRST + 1 + 3);
    assert_int_equal(weft_store_trim(store, &keep, &removed), WEFT_OK);
    assert_int_equal(removed, LAST - FIRST + 1);
    assert_int_equal(weft_store_list(store, entries, 16, &count), WEFT_OK);
    assert_int_equal(count, 3);
    part_whole(&all);
    leads_to(store, &all, 66);
    leads_to(store, &all, 64);
    part_free(&all);
    weft_store_close(store);
}

/* ---- faults */

static void one_that_is_late_hides_the_version(void **state)
{
    char path[400];
    size_t count = 0;
    part all;
    (void)state;
    run_whole();
    file_of(path, LAST, "source", 1);
    assert_int_equal(unlink(path), 0);
    weft_store *store = store_open();
    assert_int_equal(weft_store_list(store, NULL, 0, &count), WEFT_OK);
    assert_int_equal(count, LAST - FIRST);
    part_whole(&all);
    assert_int_equal(apply(store, &all, LAST, NULL), WEFT_E_MISSING);
    leads_to(store, &all, LAST - 1);
    part_free(&all);
    weft_store_close(store);
}

static bool meets(const weft_slice *a, const weft_slice *b)
{
    return a->tensor == b->tensor && a->row < b->row + b->rows && b->row < a->row + a->rows &&
           a->column < b->column + b->columns && b->column < a->column + a->columns;
}

static bool holds(const part *p, const weft_slice *slice)
{
    for (uint64_t i = 0; i < p->count; i++)
        if (meets(&p->slices[i], slice))
            return true;
    return false;
}

static bool shares_an_element(const part *a, const part *b)
{
    for (uint64_t i = 0; i < a->count; i++)
        if (holds(b, &a->slices[i]))
            return true;
    return false;
}

/* Draws a view of one key. */
static void key_draw(part *p)
{
    part_open(&w, p);
    while (p->count == 0) {
        const uint32_t key = (uint32_t)source_below(&w, w.cells.key_count);
        for (uint64_t c = 0; c < w.cells.count; c++)
            if (w.cells.cells[c].key == key)
                part_add(p, w.cells.cells[c].slice);
    }
}

/* One source has not written the last version. Views without an element of that source have the version, and all others
 * have it when the source wrote. */
static void a_view_waits_for_its_sources_alone(void **state)
{
    char path[400], away[410];
    unsigned early = 0, late = 0;
    weft_store_entry entries[16];
    size_t count = 0;
    part all;
    (void)state;
    run_whole();
    weft_store *store = store_open();
    part_whole(&all);
    for (unsigned i = 0; i < 60; i++) {
        const unsigned source = i % 3;
        part view;
        file_of(path, LAST, "source", source);
        snprintf(away, sizeof away, "%s.away", path);
        assert_int_equal(rename(path, away), 0);
        assert_int_equal(weft_store_refresh(store), WEFT_OK);
        key_draw(&view);
        leads_to(store, &view, 9);
        const bool needed = shares_an_element(&view, &w.sources[source].has);
        assert_int_equal(versions_of(store, &view), LAST - FIRST + !needed);
        assert_int_equal(weft_store_list(store, entries, 16, &count), WEFT_OK);
        if (needed) {
            assert_int_equal(apply(store, &view, LAST, NULL), WEFT_E_MISSING);
            leads_to(store, &view, LAST - 1);
        } else {
            assert_true(entries[count - 1].reachable && entries[count - 1].version.root == 0);
            leads_to(store, &view, LAST);
            assert_int_equal(apply(store, &all, LAST, NULL), WEFT_E_MISSING); /* of more than the view */
            assert_non_null(strstr(weft_last_error(), "has not written version 11"));
        }
        early += !needed;
        late += needed;
        assert_int_equal(versions_of(store, NULL), LAST - FIRST);
        assert_int_equal(versions_of(store, &view), LAST - FIRST + !needed);
        assert_int_equal(rename(away, path), 0);
        assert_int_equal(weft_store_refresh(store), WEFT_OK);
        assert_int_equal(versions_of(store, &view), LAST - FIRST + 1);
        leads_to(store, &view, LAST);
        versions_of(store, NULL);
        part_free(&view);
    }
    assert_true(early > 5 && late > 5);
    part_free(&all);
    weft_store_close(store);
}

static void a_view_is_of_the_model(void **state)
{
    weft_slice beyond = weft_slice_whole(w.layout, 0);
    (void)state;
    run_whole();
    weft_store *store = store_open();
    beyond.rows++;
    assert_int_equal(weft_store_view(store, w.layout, &beyond, 1), WEFT_E_LAYOUT);
    assert_int_equal(versions_of(store, NULL), LAST - FIRST + 1);
    weft_store_close(store);
}

/* A reader waits without a limit for what comes, and is told of nothing else. */
static void a_wait_ends_when_files_come(void **state)
{
    (void)state;
    run_whole();
    weft_store *store = store_open();
    assert_int_equal(weft_store_wait(store, 0), WEFT_AGAIN);
    publish_to(LAST + 1);
    assert_int_equal(weft_store_wait(store, UINT32_MAX), WEFT_OK);
    while (weft_store_wait(store, 0) == WEFT_OK)
        ;
    assert_int_equal(versions_of(store, NULL), LAST - FIRST + 2);
    weft_store_close(store);
}

static void damage(const char *path, long at, int from)
{
    FILE *file = fopen(path, "r+e");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, from), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, at, from), 0);
    assert_true(fputc(byte ^ 0x10, file) != EOF);
    fclose(file);
}

/* Only one source has a damaged file. The weights of the others do not move either. */
static void all_weights_move_or_none(void **state)
{
    static const bool ends[] = {false, true};
    char path[400];
    part all;
    (void)state;
    run_whole();
    file_of(path, 10, "source", 2);
    for (unsigned i = 0; i < 2; i++) {
        weft_store *store = store_open();
        part_whole(&all);
        part_put(&w, &all, source_find(&w, w.run, 9)->dense);
        damage(path, ends[i] ? -200 : 150, ends[i] ? SEEK_END : SEEK_SET); /* frames stand behind the header */
        assert_int_not_equal(apply(store, &all, 10, NULL), WEFT_OK);
        assert_true(part_has(&w, &all, source_find(&w, w.run, 9)->dense));
        leads_to(store, &all, 6);
        part_free(&all);
        weft_store_close(store);
    }
}

static void is_refused(const part *all, const char *words)
{
    weft_store *store = store_open();
    assert_int_equal(apply(store, all, 10, NULL), WEFT_E_LAYOUT);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
    assert_true(part_has(&w, all, source_find(&w, w.run, 9)->dense));
    weft_store_close(store);
}

/* Blocks that name a slice twice; a source whose files are those of another; and two sources that have not all. */
static void each_element_is_there_once(void **state)
{
    char path[400], other[400];
    part all;
    (void)state;
    run_whole();
    source_run_end(&w);
    part_whole(&all);
    part_put(&w, &all, source_find(&w, w.run, 9)->dense);
    part_add(&all, all.slices[0]);
    is_refused(&all, "two slices share elements");
    all.count--;
    for (int of_two = 0; of_two < 2; of_two++) {
        for (uint64_t number = FIRST; number <= 10; number++) {
            const char *kind = number == FIRST ? "anchor" : "source";
            file_of(path, number, kind, 1);
            file_of(other, number, kind, of_two ? 2 : 0);
            unlink(path);
            assert_int_equal(link(other, path), 0);
            for (unsigned source = 0; of_two && source < 2; source++) {
                file_of(path, number, kind, source);
                strcpy(other, path);
                strcpy(strstr(other, "-of-3"), "-of-2.weft");
                assert_int_equal(rename(path, other), 0);
            }
        }
        is_refused(&all, of_two ? "its sources have" : "two slices share elements");
    }
    part_free(&all);
}

/* The merge from 5 to 8 is damaged, and so is the anchor: the updates lead on from the weights, and not from what the
 * merge made of the copy. */
static void another_way_begins_with_the_weights(void **state)
{
    char path[400];
    struct stat facts;
    part all;
    (void)state;
    run_whole();
    source_run_end(&w);
    for (unsigned source = 0; source < 3; source++) {
        file_of(path, FIRST, "anchor", source);
        damage(path, 150, SEEK_SET);
        file_of(path, 8, "merge", source);
        assert_int_equal(stat(path, &facts), 0);
        damage(path, facts.st_size / 3, SEEK_SET); /* behind frames that are applied */
    }
    weft_store *store = store_open();
    part_whole(&all);
    part_put(&w, &all, source_find(&w, w.run, FIRST)->dense);
    const weft_store_info info = leads_to(store, &all, LAST);
    assert_true(info.damaged > 0);
    part_free(&all);
    weft_store_close(store);
}

/* A reader that needs the file either has its bits or what it had, whichever byte is damaged. */
static void any_byte_may_be_damaged(void **state)
{
    char path[400];
    struct stat facts;
    part all;
    (void)state;
    run_whole();
    file_of(path, 10, "source", 0);
    assert_int_equal(stat(path, &facts), 0);
    part_whole(&all);
    for (long at = 0; at < facts.st_size; at += 1 + facts.st_size / 150) {
        part_put(&w, &all, source_find(&w, w.run, 9)->dense);
        damage(path, at, SEEK_SET);
        weft_store *store = store_open();
        const weft_status status = apply(store, &all, 10, NULL);
        if (status == WEFT_OK || !part_has(&w, &all, source_find(&w, w.run, 9)->dense))
            fail_msg("byte %ld is damaged: %s", at, weft_status_name(status));
        weft_store_close(store);
        damage(path, at, SEEK_SET);
    }
    weft_store *store = store_open();
    leads_to(store, &all, 10);
    weft_store_close(store);
    part_free(&all);
}

/* ---- sources that come back */

static bool is_held(uint64_t number)
{
    weft_version held;
    return weft_held(w.ranks[0].session, &held) == WEFT_OK && held.run == w.run && held.number == number;
}

/* Takes what is staged until the rank holds a number of the run. Every step is an update. */
static void follow_to(uint64_t number)
{
    for (unsigned i = 0; i < MOST && !is_held(number); i++) {
        weft_staged_info info = {.size = sizeof info};
        round_of();
        if (weft_staged(w.ranks[0].session, 0, &info) != WEFT_OK)
            continue;
        assert_int_equal(info.kind, WEFT_STAGED_UPDATE);
        assert_true(info.target.run == w.run && awake >= w.source_count);
        weft_commit(w.ranks[0].session, info.target.number, NULL, 0, NULL);
    }
    assert_true(is_held(number));
    source_check(&w, &w.ranks[0]);
}

static bool all_joined(void)
{
    const weft_joint *joint = w.ranks[0].session->joint;
    bool all = true;
    for (uint32_t i = 0; i < joint->count; i++)
        all = all && joint->ends[i]->joining.state == WEFT_JOIN_JOINED && joint->ends[i]->joining.welcome.run == w.run;
    return all;
}

static void ranks_are_led_back(void **state)
{
    (void)state;
    run_whole();
    w.rank_count = 1;
    source_rank_join(&w, 0, NULL, w.dense);
    follow_to(LAST);
    source_run_again(&w, source_find(&w, w.run, 8));
    for (unsigned i = 0; i < MOST && !all_joined(); i++)
        round_of();
    assert_true(all_joined());
    for (awake = 1; awake < w.source_count; awake++) /* one after the other sends what was wanted */
        for (unsigned i = 0; i < 300; i++) {
            weft_staged_info info = {.size = sizeof info};
            round_of();
            assert_int_not_equal(weft_staged(w.ranks[0].session, 0, &info), WEFT_OK);
        }
    follow_to(8);
    publish_to(9);
    follow_to(9);
    source_run_end(&w);
    weft_store *store = store_open();
    part all;
    part_whole(&all);
    leads_to(store, &all, 9); /* of the later run */
    part_free(&all);
    weft_store_close(store);
}

static bool has_ended(const source *s)
{
    pthread_mutex_lock(&s->session->lock);
    const bool done = s->session->trainer->publisher.recorder->done;
    pthread_mutex_unlock(&s->session->lock);
    return done;
}

/* A source comes back in its run with older bits. What it publishes once more is there, and other bits are not mixed
 * with them. */
static void a_run_is_not_mixed(void **state)
{
    source *s = &w.sources[0];
    (void)state;
    run_whole();
    source_kill(s);
    s->published = 8;
    source_start(&w, 0);
    source_go_to(&w, s, 9);
    wait_recorded(s->session, 1);
    w.newest = 9;
    source_publish(&w, 300); /* another version 10 */
    source_go_to(&w, s, 10);
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    while (!has_ended(s) && fleet_now_ms() < end)
        fleet_sleep_ms(1);
    assert_true(has_ended(s)); /* it does not try for ever */
    assert_int_equal(fleet_stats(s->session).recorded, 1);
    weft_store *store = store_open();
    part all;
    part_whole(&all);
    w.history_count--; /* the store has the first version 10 */
    leads_to(store, &all, 10);
    w.history_count++;
    part_free(&all);
    weft_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(of_three_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(of_three_sources, setup_orders, teardown),
        cmocka_unit_test_setup_teardown(of_one_source_with_cuts, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces_do_too, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces_do_too, setup_orders, teardown),
        cmocka_unit_test_setup_teardown(tight_updates_are_taken_forward, setup, teardown),
        cmocka_unit_test_setup_teardown(a_view_takes_its_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(a_view_takes_its_keys, setup_orders, teardown),
        cmocka_unit_test_setup_teardown(a_part_of_a_key_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(old_versions_go_at_all_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_late_hides_the_version, setup, teardown),
        cmocka_unit_test_setup_teardown(a_view_waits_for_its_sources_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_view_waits_for_its_sources_alone, setup_orders, teardown),
        cmocka_unit_test_setup_teardown(a_view_is_of_the_model, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wait_ends_when_files_come, setup, teardown),
        cmocka_unit_test_setup_teardown(all_weights_move_or_none, setup, teardown),
        cmocka_unit_test_setup_teardown(each_element_is_there_once, setup, teardown),
        cmocka_unit_test_setup_teardown(another_way_begins_with_the_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(any_byte_may_be_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_are_led_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_run_is_not_mixed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
