/* A disk that fails at any file operation of a put: once, or for good as in a crash. What was in the store stays, no
 * half a file has a name, and the next put closes the gap. */
#define CHAIN_FIRST 5000 /* because a store is made for each operation that could fail */

#include "tests/support/disk.h"
#include "tests/support/store_world.h"

static uint64_t faults(const world *w)
{
    uint64_t count = 99;
    if (weft_store_check(w->store, NULL, NULL, NULL, &count) != WEFT_OK)
        fail_msg("not checked: %s", weft_last_error());
    return count;
}

/* Puts version 4, which has an anchor, while the disk fails, and tells whether anything failed. */
static bool put_fails(long from, long until)
{
    world w;
    world_open(&w, 4);
    world_fill(&w, 3);
    chain_step(&w.c, 50, "fast");
    disk_fails(from, until);
    const weft_status status = put(&w, 3);
    disk_is_well();
    const bool failed = status != WEFT_OK;
    assert_true(!failed || status == WEFT_E_FILE);
    assert_int_equal(weft_store_refresh(w.store), WEFT_OK);
    assert_true(w.store->unfinished == 0 || until > from + 1); /* a disk that is gone removes nothing */
    store_reopen(&w);                                          /* as another process sees the place after a crash */
    assert_int_equal(faults(&w), 0);                           /* which takes each file, and the way to each version */
    const bool visible = weft_store_find(w.store, RUN, 4) != WEFT_STORE_NONE;
    assert_true(visible || failed);
    if (!visible)
        assert_int_equal(put(&w, 3), WEFT_OK);
    chain_step(&w.c, 50, "fast");
    assert_int_equal(put(&w, 4), WEFT_OK);
    assert_true(file_bytes(&w, 3, WEFT_STORE_ANCHOR) || file_bytes(&w, 4, WEFT_STORE_ANCHOR)); /* due, or due again */
    for (uint32_t v = 0; v < 5; v++)
        moves(&w, v, NULL);
    assert_int_equal(weft_store_trim(w.store, &(weft_store_keep){.size = sizeof(weft_store_keep)}, NULL), WEFT_OK);
    assert_int_equal(faults(&w), 0);
    world_close(&w);
    return failed;
}

static void test_one_operation_fails(void **state)
{
    (void)state;
    long at = 0;
    while (put_fails(at, at + 1))
        at++;
    if (at < 8)
        fail_msg("only %ld operations could fail", at);
}

static void test_the_disk_fails_for_good(void **state)
{
    (void)state;
    long at = 0;
    while (put_fails(at, 1L << 40))
        at++;
    if (at < 8)
        fail_msg("only %ld operations could fail", at);
}

/* A removal that stops anywhere leaves a store in which all that is left can be read. */
static void test_a_removal_stops_anywhere(void **state)
{
    (void)state;
    bool failed = true;
    for (long at = 0; failed; at++) {
        world w;
        const weft_store_keep keep = {.size = sizeof keep, .versions = 2};
        world_open(&w, 2);
        world_fill(&w, 5);
        disk_fails(at, 1L << 40);
        failed = weft_store_trim(w.store, &keep, NULL) != WEFT_OK;
        disk_is_well();
        store_reopen(&w);
        assert_int_equal(faults(&w), 0);
        moves(&w, 4, NULL);
        assert_int_equal(weft_store_trim(w.store, &keep, NULL), WEFT_OK);
        assert_int_equal(faults(&w), 0);
        assert_int_equal(w.store->count, 2);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_operation_fails),
        cmocka_unit_test(test_the_disk_fails_for_good),
        cmocka_unit_test(test_a_removal_stops_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
