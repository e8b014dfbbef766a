/* Versions that peers name: what is found of them, what answers them, and what is too large. */
#include "tests/support/peer_world.h"

static void what_a_wish_finds(void **state)
{
    (void)state;
    const uint64_t number = publisher->newest.version.number, order = publisher->newest.order;
    const struct {
        uint64_t number, sent, newer; /* newer: what the newest is called above its number */
        bool closed, other_run;       /* the one before */
        weft_wish_state state;
        uint64_t order, below, above;
    } rows[] = {
        {number, order - 1, 0, true, false, WEFT_WISH_NONE, 0, 0, 0},
        {number + 1, order - 1, 0, false, false, WEFT_WISH_NONE, 0, 0, 0},
        {number, WEFT_ORDER_UNKNOWN, 0, false, false, WEFT_WISH_NONE, 0, 0, 0},
        {number, order, 0, false, false, WEFT_WISH_REACHED, 0, 0, 0},
        {number, order - 1, 0, false, false, WEFT_WISH_AHEAD, order, 0, 0},
        {number - 1, order - 2, 0, false, false, WEFT_WISH_AHEAD, order - 1, 0, 0},
        {number - 1, order - 2, 0, false, true, WEFT_WISH_PASSED, 0, 0, number},
        {number - 1, order - 1, 0, false, true, WEFT_WISH_PASSED, 0, 0, number},
        {number - 1, order, 0, false, false, WEFT_WISH_PASSED, 0, 0, 0},
        {number + 2, order - 2, 5, false, false, WEFT_WISH_PASSED, 0, number - 1, number + 5},
    };
    weft_update *before = weft_journal_at(&publisher->journal, order - 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        publisher->newest.version.number = number + rows[i].newer;
        before->target.run ^= rows[i].other_run;
        a->standing.sent_order = rows[i].sent;
        a->wish = (weft_wish){.named = true, .open = !rows[i].closed, .number = rows[i].number};
        const weft_wish_answer got = weft_wish_look(publisher, a);
        before->target.run ^= rows[i].other_run;
        if (got.state != rows[i].state || got.order != rows[i].order || got.passed.below != rows[i].below ||
            got.passed.above != rows[i].above)
            fail_msg("row %zu: %d, order %llu, below %llu, above %llu", i, (int)got.state,
                     (unsigned long long)got.order, (unsigned long long)got.passed.below,
                     (unsigned long long)got.passed.above);
    }
    publisher->newest.version.number = number;
    while (weft_journal_oldest(&publisher->journal)->order < order)
        weft_journal_drop(&publisher->journal);
    a->standing.sent_order = 0; /* nothing tells of the first any more */
    a->wish.number = number - 2;
    assert_int_equal(weft_wish_look(publisher, a).state, WEFT_WISH_GONE);
}

/* A snapshot answers what it brings, and a label that is owed is wanted unless a later version is. */
static void what_becomes_of_a_wish(void **state)
{
    static const struct {
        uint64_t wanted;
        bool open, overtaken, renewed_open; /* by version 5 */
        uint64_t renewed;
    } rows[] = {
        {4, true, false, true, 5}, {5, true, true, true, 5}, {6, true, true, true, 6}, {6, false, false, true, 5}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_wish wish = {.named = true, .open = rows[i].open, .number = rows[i].wanted}, other = wish;
        weft_wish_overtake(&wish, &(weft_version){1, 5, 0});
        weft_wish_renew(&other, 5);
        if (wish.open != rows[i].overtaken || other.open != rows[i].renewed_open || other.number != rows[i].renewed)
            fail_msg("row %zu", i);
    }
    /* the newest is reached with its attachment, which comes when nothing else is owed */
    a->wish = (weft_wish){.named = true, .open = true, .number = publisher->newest.version.number};
    a->standing.sent_attachment = 0;
    assert_int_equal(weft_feed_wish(publisher, a, false), WEFT_AGAIN);
    assert_true(a->wish.open);
    assert_int_equal(weft_feed_wish(publisher, a, true), WEFT_OK);
    assert_false(a->wish.open);
    weft_feed_end(&a->feed);
    weft_wish each = {.named = false};
    weft_wish_renew(&each, 5);
    assert_false(each.open);
}

/* Two versions as one are too large, and the next is not: that one is named, once. */
static void what_is_too_large(void **state)
{
    const uint64_t order = publisher->newest.order;
    weft_wire_passed passed;
    uint64_t length;
    (void)state;
    const weft_update *next = weft_journal_at(&publisher->journal, order - 1);
    step_back(a);
    a->standing.sent_order = order - 2;
    a->claim.hello.encoded_bytes = 0;
    a->claim.hello.staging_bytes = next->chain[WEFT_LEVEL_FAST].staged_bytes;
    a->wish = (weft_wish){.named = true, .open = true, .number = publisher->newest.version.number};
    assert_int_equal(weft_feed_wish(publisher, a, true), WEFT_AGAIN);
    assert_false(a->wish.open);
    const uint8_t *body = heard(WEFT_MESSAGE_PASSED, &length);
    assert_int_equal(weft_wire_get_passed(body, length, &passed), WEFT_OK);
    assert_int_equal(passed.reason, WEFT_PASS_LARGE);
    assert_int_equal(passed.below, next->target.number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {LOCKED(what_a_wish_finds), LOCKED(what_becomes_of_a_wish),
                                       LOCKED(what_is_too_large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
