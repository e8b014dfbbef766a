/* The digests of past versions: rewound from the newest ones they are those that were, as far back as it reaches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "journal/history.h"
#include "journal/journal.h"
#include "layout/digest.h"

#define PARTS    97u
#define VERSIONS 1100u

static uint64_t kept[VERSIONS + 1][PARTS]; /* the digests after each update, from 0 */

/* Moves about one part in `apart`. */
static void publish(weft_history *history, uint64_t order, uint64_t apart, uint64_t *seed)
{
    uint64_t delta[PARTS] = {0};
    for (uint64_t part = 0; part < PARTS; part++) {
        uint64_t random = weft_mix64(++*seed);
        if (random % apart == 0)
            delta[part] = weft_mix64(random);
        kept[order][part] = kept[order - 1][part] + delta[part];
    }
    weft_history_append(history, delta, PARTS);
}

/* Any range of any version that is reached. */
static void ranges_are_right(const weft_history *history, uint64_t newest, uint64_t *seed)
{
    for (int round = 0; round < 300; round++) {
        uint64_t words[PARTS], first = weft_mix64(++*seed) % PARTS, count = 1 + weft_mix64(++*seed) % (PARTS - first);
        uint64_t order = weft_mix64(++*seed) % (newest + 1);
        if (!weft_history_reaches(history, order))
            continue;
        memset(words, 0x77, sizeof words);
        memcpy(words, &kept[newest][first], count * sizeof *words);
        weft_history_rewind(history, order, first, count, words);
        assert_memory_equal(words, &kept[order][first], count * sizeof *words);
        for (uint64_t past = count; past < PARTS; past++) /* of no other part */
            assert_true(words[past] == UINT64_C(0x7777777777777777));
    }
}

static void versions_are_told(void **state)
{
    (void)state;
    weft_history history;
    uint64_t seed = 5;
    memset(kept, 0, sizeof kept);
    assert_int_equal(weft_history_open(&history, PARTS, 64u << 20), WEFT_OK);
    assert_true(weft_history_reaches(&history, 0));
    assert_false(weft_history_reaches(&history, 1));
    assert_false(weft_history_reaches(&history, UINT64_MAX)); /* before the first */
    for (uint64_t order = 1; order <= 60; order++) {
        publish(&history, order, 1 + order % 9 * (order % 4 == 0 ? 1000 : 1), &seed); /* all, some or none */
        assert_true(weft_history_reaches(&history, 0));
        assert_true(weft_history_reaches(&history, order));
        assert_false(weft_history_reaches(&history, order + 1));
        ranges_are_right(&history, order, &seed);
    }
    weft_history_close(&history);
}

/* With room for two dense updates the oldest give way, and what is left is right. */
static void the_oldest_give_way(void **state)
{
    (void)state;
    weft_history history;
    uint64_t seed = 6;
    memset(kept, 0, sizeof kept);
    assert_int_equal(weft_history_open(&history, PARTS, 0), WEFT_OK);
    assert_int_equal(history.capacity, 2 * PARTS);
    for (uint64_t order = 1; order <= 40; order++) {
        publish(&history, order, order < 20 ? 1 : 30, &seed);
        assert_true(weft_history_reaches(&history, order - 1));
        assert_int_equal(weft_history_reaches(&history, order - 2), order >= 2);
        if (order > 4 && order < 20)
            assert_false(weft_history_reaches(&history, order - 3));
        ranges_are_right(&history, order, &seed);
    }
    assert_true(weft_history_reaches(&history, 21)); /* sparse ones take little */
    weft_history_close(&history);
}

/* Updates that move nothing take no room; there are as many as the journal may have, less one. */
static void more_than_the_journal_keeps(void **state)
{
    (void)state;
    weft_history history;
    uint64_t seed = 7;
    memset(kept, 0, sizeof kept);
    assert_int_equal(weft_history_open(&history, PARTS, 64u << 20), WEFT_OK);
    for (uint64_t order = 1; order <= VERSIONS; order++)
        publish(&history, order, 50, &seed);
    assert_true(weft_history_reaches(&history, VERSIONS - 1000));
    assert_false(weft_history_reaches(&history, VERSIONS - 1024));
    ranges_are_right(&history, VERSIONS, &seed);
    weft_history_close(&history);
}

/* The first moves are wrong, of more or fewer parts than the update changed. */
static void the_newest_is_amended(void **state)
{
    (void)state;
    weft_history history;
    uint64_t seed = 8, delta[PARTS];
    memset(kept, 0, sizeof kept);
    assert_int_equal(weft_history_open(&history, PARTS, 0), WEFT_OK);
    for (uint64_t order = 1; order <= 40; order++) {
        publish(&history, order, order % 3 ? 1 : 20, &seed);
        for (uint64_t part = 0; part < PARTS; part++) {
            delta[part] = part % (1 + order % 5) ? 0 : weft_mix64(++seed);
            kept[order][part] = kept[order - 1][part] + delta[part];
        }
        weft_history_amend(&history, delta, PARTS);
        assert_true(weft_history_reaches(&history, order));
        assert_true(weft_history_reaches(&history, order - 1));
        assert_false(weft_history_reaches(&history, order + 1));
        ranges_are_right(&history, order, &seed);
    }
    weft_history_close(&history);
}

/* One update after the other, from the newest to the oldest kept, also where the ring began anew. */
static void steps_back(void **state)
{
    (void)state;
    weft_history history;
    uint64_t seed = 9, words[PARTS];
    memset(kept, 0, sizeof kept);
    assert_int_equal(weft_history_open(&history, PARTS, 0), WEFT_OK);
    for (uint64_t order = 1; order <= 50; order++) {
        publish(&history, order, 5, &seed);
        memcpy(words, kept[order], sizeof words);
        for (uint64_t back = order; back > 0 && weft_history_reaches(&history, back - 1); back--) {
            weft_history_step_back(&history, back, words);
            assert_memory_equal(words, kept[back - 1], sizeof words);
        }
    }
    assert_true(history.oldest > 20); /* so the ring began anew */
    weft_history_close(&history);
}

/* At most a quarter of the journal, and as much as the journal's updates can fill, but room for two dense ones. */
static void memory(void **state)
{
    static const struct {
        uint64_t parts, journal, moves;
    } rows[] = {{97, 0, 194},
                {97, 16 * 4 * 193, 194},
                {97, 16 * 4 * 195, 195},
                {97, 16 * 4 * 5000, 5000},
                {97, UINT64_MAX, 97 * WEFT_JOURNAL_UPDATES},
                {0, 0, 1},
                {0, 1 << 20, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(weft_history_need(rows[i].parts, rows[i].journal),
                         rows[i].moves * sizeof(weft_move) + WEFT_JOURNAL_UPDATES * sizeof(uint64_t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_told),
        cmocka_unit_test(the_oldest_give_way),
        cmocka_unit_test(more_than_the_journal_keeps),
        cmocka_unit_test(the_newest_is_amended),
        cmocka_unit_test(steps_back),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
