/* Rules of a store (docs/STORE.md), each where it is decided: what a file is by its name and by both ends, which files
 * a version gets and in which order, what is removed, what a look reads again, and which errors end a call. */
#define CHAIN_FIRST 2000

#include <stdatomic.h>
#include <time.h>

#include "base/status.h"
#include "tests/support/reseal.h"
#include "tests/support/store_forge.h"
#include "tests/support/store_world.h"

#define NOTED 16u

/* A folder that counts, notes, and fails. */
static struct {
    weft_store_port port;
    const weft_store_port *folder;
    atomic_uint opened, open_now, open_most;
    unsigned open_good; /* files that open before the place is away */
    char put[NOTED][WEFT_STORE_NAME_MAX];
    unsigned puts;
} own;

static weft_status open_counted(void *place, const char *name, weft_update_file **update)
{
    const unsigned before = atomic_fetch_add(&own.opened, 1), now = atomic_fetch_add(&own.open_now, 1) + 1;
    if (now > own.open_most)
        own.open_most = now;
    for (int i = 0; i < 50 && own.open_good && own.open_most <= own.port.abreast && own.port.abreast; i++)
        usleep(1000); /* until more come than may */
    const weft_status status = before < own.open_good ? own.folder->open(place, name, update)
                                                      : weft_fail_quiet(WEFT_E_TIMEOUT, "the server is away");
    atomic_fetch_sub(&own.open_now, 1);
    return status;
}

static weft_status put_noted(void *place, const char *name, weft_status (*fill)(void *user, const weft_sink *sink),
                             void *user)
{
    snprintf(own.put[own.puts++ % NOTED], WEFT_STORE_NAME_MAX, "%s", strrchr(name, '/') + 1);
    return own.folder->put(place, name, fill, user);
}

static weft_status remove_fails(void *place, const char *name)
{
    (void)place;
    return weft_fail_quiet(WEFT_E_FILE, "%s: cannot be removed", name);
}

static void own_take(world *w, unsigned open_good)
{
    if (w->store->port != &own.port) {
        own.folder = w->store->port;
        own.port = *own.folder;
        own.port.open = open_counted;
        own.port.put = put_noted;
        w->store->port = &own.port;
    }
    own.opened = own.open_most = own.puts = 0;
    own.open_good = open_good;
}

/* Puts image `v` as a version whose base has image `v` - 1; base run 0: none. */
static weft_status put_as(world *w, weft_version base, weft_version target, uint32_t v, const char *attachment)
{
    weft_piece from[TENSORS], to[TENSORS];
    const weft_store_put_options options = {.size = sizeof options,
                                            .base = base,
                                            .target = target,
                                            .attachment = attachment,
                                            .attachment_bytes = attachment ? strlen(attachment) : 0};
    while (w->c.length < v)
        chain_step(&w->c, 20, "fast");
    pieces_of(&w->c, w->c.image[v ? v - 1 : 0], from);
    pieces_of(&w->c, w->c.image[v], to);
    return weft_store_put(w->store, w->c.layout, base.run ? from : NULL, base.run ? TENSORS : 0, to, TENSORS, &options,
                          NULL, NULL);
}

static const weft_store_version *version_at(const world *w, uint64_t run, uint64_t number)
{
    const uint64_t index = weft_store_find(w->store, run, number);
    assert_true(index != WEFT_STORE_NONE);
    return &w->store->versions[index];
}

static size_t listed(const world *w, weft_store_entry *entries)
{
    size_t count = 0;
    assert_int_equal(weft_store_list(w->store, entries, VERSIONS + 1, &count), WEFT_OK);
    return count;
}

static void tells(const world *w, weft_version version, const char *text)
{
    char head[16];
    uint64_t bytes = 0;
    assert_int_equal(weft_store_attachment(w->store, &version, head, sizeof head, &bytes), WEFT_OK);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(head, text, bytes);
}

static void entry_path(const world *w, const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", w->folder, name);
}

static void touch(const char *path)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
}

/* Gives a file the time that is so many seconds ago. */
static void age(const world *w, uint32_t v, weft_store_kind kind, time_t seconds)
{
    char path[512];
    const struct timespec times[2] = {{time(NULL) - seconds, 0}, {time(NULL) - seconds, 0}};
    file_path(w, v, kind, path);
    utimensat(AT_FDCWD, path, times, 0);
}

/* ---- what a file is */

/* Version 2 has one file in place of its own, or beside these. */
static void test_a_file_is_what_its_name_says(void **state)
{
    static const struct {
        weft_store_kind kind;
        weft_version base, target;
        uint32_t image;
        const char *names, *words; /* NULL: nothing is wrong; "": the words are another room's */
        weft_status status;
    } rows[] = {
        {WEFT_STORE_MERGE, {RUN, 1, 0}, {RUN, 2, 0}, 1, NULL, NULL, WEFT_OK},
        {WEFT_STORE_UPDATE, {RUN, 1, 0}, {RUN, 3, 0}, 1, NULL, "leads to version 3", WEFT_E_CORRUPT},
        {WEFT_STORE_UPDATE, {RUN, 1, 0}, {RUN + 1, 2, 0}, 1, NULL, "of run 1234500000000002", WEFT_E_CORRUPT},
        {WEFT_STORE_ANCHOR, {RUN, 1, 0}, {RUN, 2, 0}, 1, NULL, "an anchor has no base", WEFT_E_CORRUPT},
        {WEFT_STORE_ANCHOR, {0, 1, 0}, {RUN, 2, 0}, 1, NULL, "an anchor has no base", WEFT_E_CORRUPT},
        {WEFT_STORE_MERGE, {RUN - 1, 1, 0}, {RUN, 2, 0}, 1, NULL, "starts from another run", WEFT_E_CORRUPT},
        {WEFT_STORE_UPDATE, {RUN, 2, 0}, {RUN, 2, 0}, 1, NULL, "no earlier one", WEFT_E_CORRUPT},
        {WEFT_STORE_TIGHT, {RUN + 1, 1, 0}, {RUN, 2, 0}, 1, NULL, "no earlier one", WEFT_E_CORRUPT},
        {WEFT_STORE_UPDATE, {RUN, 1, 0}, {RUN, 2, 0}, 1, "never", "does not name its tensors", WEFT_E_CORRUPT},
        {WEFT_STORE_MERGE, {RUN, 1, 0}, {RUN, 2, 0}, 2, NULL, "", WEFT_E_TARGET}, /* another root than the update's */
        {WEFT_STORE_ANCHOR, {0, 0, 0}, {RUN, 2, 0}, 2, NULL, "", WEFT_E_TARGET},
        {WEFT_STORE_TIGHT, {0, 0, 0}, {0, 0, 0}, 0, NULL, "", WEFT_E_CORRUPT}, /* an empty file */
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        world w;
        memory_file file = {0};
        weft_store_entry entries[VERSIONS + 1];
        const weft_diff_options options = {.size = sizeof options,
                                           .level = "fast",
                                           .base = rows[i].base,
                                           .target = rows[i].target,
                                           .names = rows[i].names};
        world_open(&w, 64);
        world_fill(&w, 3);
        if (rows[i].target.run)
            diff_made(&w, 0, rows[i].image, &options, &file);
        file_write(&w, 1, rows[i].kind, &file);
        store_reopen(&w);
        weft_store_file *read = &w.store->versions[1].files[rows[i].kind];
        assert_int_equal(listed(&w, entries), 3);
        if (read->status != rows[i].status || entries[1].damaged != (rows[i].status != WEFT_OK) || !read->item.bytes)
            fail_msg("row %zu: %s", i, weft_status_name(read->status));
        weft_update_file *update = NULL;
        if (rows[i].words && *rows[i].words) {
            assert_int_equal(weft_store_file_open(w.store, read, &update), WEFT_E_CORRUPT);
            is_said(rows[i].words);
        }
        if (rows[i].kind != WEFT_STORE_UPDATE) /* beside a whole update nothing is lost */
            moves(&w, 2, NULL);
        memory_free(&file);
        world_close(&w);
    }
}

/* A later version goes on from the bits of its base, and not from others of the same number. */
static void test_a_file_leads_on_from_its_root_alone(void **state)
{
    world w;
    memory_file file = {0};
    weft_store_entry entries[VERSIONS + 1];
    const weft_diff_options options = {.size = sizeof options, .level = "fast", .base = label(0), .target = label(1)};
    (void)state;
    world_open(&w, 64);
    world_fill(&w, 4);
    diff_made(&w, 0, 3, &options, &file);
    file_write(&w, 1, WEFT_STORE_UPDATE, &file);
    store_reopen(&w);
    assert_int_equal(listed(&w, entries), 4);
    assert_true(entries[1].reachable && !entries[2].reachable && !entries[3].reachable);
    memory_free(&file);
    world_close(&w);
}

/* Files go while the store is open: the attachment and the tensors come out of others. */
static void test_what_tells_the_version_is_gone_round(void **state)
{
    world w;
    char path[512];
    weft_layout *layout = NULL;
    const weft_version version = label(2);
    (void)state;
    world_open(&w, 4);
    world_fill(&w, 6);
    file_path(&w, 3, WEFT_STORE_ANCHOR, path);
    assert_int_equal(truncate(path, 100), 0);
    tells(&w, label(3), "head");
    file_path(&w, 2, WEFT_STORE_UPDATE, path);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(weft_store_layout(w.store, &version, &layout), WEFT_OK);
    weft_layout_free(layout);
    world_close(&w);
}

/* ---- what a version gets */

static void test_the_update_comes_first(void **state)
{
    world w;
    (void)state;
    world_open(&w, 4);
    world_fill(&w, 3);
    own_take(&w, 1000);
    assert_int_equal(put_as(&w, label(2), label(3), 3, NULL), WEFT_OK);
    assert_int_equal(own.puts, 2);
    assert_string_equal(own.put[0], "source-0-of-1.weft");
    assert_string_equal(own.put[1], "anchor-0-of-1.weft");
    world_close(&w);
}

/* Two runs whose numbers meet: the later one has an anchor and merges of its own, and is meant where no run is named.
 */
static void test_runs_follow_each_other(void **state)
{
    world w;
    weft_piece pieces[TENSORS];
    const weft_version any = {0, 3, 0};
    weft_store_info info = {.size = sizeof info};
    uint64_t faults = 1;
    (void)state;
    world_open(&w, 64);
    world_fill(&w, 3);
    for (uint64_t number = 3; number <= 8; number++)
        assert_int_equal(put_as(&w, (weft_version){number == 3 ? RUN : RUN + 1, number == 3 ? 3 : number - 1, 0},
                                (weft_version){RUN + 1, number, 0}, (uint32_t)number, number == 3 ? "later" : NULL),
                         WEFT_OK);
    assert_true(version_at(&w, RUN + 1, 3)->files[WEFT_STORE_ANCHOR].item.bytes > 0);
    assert_int_equal(version_at(&w, RUN + 1, 4)->files[WEFT_STORE_ANCHOR].item.bytes, 0);
    assert_true(weft_store_has(version_at(&w, RUN + 1, 8), WEFT_STORE_MERGE));
    assert_true(version_at(&w, RUN + 1, 8)->files[WEFT_STORE_MERGE].base.run == RUN + 1);
    assert_int_equal(version_at(&w, RUN + 1, 8)->files[WEFT_STORE_MERGE].base.number, 3);
    pieces_of(&w.c, w.c.work, pieces);
    assert_int_equal(weft_store_apply(w.store, &any, w.c.layout, pieces, TENSORS, NULL, &info), WEFT_OK);
    assert_true(info.version.run == RUN + 1 && version_at(&w, 0, 3)->version.run == RUN + 1);
    assert_memory_equal(w.c.work, w.c.image[3], image_bytes(&w.c));
    tells(&w, any, "later");
    assert_int_equal(weft_store_check(w.store, NULL, NULL, NULL, &faults), WEFT_OK);
    assert_int_equal(faults, 0);
    world_close(&w);
}

static void test_a_single_update_is_not_merged(void **state)
{
    world w;
    (void)state;
    world_open(&w, 64);
    assert_int_equal(put_as(&w, (weft_version){0}, label(6), 0, NULL), WEFT_OK);
    assert_int_equal(put_as(&w, label(6), label(7), 1, NULL), WEFT_OK);
    assert_int_equal(version_at(&w, RUN, 8)->files[WEFT_STORE_MERGE].item.bytes, 0);
    world_close(&w);
}

/* An update of the eight is damaged while the writer writes: there is no merge, and no error. */
static void test_a_damaged_update_costs_the_merge_alone(void **state)
{
    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        world w;
        char path[512];
        world_open(&w, 64);
        world_fill(&w, 7);
        file_path(&w, 3, WEFT_STORE_UPDATE, path);
        if (cut)
            assert_int_equal(truncate(path, 100), 0);
        else
            file_flip(&w, 3, WEFT_STORE_UPDATE, file_bytes(&w, 3, WEFT_STORE_UPDATE) / 2);
        assert_int_equal(put_as(&w, label(6), label(7), 7, NULL), WEFT_OK);
        assert_int_equal(file_bytes(&w, 7, WEFT_STORE_MERGE), 0);
        world_close(&w);
    }
}

/* Versions 1 and 2 have "head", 3 and 4 "other". Version 4 has an anchor. */
static void test_attachments_are_where_they_change(void **state)
{
    world w;
    char path[512];
    weft_store_info info = {.size = sizeof info};
    (void)state;
    world_open(&w, 4);
    world_fill(&w, 2);
    assert_int_equal(put_as(&w, label(1), label(2), 2, "other"), WEFT_OK);
    assert_int_equal(put_as(&w, label(2), label(3), 3, NULL), WEFT_OK);
    for (uint32_t v = 1; v < 4; v++)
        assert_int_equal(w.store->versions[v].files[WEFT_STORE_UPDATE].attached, v == 2);
    assert_true(w.store->versions[3].files[WEFT_STORE_ANCHOR].attached);
    for (uint32_t v = 0; v < 4; v++)
        tells(&w, label(v), v < 2 ? "head" : "other");
    moves(&w, 2, NULL);
    moves(&w, 1, &info); /* no way leads back over what does not say what was there before */
    assert_true(info.anchors == 1 && info.damaged == 0);
    file_path(&w, 3, WEFT_STORE_ANCHOR, path);
    assert_int_equal(unlink(path), 0);
    store_reopen(&w);
    tells(&w, label(3), "other"); /* by the update of version 3 */
    world_close(&w);
}

/* ---- weights */

/* Halves of tensors, the last first, and a struct of an earlier weft. */
/* ---- what goes */

static uint64_t trimmed(const world *w, weft_store_keep keep, weft_status status)
{
    uint64_t removed = 99;
    keep.size = sizeof keep;
    assert_int_equal(weft_store_trim(w->store, &keep, &removed), status);
    return removed;
}

/* Anchors are those of versions 1, 3, 6 and 9; a merge is that of version 8. */
static void test_what_goes_by_the_bounds(void **state)
{
    world w;
    uint64_t updates = 0;
    char path[512];
    (void)state;
    world_open(&w, 3);
    world_fill(&w, 10);
    for (uint32_t v = 0; v < 10; v++)
        for (int kind = 0; kind < WEFT_STORE_KINDS; kind++)
            age(&w, v, (weft_store_kind)kind, kind == WEFT_STORE_MERGE ? 0 : 5000);
    own_take(&w, 1000);
    assert_int_equal(weft_store_trim(w.store, NULL, &updates), WEFT_E_ARGUMENT);
    age(&w, 0, WEFT_STORE_ANCHOR, 0); /* and then the update alone is young: either keeps the oldest version */
    store_reopen(&w);
    assert_int_equal(trimmed(&w, (weft_store_keep){.versions = 1, .grace_s = 1000}, WEFT_OK), 0);
    age(&w, 0, WEFT_STORE_ANCHOR, 5000);
    age(&w, 1, WEFT_STORE_UPDATE, 0);
    store_reopen(&w);
    assert_int_equal(trimmed(&w, (weft_store_keep){.versions = 1, .grace_s = 1000}, WEFT_OK), 0);
    age(&w, 1, WEFT_STORE_UPDATE, 5000);
    store_reopen(&w);
    own_take(&w, 1000);
    own.port.remove = remove_fails;
    assert_int_equal(trimmed(&w, (weft_store_keep){.versions = 1}, WEFT_E_FILE), 0);
    is_said("cannot be removed");
    own.port.remove = own.folder->remove;
    assert_int_equal(trimmed(&w, (weft_store_keep){.versions = 1, .grace_s = 1000}, WEFT_OK),
                     5); /* the merge is young */
    file_path(&w, 4, WEFT_STORE_UPDATE, path);
    *strrchr(path, '/') = 0;
    assert_int_equal(access(path, F_OK), -1); /* its folder is gone too */
    for (uint32_t v = 6; v < 10; v++)
        updates += file_bytes(&w, v, WEFT_STORE_UPDATE);
    assert_int_equal(trimmed(&w, (weft_store_keep){.bytes = updates}, WEFT_OK), 3); /* anchors and merges count */
    moves(&w, 9, NULL);
    world_close(&w);
}

static void test_without_an_anchor_nothing_goes(void **state)
{
    world w;
    char path[512];
    (void)state;
    world_open(&w, 64);
    world_fill(&w, 5);
    file_path(&w, 0, WEFT_STORE_ANCHOR, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(trimmed(&w, (weft_store_keep){.versions = 1}, WEFT_OK), 0);
    assert_true(file_bytes(&w, 1, WEFT_STORE_UPDATE) > 0);
    world_close(&w);
}

/* A later run goes on from version 5, and its own anchor is lost. Version 6 has an anchor. */
static void test_what_another_run_starts_from_stays(void **state)
{
    world w;
    char path[512];
    weft_piece pieces[TENSORS];
    const weft_version last = {RUN + 1, 7, 0};
    const weft_store_name lost = {RUN + 1, 7, WEFT_STORE_ANCHOR, 0, 1};
    char name[WEFT_STORE_NAME_MAX];
    (void)state;
    world_open(&w, 6);
    world_fill(&w, 6);
    memcpy(w.c.image[5], w.c.image[4], image_bytes(&w.c)); /* so that image 6 goes on from version 5's bits */
    assert_int_equal(put_as(&w, label(4), last, 6, NULL), WEFT_OK);
    weft_store_name_put(&lost, name);
    entry_path(&w, name, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(trimmed(&w, (weft_store_keep){.versions = 1}, WEFT_OK), 0);
    pieces_of(&w.c, w.c.work, pieces);
    assert_int_equal(weft_store_apply(w.store, &last, w.c.layout, pieces, TENSORS, NULL, NULL), WEFT_OK);
    world_close(&w);
}

/* Unfinished files of writers go when a writer opens, and with a trim. Files of others stay, and so do folders. */
static void test_unfinished_files_go(void **state)
{
    static const char *const names[] = {"0000000000000007/00000000000000000001/weft-0123abcd.tmp", /* left */
                                        "weft-0123abcd.tmp", "0000000000000007/weft-0123abcd.tmp"};
    char paths[COUNT(names)][512], folder[512];
    world w;
    weft_store *reader = NULL;
    (void)state;
    world_open(&w, 64);
    world_fill(&w, 1);
    entry_path(&w, "0000000000000007", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    entry_path(&w, "0000000000000007/00000000000000000001", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (size_t i = 0; i < COUNT(names); i++)
        entry_path(&w, names[i], paths[i]);
    for (int by_trim = 0; by_trim < 2; by_trim++) {
        for (size_t i = 0; i < COUNT(names); i++)
            touch(paths[i]);
        assert_int_equal(weft_store_open(w.folder, NULL, &reader), WEFT_OK);
        weft_store_close(reader);
        assert_int_equal(access(paths[0], F_OK), 0); /* a reader removes nothing */
        if (by_trim)
            trimmed(&w, (weft_store_keep){.versions = 1}, WEFT_OK);
        else
            store_reopen(&w);
        for (size_t i = 0; i < COUNT(names); i++)
            assert_int_equal(access(paths[i], F_OK), i ? 0 : -1);
        for (size_t i = 1; i < COUNT(names); i++)
            unlink(paths[i]);
        assert_int_equal(access(folder, F_OK), 0);
    }
    world_close(&w);
}

static void test_a_place_that_was_given_up_changes_nothing(void **state)
{
    world w;
    char path[512];
    (void)state;
    world_open(&w, 2);
    world_fill(&w, 2);
    weft_store_leave(w.store);
    assert_int_equal(put_as(&w, label(1), label(2), 2, NULL), WEFT_E_STATE);
    file_path(&w, 2, WEFT_STORE_UPDATE, path);
    *strrchr(path, '/') = 0;
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(trimmed(&w, (weft_store_keep){.versions = 1}, WEFT_E_STATE), 0);
    store_reopen(&w);
    moves(&w, 0, NULL);
    world_close(&w);
}

/* ---- several sources */

/* Opens the files of a source of two; 2: of all. */
static void source_take(world *w, uint32_t source)
{
    const weft_store_options options = {.size = sizeof options, .create = 1, .anchors = w->anchors};
    weft_store_close(w->store);
    w->store = NULL;
    if (source == 2)
        assert_int_equal(weft_store_open(w->folder, &options, &w->store), WEFT_OK);
    else
        assert_int_equal(weft_store_open_source(w->folder, &options, source, 2, &w->store), WEFT_OK);
}

static void sources_fill(world *w, uint64_t anchors)
{
    world_open(w, anchors);
    for (uint32_t source = 0; source < 2; source++) {
        source_take(w, source);
        for (uint32_t v = 0; v < 6; v++)
            assert_int_equal(put_as(w, v ? label(v - 1) : (weft_version){0}, label(v), v, "head"), WEFT_OK);
    }
}

static void test_sources_write_each_its_own(void **state)
{
    world w;
    (void)state;
    sources_fill(&w, 64);
    source_take(&w, 2);
    assert_int_equal(put_as(&w, (weft_version){0}, (weft_version){RUN + 1, 9, 0}, 6, NULL), WEFT_E_STATE);
    is_said("several sources write it");
    assert_true(weft_store_find(w.store, RUN + 1, 9) == WEFT_STORE_NONE);
    world_close(&w);
}

static void test_bytes_are_of_one_source_or_shared(void **state)
{
    world w;
    uint64_t all = 0;
    (void)state;
    sources_fill(&w, 2);
    source_take(&w, 0);
    for (uint64_t i = 0; i < w.store->count; i++)
        for (int kind = 0; kind < WEFT_STORE_KINDS; kind++)
            all += w.store->versions[i].files[kind].item.bytes;
    assert_int_equal(trimmed(&w, (weft_store_keep){.bytes = all}, WEFT_OK), 0);
    source_take(&w, 2);
    assert_int_equal(trimmed(&w, (weft_store_keep){.bytes = 2 * all}, WEFT_OK), 0);
    assert_true(trimmed(&w, (weft_store_keep){.bytes = all}, WEFT_OK) > 0);
    world_close(&w);
}

static void test_each_source_may_have_the_damage(void **state)
{
    (void)state;
    for (uint32_t source = 0; source < 2; source++) {
        world w;
        char path[512], name[WEFT_STORE_NAME_MAX];
        weft_store_entry entries[VERSIONS + 1];
        uint64_t faults = 0;
        const weft_store_name cut = {RUN, 3, WEFT_STORE_UPDATE, source, 2};
        sources_fill(&w, 64);
        weft_store_name_put(&cut, name);
        entry_path(&w, name, path);
        assert_int_equal(truncate(path, 100), 0);
        source_take(&w, 2);
        assert_int_equal(listed(&w, entries), 6);
        for (uint32_t v = 0; v < 6; v++)
            assert_true(entries[v].damaged == (v == 2) && entries[v].reachable == (v < 2));
        assert_int_equal(weft_store_check(w.store, NULL, NULL, NULL, &faults), WEFT_OK);
        assert_int_equal(faults, 1 + 4);
        world_close(&w);
    }
}

/* ---- looks and checks */

static void test_a_look_reads_what_is_new(void **state)
{
    world w;
    weft_version version = label(2);
    (void)state;
    world_open(&w, 64);
    world_fill(&w, 3);
    own_take(&w, 1000);
    assert_int_equal(weft_store_refresh(w.store), WEFT_OK);
    const unsigned first = own.opened; /* of what this handle wrote, the time may be another */
    assert_true(first <= 3);
    assert_int_equal(weft_store_refresh(w.store), WEFT_OK);
    assert_int_equal(own.opened, first);
    age(&w, 1, WEFT_STORE_UPDATE, 100);
    assert_int_equal(weft_store_refresh(w.store), WEFT_OK);
    assert_int_equal(own.opened, first + 1);
    for (int whole = 0; whole < 2; whole++) { /* damage that nobody sees in names, sizes and times */
        file_flip(&w, 1, WEFT_STORE_UPDATE, file_bytes(&w, 1, WEFT_STORE_UPDATE) / 2);
        age(&w, 1, WEFT_STORE_UPDATE, 100);
        assert_int_equal(weft_store_refresh(w.store), WEFT_OK);
        memcpy(w.c.work, w.c.image[0], image_bytes(&w.c));
        assert_true((move(&w, 2, NULL) == WEFT_OK) == whole);
    }
    assert_int_equal(weft_store_version_find(w.store, &version, &(uint64_t){0}), WEFT_OK);
    world_close(&w);
}

static void test_files_are_looked_at_abreast(void **state)
{
    static const struct {
        uint32_t abreast;
        unsigned good, most;
        weft_status status;
    } rows[] = {{0, 1000, 1, WEFT_OK}, {4, 1000, 4, WEFT_OK}, {0, 2, 1, WEFT_E_FILE}, {4, 0, 4, WEFT_E_FILE}};
    world w;
    (void)state;
    world_open(&w, 2);
    world_fill(&w, 10);
    weft_store *writer = w.store;
    for (size_t i = 0; i < COUNT(rows); i++) {
        w.store = NULL;
        char folder[sizeof w.folder + 8];
        snprintf(folder, sizeof folder, "%s.new", w.folder);
        assert_int_equal(mkdir(folder, 0700), 0);
        assert_int_equal(weft_store_open(folder, NULL, &w.store), WEFT_OK); /* empty, until the folder is the other */
        assert_int_equal(rmdir(folder), 0);
        assert_int_equal(rename(w.folder, folder), 0);
        own_take(&w, rows[i].good);
        own.port.abreast = rows[i].abreast;
        assert_int_equal(weft_store_refresh(w.store), rows[i].status);
        assert_true(own.open_most <= rows[i].most && (own.open_most > 1 || rows[i].most == 1 || !rows[i].good));
        assert_true(rows[i].status == WEFT_OK ? own.opened == 16 : own.opened <= rows[i].good + rows[i].most);
        assert_int_equal(w.store->count, rows[i].status == WEFT_OK ? 10 : 0);
        assert_int_equal(rename(folder, w.folder), 0);
        weft_store_close(w.store);
    }
    w.store = writer;
    world_close(&w);
}

static weft_status report_ends(void *user, const weft_store_fault *fault)
{
    ++*(unsigned *)user;
    return fault->file ? WEFT_E_LAYOUT : WEFT_OK;
}

static void test_errors_end_a_check(void **state)
{
    world w;
    uint64_t faults = 0;
    unsigned reports = 0;
    (void)state;
    world_open(&w, 64);
    assert_int_equal(weft_store_check(w.store, NULL, NULL, NULL, &faults), WEFT_E_MISSING);
    world_fill(&w, 4);
    assert_int_equal(weft_store_refresh(w.store), WEFT_OK);
    own_take(&w, 3); /* the place is away in the middle, which is no fault of a file */
    assert_int_equal(weft_store_check(w.store, NULL, report_ends, &reports, &faults), WEFT_E_TIMEOUT);
    assert_int_equal(reports, 0);
    own_take(&w, 1000);
    file_flip(&w, 1, WEFT_STORE_UPDATE, file_bytes(&w, 1, WEFT_STORE_UPDATE) / 2);
    assert_int_equal(weft_store_check(w.store, NULL, report_ends, &reports, &faults), WEFT_E_LAYOUT);
    assert_int_equal(reports, 1);
    world_close(&w);
}

/* A link stands for what it leads to. One that leads nowhere may be a version whose disk is away. */
static void test_links(void **state)
{
    world w;
    char run[512], away[520], other[512];
    weft_store_entry entries[VERSIONS + 1];
    (void)state;
    world_open(&w, 64);
    world_fill(&w, 2);
    entry_path(&w, "1234500000000001", run);
    entry_path(&w, "notes", other);
    snprintf(away, sizeof away, "%s.away", w.folder);
    assert_int_equal(rename(run, away), 0);
    assert_int_equal(symlink(away, run), 0);
    assert_int_equal(symlink("/nowhere/at/all", other), 0); /* no file of a store */
    assert_int_equal(weft_store_refresh(w.store), WEFT_OK);
    assert_int_equal(listed(&w, entries), 2);
    assert_int_equal(unlink(run), 0);
    assert_int_equal(symlink("/nowhere/at/all", run), 0);
    assert_int_equal(weft_store_refresh(w.store), WEFT_E_FILE);
    is_said("the link leads nowhere");
    assert_int_equal(listed(&w, entries), 2); /* as before */
    assert_int_equal(unlink(run), 0);
    assert_int_equal(rename(away, run), 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_is_what_its_name_says),
        cmocka_unit_test(test_a_file_leads_on_from_its_root_alone),
        cmocka_unit_test(test_what_tells_the_version_is_gone_round),
        cmocka_unit_test(test_the_update_comes_first),
        cmocka_unit_test(test_runs_follow_each_other),
        cmocka_unit_test(test_a_single_update_is_not_merged),
        cmocka_unit_test(test_a_damaged_update_costs_the_merge_alone),
        cmocka_unit_test(test_attachments_are_where_they_change),
        cmocka_unit_test(test_what_goes_by_the_bounds),
        cmocka_unit_test(test_without_an_anchor_nothing_goes),
        cmocka_unit_test(test_what_another_run_starts_from_stays),
        cmocka_unit_test(test_unfinished_files_go),
        cmocka_unit_test(test_a_place_that_was_given_up_changes_nothing),
        cmocka_unit_test(test_sources_write_each_its_own),
        cmocka_unit_test(test_bytes_are_of_one_source_or_shared),
        cmocka_unit_test(test_each_source_may_have_the_damage),
        cmocka_unit_test(test_a_look_reads_what_is_new),
        cmocka_unit_test(test_files_are_looked_at_abreast),
        cmocka_unit_test(test_errors_end_a_check),
        cmocka_unit_test(test_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
