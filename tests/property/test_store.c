/* Laws of a store: every version comes back bit for bit, by the fewest bytes, forward and back, around damaged files;
 * nothing is overwritten; what is removed leaves a store that is whole. */
#include <time.h>

#include "base/status.h"
#include "tests/support/store_world.h"

#define COUNT_OF(w) listed((w), NULL)

static size_t listed(const world *w, weft_store_entry *entries)
{
    size_t count;
    assert_int_equal(weft_store_list(w->store, entries, entries ? VERSIONS + 1 : 0, &count), WEFT_OK);
    return count;
}

static weft_status count_fault(void *user, const weft_store_fault *fault)
{
    assert_non_null(fault->text);
    if (fault->file)
        snprintf(user, 256, "%s", fault->file);
    return WEFT_OK;
}

static uint64_t faults(const world *w, char file[256])
{
    uint64_t count = 99;
    file[0] = 0;
    if (weft_store_check(w->store, NULL, count_fault, file, &count) != WEFT_OK)
        fail_msg("not checked: %s", weft_last_error());
    return count;
}

static void test_every_version_comes_back(void **state)
{
    (void)state;
    world w;
    weft_store_entry entries[VERSIONS + 1];
    char file[256];
    world_open(&w, 4);
    world_fill(&w, 10);
    assert_int_equal(listed(&w, entries), 10);
    for (uint32_t v = 0; v < 10; v++) {
        assert_int_equal(entries[v].version.number, v + 1);
        assert_int_equal(entries[v].anchor_bytes > 0, v == 0 || (v + 1) % 4 == 0);
        assert_int_equal(entries[v].update_bytes > 0, v > 0);
        assert_int_equal(entries[v].update_bytes, file_bytes(&w, v, WEFT_STORE_UPDATE));
        assert_true(entries[v].reachable && !entries[v].damaged && entries[v].time_s > 0);
    }
    for (uint32_t i = 0; i < 60; i++)
        moves(&w, (uint32_t)(roll() % 10), NULL);
    store_reopen(&w);
    for (uint32_t i = 0; i < 30; i++)
        moves(&w, (uint32_t)(roll() % 10), NULL);
    assert_int_equal(faults(&w, file), 0);
    world_close(&w);
}

static void test_the_way_is_the_shortest(void **state)
{
    (void)state;
    world w;
    weft_store_info info = {.size = sizeof info};
    world_open(&w, 8);
    world_fill(&w, 10);
    moves(&w, 4, &info);
    assert_int_equal(info.anchors, 1);
    moves(&w, 6, &info); /* forward by two */
    assert_int_equal(info.files, 2);
    assert_int_equal(info.anchors, 0);
    assert_int_equal(info.bytes, file_bytes(&w, 5, WEFT_STORE_UPDATE) + file_bytes(&w, 6, WEFT_STORE_UPDATE));
    moves(&w, 3, &info); /* back by three */
    assert_int_equal(info.files, 3);
    assert_int_equal(info.anchors, 0);
    moves(&w, 3, &info);
    assert_int_equal(info.files, 0);
    memcpy(w.c.work, w.c.image[0], image_bytes(&w.c));
    w.c.work[3] ^= 1;    /* weights that no version has */
    moves(&w, 6, &info); /* back by one from the anchor of version 8 is shorter than six from that of version 1 */
    assert_int_equal(info.anchors, 1);
    assert_int_equal(info.files, 2);
    world_close(&w);
}

/* A merge leads from version 1 to 8. */
static void test_a_merge_is_read_in_place_of_its_updates(void **state)
{
    (void)state;
    world w;
    weft_store_info info = {.size = sizeof info};
    weft_store_entry entries[VERSIONS + 1];
    char file[256];
    world_open(&w, 64);
    world_fill(&w, 10);
    assert_int_equal(listed(&w, entries), 10);
    for (uint32_t v = 0; v < 10; v++)
        assert_int_equal(entries[v].merge_bytes > 0, v == 7);
    moves(&w, 0, NULL);
    moves(&w, 7, &info);
    assert_int_equal(info.files, 1);
    assert_int_equal(info.bytes, file_bytes(&w, 7, WEFT_STORE_MERGE));
    moves(&w, 0, &info); /* and back */
    assert_int_equal(info.files, 1);
    moves(&w, 9, &info); /* a merge and two updates */
    assert_int_equal(info.files, 3);
    moves(&w, 1, &info); /* back by these, and forward by one */
    assert_int_equal(info.files, 4);
    assert_int_equal(faults(&w, file), 0);
    world_close(&w);
}

/* A merge leads past a damaged update, and the updates past a damaged merge. */
static void test_a_merge_may_be_damaged(void **state)
{
    (void)state;
    world w;
    weft_store_info info = {.size = sizeof info};
    char file[256];
    world_open(&w, 64);
    world_fill(&w, 9);
    moves(&w, 0, NULL);
    file_flip(&w, 7, WEFT_STORE_MERGE, file_bytes(&w, 7, WEFT_STORE_MERGE) / 2);
    store_reopen(&w);
    moves(&w, 8, &info);
    assert_int_equal(info.files, 8);
    assert_int_equal(info.damaged, 1);
    assert_int_equal(faults(&w, file), 1);
    assert_non_null(strstr(file, "00000000000000000008/merge-0-of-1.weft"));
    file_flip(&w, 7, WEFT_STORE_MERGE, file_bytes(&w, 7, WEFT_STORE_MERGE) / 2);
    file_flip(&w, 3, WEFT_STORE_UPDATE, file_bytes(&w, 3, WEFT_STORE_UPDATE) / 2);
    store_reopen(&w);
    for (uint32_t i = 0; i < 30; i++)
        moves(&w, (uint32_t)(roll() % 9), NULL);
    assert_int_equal(faults(&w, file), 1); /* the update alone: no version is lost */
    world_close(&w);
}

static weft_status put_tight(world *w, uint32_t v, const char *level)
{
    weft_piece base[TENSORS], target[TENSORS];
    weft_store_put_options options = {.size = sizeof options, .base = label(v - 1), .target = label(v), .level = level};
    pieces_of(&w->c, w->c.image[v - 1], base);
    pieces_of(&w->c, w->c.image[v], target);
    return weft_store_put(w->store, w->c.layout, base, TENSORS, target, TENSORS, &options, NULL, NULL);
}

/* A tight update is less, and is read in place of the other on the way forward. */
static void test_a_tight_update_leads_forward(void **state)
{
    (void)state;
    world w;
    weft_store_info info = {.size = sizeof info};
    weft_store_entry entries[VERSIONS + 1];
    char file[256];
    world_open(&w, 64);
    world_fill(&w, 1);
    for (uint32_t v = 1; v < 6; v++) {
        chain_step(&w.c, 50, "fast");
        assert_int_equal(put_tight(&w, v, v < 4 ? "tight" : "fast"), WEFT_OK);
    }
    assert_int_equal(put_tight(&w, 5, "pairs"), WEFT_E_ARGUMENT);
    assert_int_equal(listed(&w, entries), 6);
    for (uint32_t v = 1; v < 6; v++)
        assert_int_equal(entries[v].tight_bytes, v < 4 ? file_bytes(&w, v, WEFT_STORE_TIGHT) : 0);
    moves(&w, 0, NULL);
    moves(&w, 1, &info);
    assert_true(entries[1].tight_bytes < entries[1].update_bytes);
    assert_int_equal(info.bytes, entries[1].tight_bytes);
    moves(&w, 5, &info);
    assert_int_equal(info.files, 4);
    moves(&w, 2, &info); /* back by the others */
    assert_int_equal(info.bytes, entries[5].update_bytes + entries[4].update_bytes + entries[3].update_bytes);
    assert_int_equal(faults(&w, file), 0);
    file_flip(&w, 2, WEFT_STORE_TIGHT, file_bytes(&w, 2, WEFT_STORE_TIGHT) / 2);
    store_reopen(&w);
    moves(&w, 1, NULL);
    moves(&w, 2, &info);
    assert_int_equal(info.damaged, 1);
    assert_int_equal(faults(&w, file), 1);
    assert_non_null(strstr(file, "tight-0-of-1.weft"));
    file_flip(&w, 2, WEFT_STORE_UPDATE, file_bytes(&w, 2, WEFT_STORE_UPDATE) / 2);
    file_flip(&w, 2, WEFT_STORE_TIGHT, file_bytes(&w, 2, WEFT_STORE_TIGHT) / 2);
    store_reopen(&w);
    moves(&w, 0, NULL);
    moves(&w, 5, NULL); /* past a damaged update */
    assert_int_equal(faults(&w, file), 1);
    world_close(&w);
}

/* An update that brings an attachment does not lead back, and a merge that hides one would not either. */
static void test_no_merge_hides_an_attachment(void **state)
{
    (void)state;
    world w;
    weft_piece base[TENSORS], target[TENSORS];
    weft_store_put_options options = {.size = sizeof options, .attachment = "other", .attachment_bytes = 5};
    weft_store_entry entries[VERSIONS + 1];
    world_open(&w, 64);
    world_fill(&w, 5);
    chain_step(&w.c, 50, "fast");
    pieces_of(&w.c, w.c.image[4], base);
    pieces_of(&w.c, w.c.image[5], target);
    options.base = label(4);
    options.target = label(5);
    assert_int_equal(weft_store_put(w.store, w.c.layout, base, TENSORS, target, TENSORS, &options, NULL, NULL),
                     WEFT_OK);
    for (uint32_t v = 6; v < 9; v++) {
        chain_step(&w.c, 50, "fast");
        assert_int_equal(put_from(&w, 0, v, NULL), WEFT_OK);
    }
    assert_int_equal(listed(&w, entries), 9);
    assert_int_equal(entries[7].merge_bytes, 0);
    world_close(&w);
}

static void test_nothing_is_overwritten(void **state)
{
    (void)state;
    world w, other;
    world_open(&w, 4);
    world_fill(&w, 5);
    assert_int_equal(put(&w, 3), WEFT_E_STATE);
    other = w; /* another writer, who has not looked since */
    other.store = NULL;
    store_reopen(&other);
    chain_step(&w.c, 50, "fast");
    assert_int_equal(put(&w, 5), WEFT_OK);
    const uint64_t bytes = file_bytes(&w, 5, WEFT_STORE_UPDATE);
    other.c = w.c;
    assert_int_equal(put(&other, 5), WEFT_E_STATE);
    assert_int_equal(file_bytes(&w, 5, WEFT_STORE_UPDATE), bytes);
    weft_store_close(other.store);
    moves(&w, 5, NULL);
    world_close(&w);
}

static void test_wrong_bases_are_refused(void **state)
{
    (void)state;
    world w;
    world_open(&w, 4);
    world_fill(&w, 3);
    chain_step(&w.c, 50, "fast");
    w.c.image[2][0] ^= 1;
    assert_int_equal(put(&w, 3), WEFT_E_BASE);
    assert_int_equal(COUNT_OF(&w), 3);
    w.c.image[2][0] ^= 1;
    weft_piece pieces[TENSORS];
    pieces_of(&w.c, w.c.image[3], pieces);
    weft_store_put_options options = {.size = sizeof options, .base = {RUN, 9, 0}, .target = {RUN, 10, 0}};
    assert_int_equal(weft_store_put(w.store, w.c.layout, pieces, TENSORS, pieces, TENSORS, &options, NULL, NULL),
                     WEFT_E_MISSING);
    options.base.number = 11;
    assert_int_equal(weft_store_put(w.store, w.c.layout, pieces, TENSORS, pieces, TENSORS, &options, NULL, NULL),
                     WEFT_E_ARGUMENT);
    options.target.run = 0;
    assert_int_equal(weft_store_put(w.store, w.c.layout, pieces, TENSORS, pieces, TENSORS, &options, NULL, NULL),
                     WEFT_E_ARGUMENT);
    assert_int_equal(put(&w, 3), WEFT_OK);
    moves(&w, 3, NULL);
    world_close(&w);
}

/* One damaged file between two anchors costs no version: what lies after it is reached back from the next anchor. */
static void test_one_damage_costs_nothing(void **state)
{
    (void)state;
    char file[256];
    for (uint32_t i = 0; i < 12; i++) {
        world w;
        weft_store_info info = {.size = sizeof info};
        world_open(&w, 4);
        world_fill(&w, 8);
        const weft_store_kind kind = i % 2 ? WEFT_STORE_ANCHOR : WEFT_STORE_UPDATE;
        const uint32_t v = i % 2 ? 3 + 4 * (uint32_t)(roll() % 2) : 1 + (uint32_t)(roll() % 7);
        const uint64_t at = roll() % file_bytes(&w, v, kind);
        file_flip(&w, v, kind, at);
        for (uint32_t to = 0; to < 8; to++) {
            if (i % 3 == 0)
                store_reopen(&w);
            memset(w.c.work, (int)i, 64);
            moves(&w, to, &info);
        }
        const uint64_t count = faults(&w, file);
        if (count != 1)
            fail_msg("%llu faults of a flip at %llu of %s of version %u", (unsigned long long)count,
                     (unsigned long long)at, kind ? "the anchor" : "the update", v + 1);
        assert_non_null(strstr(file, kind == WEFT_STORE_ANCHOR ? "anchor" : "source"));
        world_close(&w);
    }
}

/* A file whose end is missing is known as damaged before anything is proved. It is said once, in its version's turn. */
static void test_cut_files_are_named_once(void **state)
{
    (void)state;
    static const weft_store_kind kinds[] = {WEFT_STORE_UPDATE, WEFT_STORE_ANCHOR};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        world w;
        char path[512], file[256];
        world_open(&w, 4);
        world_fill(&w, 8);
        file_path(&w, 3, kinds[i], path);
        assert_int_equal(truncate(path, (off_t)file_bytes(&w, 3, kinds[i]) - 5), 0);
        store_reopen(&w);
        assert_int_equal(faults(&w, file), 1);
        assert_non_null(strstr(path, file));
        file_flip(&w, 4, WEFT_STORE_UPDATE, file_bytes(&w, 4, WEFT_STORE_UPDATE) / 2);
        assert_int_equal(faults(&w, file), 2);
        file_path(&w, 4, WEFT_STORE_UPDATE, path);
        assert_non_null(strstr(path, file));
        world_close(&w);
    }
}

static void test_what_is_lost_is_named(void **state)
{
    (void)state;
    world w;
    char file[256], path[512];
    world_open(&w, 64);
    world_fill(&w, 6);
    file_flip(&w, 2, WEFT_STORE_UPDATE, file_bytes(&w, 2, WEFT_STORE_UPDATE) / 2);
    assert_int_equal(faults(&w, file), 5); /* the file, and versions 3 to 6 */
    assert_non_null(strstr(file, "00000000000000000003/source-0-of-1.weft"));
    assert_int_equal(move(&w, 4, NULL), WEFT_E_MISSING);
    moves(&w, 1, NULL);
    file_path(&w, 5, WEFT_STORE_UPDATE, path);
    assert_int_equal(truncate(path, 5), 0);
    store_reopen(&w);
    assert_int_equal(move(&w, 5, NULL), WEFT_E_MISSING); /* nor is there a file that tells its tensors */
    moves(&w, 0, NULL);
    world_close(&w);
}

static void test_foreign_files_are_left_alone(void **state)
{
    (void)state;
    world w;
    char path[512], file[256];
    world_open(&w, 4);
    world_fill(&w, 3);
    file_path(&w, 1, WEFT_STORE_UPDATE, path);
    strcpy(strrchr(path, '/') + 1, "source-0-of-65.weft");
    fclose(fopen(path, "w"));
    strcpy(strrchr(path, '/') + 1, "source-00-of-1.weft");
    fclose(fopen(path, "w"));
    strcpy(strrchr(path, '/') + 1, "notes.txt");
    fclose(fopen(path, "w"));
    assert_int_equal(weft_store_refresh(w.store), WEFT_OK);
    assert_int_equal(COUNT_OF(&w), 3);
    assert_int_equal(w.store->others, 3);
    assert_int_equal(faults(&w, file), 0);
    world_close(&w);
}

static void test_what_stays_can_be_read(void **state)
{
    (void)state;
    char file[256];
    for (uint32_t versions = 1; versions <= 10; versions++) {
        world w;
        uint64_t removed = 99;
        world_open(&w, 3);
        world_fill(&w, 10);
        weft_store_keep keep = {.size = sizeof keep, .versions = versions, .grace_s = 3600};
        assert_int_equal(weft_store_trim(w.store, &keep, &removed), WEFT_OK);
        assert_int_equal(removed, 0); /* because of the grace time */
        keep.grace_s = 0;
        assert_int_equal(weft_store_trim(w.store, &keep, &removed), WEFT_OK);
        const uint32_t first = (uint32_t)removed;
        assert_int_equal(COUNT_OF(&w), 10 - removed);
        assert_true(10 - removed >= versions);
        assert_true(first == 0 || (first + 1) % 3 == 0); /* versions 1, 3, 6 and 9 have anchors */
        assert_true(10 - removed < versions + 3);
        for (uint32_t v = first; v < 10; v++)
            moves(&w, v, NULL);
        assert_int_equal(faults(&w, file), 0);
        if (first > 0)
            assert_int_equal(move(&w, first - 1, NULL), WEFT_E_MISSING);
        world_close(&w);
    }
}

static void test_bounds_of_bytes_and_age(void **state)
{
    (void)state;
    world w;
    uint64_t removed = 0;
    world_open(&w, 3);
    world_fill(&w, 10);
    weft_store_keep keep = {.size = sizeof keep, .age_s = 1000};
    assert_int_equal(weft_store_trim(w.store, NULL, &removed), WEFT_E_ARGUMENT);
    assert_int_equal(weft_store_trim(w.store, &keep, &removed), WEFT_OK);
    assert_int_equal(removed, 0);
    for (uint32_t v = 0; v < 7; v++) { /* written long ago */
        char path[512];
        const struct timespec times[2] = {{time(NULL) - 5000, 0}, {time(NULL) - 5000, 0}};
        file_path(&w, v, WEFT_STORE_UPDATE, path);
        utimensat(AT_FDCWD, path, times, 0);
        file_path(&w, v, WEFT_STORE_ANCHOR, path);
        utimensat(AT_FDCWD, path, times, 0);
    }
    assert_int_equal(weft_store_trim(w.store, &keep, &removed), WEFT_OK);
    assert_int_equal(removed, 5); /* version 8 is young, and version 6 is its anchor */
    keep = (weft_store_keep){.size = sizeof keep, .bytes = 1};
    assert_int_equal(weft_store_trim(w.store, &keep, &removed), WEFT_OK);
    assert_int_equal(COUNT_OF(&w), 2); /* the last anchor, and all after it */
    moves(&w, 9, NULL);
    world_close(&w);
}

static weft_status open_fails(void *user, const char *name, weft_update_file **update)
{
    (void)user;
    (void)name;
    (void)update;
    return weft_fail_quiet(WEFT_E_TIMEOUT, "the server is away");
}

/* What was listed can still be had, after a look at a place that does not serve. */
static void test_a_look_that_fails_leaves_the_listing(void **state)
{
    (void)state;
    world w;
    weft_store *writer, *reader = NULL;
    weft_store_entry entries[VERSIONS + 1];
    world_open(&w, 64);
    world_fill(&w, 4);
    assert_int_equal(weft_store_open(w.folder, NULL, &reader), WEFT_OK);
    chain_step(&w.c, 50, "fast");
    assert_int_equal(put(&w, 4), WEFT_OK);
    writer = w.store;
    w.store = reader;
    const weft_store_port *port = reader->port;
    weft_store_port away = *port;
    away.open = open_fails;
    reader->port = &away;
    assert_int_equal(weft_store_refresh(reader), WEFT_E_FILE);
    reader->port = port;
    assert_int_equal(listed(&w, entries), 4);
    for (uint32_t v = 0; v < 4; v++)
        assert_true(entries[v].reachable && !entries[v].damaged);
    for (uint32_t v = 4; v-- > 0;)
        moves(&w, v, NULL);
    assert_int_equal(weft_store_refresh(reader), WEFT_OK);
    moves(&w, 4, NULL);
    weft_store_close(writer);
    world_close(&w);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "0000000000000001",
        "0000000000000001/00000000000000000002",
        "0000000000000001/2/source-0-of-1.weft",
        "0000000000000001/00000000000000000002/source-1-of-1.weft",
        "0000000000000001/00000000000000000002/source-0-of-1.weft.tmp",
        "0000000000000001/00000000000000000002/source-+0-of-1.weft",
        "0000000000000001/00000000000000000002/source-0-of-01.weft",
        "000000000000000A/00000000000000000002/source-0-of-1.weft",
        "0000000000000001/99999999999999999999/source-0-of-1.weft",
        "0000000000000001/00000000000000000002/weft-01234567.tmp",
    };
    weft_store_name name = {0xfedcba9876543210, UINT64_MAX, WEFT_STORE_ANCHOR, 3, 8}, again;
    char text[WEFT_STORE_NAME_MAX];
    weft_store_name_put(&name, text);
    assert_string_equal(text, "fedcba9876543210/18446744073709551615/anchor-3-of-8.weft");
    assert_true(weft_store_name_get(text, &again));
    assert_true(again.run == name.run && again.number == name.number && again.kind == name.kind && again.source == 3 &&
                again.sources == 8);
    for (size_t i = 0; i < COUNT(wrong); i++)
        if (weft_store_name_get(wrong[i], &again))
            fail_msg("'%s' is taken for the name of a file", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_every_version_comes_back),
        cmocka_unit_test(test_the_way_is_the_shortest),
        cmocka_unit_test(test_a_merge_is_read_in_place_of_its_updates),
        cmocka_unit_test(test_a_merge_may_be_damaged),
        cmocka_unit_test(test_a_tight_update_leads_forward),
        cmocka_unit_test(test_no_merge_hides_an_attachment),
        cmocka_unit_test(test_nothing_is_overwritten),
        cmocka_unit_test(test_wrong_bases_are_refused),
        cmocka_unit_test(test_one_damage_costs_nothing),
        cmocka_unit_test(test_cut_files_are_named_once),
        cmocka_unit_test(test_what_is_lost_is_named),
        cmocka_unit_test(test_foreign_files_are_left_alone),
        cmocka_unit_test(test_what_stays_can_be_read),
        cmocka_unit_test(test_bounds_of_bytes_and_age),
        cmocka_unit_test(test_a_look_that_fails_leaves_the_listing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
