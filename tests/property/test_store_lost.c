/* Stores that lost a file, removed or cut short: merges lead on, with the attachment, and the check names the loss. */
#define CHAIN_FIRST 5000 /* because a store is made for each file that could be lost */

#include "tests/support/store_world.h"

#define MADE 10u /* a merge leads from version 1 to 8 */

static void lose(const world *w, uint32_t v, weft_store_kind kind, bool cut)
{
    char path[512];
    file_path(w, v, kind, path);
    assert_int_equal(cut ? truncate(path, 100) : unlink(path), 0);
}

/* Faults that the check named, and the last text. */
typedef struct report {
    uint64_t files, lost, last;
    char text[512];
} report;

static weft_status take_fault(void *user, const weft_store_fault *fault)
{
    report *said = user;
    said->files += fault->file != NULL;
    said->lost += fault->file == NULL;
    said->last = fault->version.number;
    snprintf(said->text, sizeof said->text, "%s", fault->text);
    return WEFT_OK;
}

static report checked(weft_store *store)
{
    report said = {0};
    uint64_t faults;
    if (weft_store_check(store, NULL, take_fault, &said, &faults) != WEFT_OK)
        fail_msg("not checked: %s", weft_last_error());
    assert_int_equal(faults, said.files + said.lost);
    return said;
}

static void has_attachment(const world *w, uint32_t v)
{
    char head[16];
    uint64_t bytes = 0;
    const weft_version version = label(v);
    if (weft_store_attachment(w->store, &version, head, sizeof head, &bytes) != WEFT_OK)
        fail_msg("version %u: %s", v + 1, weft_last_error());
    assert_int_equal(bytes, 4);
    assert_memory_equal(head, "head", 4);
}

/* Has weights of no version, so that the bits come out of the store alone. */
static void is_had(world *w, uint32_t v)
{
    weft_layout *layout;
    const weft_version version = label(v);
    memset(w->c.work, 0x5a, 64);
    moves(w, v, NULL);
    has_attachment(w, v);
    assert_int_equal(weft_store_layout(w->store, &version, &layout), WEFT_OK);
    weft_layout_free(layout);
}

static void lost_update(uint32_t lost, bool cut)
{
    world w;
    weft_store_entry entries[VERSIONS + 1];
    size_t count;
    world_open(&w, 64);
    world_fill(&w, MADE);
    lose(&w, lost, WEFT_STORE_UPDATE, cut);
    store_reopen(&w);
    const bool listed = cut || file_bytes(&w, lost, WEFT_STORE_MERGE) > 0;
    for (uint32_t v = 0; v < MADE; v++)
        if (v != lost || listed)
            is_had(&w, v);
    store_reopen(&w); /* what was found out on the way is forgotten */
    const report said = checked(w.store);
    assert_int_equal(said.files, cut);
    assert_int_equal(said.lost, !listed);
    if (!listed) {
        assert_int_equal(said.last, lost + 1);
        assert_non_null(strstr(said.text, "no file of it is there"));
    }
    chain_step(&w.c, 50, "fast");
    assert_int_equal(put(&w, MADE), WEFT_OK); /* goes on by an update */
    assert_int_equal(weft_store_list(w.store, entries, VERSIONS + 1, &count), WEFT_OK);
    assert_int_equal(count, MADE + listed);
    for (size_t i = 0; i < count; i++)
        assert_true(entries[i].reachable);
    assert_true(entries[count - 1].update_bytes > 0);
    assert_int_equal(entries[count - 1].anchor_bytes, 0);
    is_had(&w, MADE);
    world_close(&w);
}

static void test_merges_lead_past_an_update_that_is_lost(void **state)
{
    (void)state;
    for (uint32_t lost = 1; lost < 8; lost++) { /* past the last merge nothing leads on */
        lost_update(lost, false);
        lost_update(lost, true);
    }
}

/* A merge that the updates do not lead to is proved from the version before. */
static void test_a_merge_alone_is_proved(void **state)
{
    (void)state;
    world w;
    world_open(&w, 64);
    world_fill(&w, 8);
    lose(&w, 7, WEFT_STORE_UPDATE, false);
    file_flip(&w, 7, WEFT_STORE_MERGE, file_bytes(&w, 7, WEFT_STORE_MERGE) / 2);
    store_reopen(&w);
    const report said = checked(w.store);
    assert_int_equal(said.files, 1);
    assert_int_equal(said.lost, 1);
    assert_int_equal(said.last, 8);
    assert_non_null(strstr(said.text, "00000000000000000008/merge-0-of-1.weft cannot be used"));
    world_close(&w);
}

static void test_a_loss_is_named_with_its_source(void **state)
{
    (void)state;
    world w;
    const weft_store_options options = {.size = sizeof options, .anchors = 64};
    world_open(&w, 64);
    weft_store_close(w.store);
    assert_int_equal(weft_store_open_source(w.folder, &options, 1, 2, &w.store), WEFT_OK);
    world_fill(&w, 4);
    weft_store_name name = {RUN, 3, WEFT_STORE_UPDATE, 1, 2};
    char text[WEFT_STORE_NAME_MAX], path[512];
    weft_store_name_put(&name, text);
    snprintf(path, sizeof path, "%s/%s", w.folder, text);
    assert_int_equal(truncate(path, 100), 0);
    store_reopen(&w); /* all sources */
    const report said = checked(w.store);
    assert_int_equal(said.files, 1);
    assert_int_equal(said.lost, 2); /* versions 3 and 4 */
    assert_non_null(strstr(said.text, "source 1 of 2: no whole files lead to this version: "));
    assert_non_null(strstr(said.text, "00000000000000000003/source-1-of-2.weft cannot be used"));
    world_close(&w);
}

/* What cannot be had is said with the file that is the reason. */
static void test_the_reason_is_said(void **state)
{
    (void)state;
    world w;
    char head[16];
    uint64_t bytes;
    weft_version version = label(4);
    world_open(&w, 64);
    world_fill(&w, 5);
    lose(&w, 2, WEFT_STORE_UPDATE, true);
    store_reopen(&w);
    memset(w.c.work, 0x5a, 64);
    assert_int_equal(move(&w, 4, NULL), WEFT_E_MISSING);
    assert_non_null(strstr(weft_last_error(), "no whole files lead to version 5: "));
    assert_non_null(strstr(weft_last_error(), "cut short, or no update file"));
    assert_int_equal(weft_store_attachment(w.store, &version, head, sizeof head, &bytes), WEFT_E_MISSING);
    assert_non_null(strstr(weft_last_error(), "no whole file tells the attachment of version 5: "));
    assert_non_null(strstr(weft_last_error(), "cut short, or no update file"));
    lose(&w, 2, WEFT_STORE_UPDATE, false);
    assert_int_equal(weft_store_refresh(w.store), WEFT_OK);
    assert_int_equal(move(&w, 4, NULL), WEFT_E_MISSING);
    assert_non_null(strstr(weft_last_error(), "goes on from version 3 of run 1234500000000001, which is not there"));
    world_close(&w);
}

/* Versions past a lost update hang on a merge, so what the merge starts from stays, although an anchor lies between. */
static void test_what_a_merge_needs_stays(void **state)
{
    (void)state;
    world w;
    const weft_store_keep keep = {.size = sizeof keep, .versions = 1};
    uint64_t removed = 99;
    world_open(&w, 6);
    world_fill(&w, 9); /* anchors at 1 and 6 */
    lose(&w, 6, WEFT_STORE_UPDATE, true);
    store_reopen(&w);
    is_had(&w, 8);
    assert_int_equal(weft_store_trim(w.store, &keep, &removed), WEFT_OK);
    assert_int_equal(removed, 0);
    is_had(&w, 8);
    world_close(&w);
}

/* An anchor without an attachment would tell that there was none, of the versions before it, too. */
static void test_no_anchor_tells_an_attachment_that_nobody_knows(void **state)
{
    (void)state;
    world w;
    weft_piece base[TENSORS], target[TENSORS];
    weft_store_put_options options = {.size = sizeof options, .base = label(1), .target = label(2)};
    char head[16];
    uint64_t bytes;
    world_open(&w, 64);
    world_fill(&w, 2);
    lose(&w, 0, WEFT_STORE_ANCHOR, false);
    store_reopen(&w);
    chain_step(&w.c, 50, "fast");
    pieces_of(&w.c, w.c.image[1], base);
    pieces_of(&w.c, w.c.image[2], target);
    assert_int_equal(weft_store_put(w.store, w.c.layout, base, TENSORS, target, TENSORS, &options, NULL, NULL),
                     WEFT_OK);
    assert_int_equal(file_bytes(&w, 2, WEFT_STORE_ANCHOR), 0);
    assert_int_equal(weft_store_attachment(w.store, &options.target, head, sizeof head, &bytes), WEFT_E_MISSING);
    chain_step(&w.c, 50, "fast");
    assert_int_equal(put(&w, 3), WEFT_OK); /* with an attachment, and so with the anchor that is due */
    assert_true(file_bytes(&w, 3, WEFT_STORE_ANCHOR) > 0);
    is_had(&w, 3);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges_lead_past_an_update_that_is_lost),
        cmocka_unit_test(test_a_merge_alone_is_proved),
        cmocka_unit_test(test_a_loss_is_named_with_its_source),
        cmocka_unit_test(test_the_reason_is_said),
        cmocka_unit_test(test_what_a_merge_needs_stays),
        cmocka_unit_test(test_no_anchor_tells_an_attachment_that_nobody_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
