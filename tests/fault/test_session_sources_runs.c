/* Sources of two runs: an operator starts one of them again with another run. Nothing is staged, offered or taken then,
 * what is held is served, and one line names both. */
#include "tests/support/source_rank.h"

#include <stdlib.h>
#include <string.h>

static unsigned apart_lines;

static void hear_apart(const char *line)
{
    apart_lines += strstr(line, "source 0 has run ") && strstr(line, "source 1 has run ");
}

/* For a while nothing is staged, nothing is offered, and what is held is served. */
static void nothing_comes(uint64_t number, bool named)
{
    weft_staged_info info = {.size = sizeof info};
    uint64_t offered;
    for (unsigned i = 0; i < 600; i++) {
        round_of();
        if (i < 100) /* until the rank has seen who comes */
            continue;
        assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_AGAIN);
        assert_int_equal(weft_commit(rank_session(), number, NULL, 0, NULL), WEFT_E_STATE);
        assert_true(!named || weft_offered(rank_session(), UINT64_MAX, 0, &offered) == WEFT_AGAIN);
        assert_int_equal(held_number(), number);
        source_check(&w, &w.ranks[0]);
    }
}

/* An operator starts one source again with another run, with the bits of this one or with others. */
static void a_source_of_another_run(bool named, const char *snapshots, bool other)
{
    w.ranks[0].named = named;
    source_rank_join(&w, 0, snapshots, w.dense);
    come_to(5);
    uint8_t *dense = malloc(w.bytes);
    memcpy(dense, w.dense, w.bytes);
    if (other)
        fleet_change(w.layout, dense, 500, &w.seed);
    source_heard = hear_apart;
    apart_lines = 0;
    source_stray(&w, 1, w.run + 77, dense);
    nothing_comes(5, named);
    source_publish(&w, 100);
    source_go_to(&w, &w.sources[0], 6);
    source_go_to(&w, &w.sources[2], 6);
    nothing_comes(5, named);
    source_heard = NULL;
    assert_int_equal(apart_lines, 1);
    source_return(&w, 1);
    source_go_to(&w, &w.sources[1], 6);
    if (named)
        assert_int_equal(weft_want(rank_session(), 6), WEFT_OK);
    come_to(6);
    free(dense);
}

static void another_run_with_the_same_bits(void **state)
{
    (void)state;
    a_source_of_another_run(true, "commit.snapshot=in_place", false);
}

static void another_run_with_other_bits(void **state)
{
    (void)state;
    a_source_of_another_run(true, "commit.snapshot=in_place", true);
}

static void another_run_beside_an_image(void **state)
{
    (void)state;
    a_source_of_another_run(false, "commit.snapshot=staged", true);
}

/* A rank that holds nothing is offered snapshots of two runs, takes none, and takes those of one run. */
static void another_run_for_an_empty_rank(void **state)
{
    weft_staged_info info = {.size = sizeof info};
    (void)state;
    source_stray(&w, 1, w.run + 77, w.dense);
    source_rank_join(&w, 0, NULL, NULL);
    for (unsigned i = 0; i < 600; i++) {
        round_of();
        assert_int_equal(weft_staged(rank_session(), 0, &info), WEFT_AGAIN);
    }
    source_return(&w, 1);
    come_to(5);
}

/* All sources follow the one that began another run, one after the other. */
static void all_begin_another_run(void **state)
{
    (void)state;
    source_rank_join(&w, 0, NULL, w.dense);
    come_to(5);
    uint8_t *dense = malloc(w.bytes);
    memcpy(dense, w.dense, w.bytes);
    fleet_change(w.layout, dense, 500, &w.seed);
    source_stray(&w, 1, w.run + 1, dense);
    nothing_comes(5, false);
    source_run_again(&w, source_find(&w, w.run + 1, 5));
    come_to(5);
    free(dense);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_run_with_the_same_bits, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(another_run_with_other_bits, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(another_run_beside_an_image, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(another_run_for_an_empty_rank, rank_setup, rank_teardown),
        cmocka_unit_test_setup_teardown(all_begin_another_run, rank_setup, rank_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
