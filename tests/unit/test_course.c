/* The course of the next version, cell by cell, along random walks and back: what docs/ARCHITECTURE.md draws and
 * nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "layout/digest.h"
#include "rollout/course.h"

#define RECEIVING  WEFT_COURSE_RECEIVING
#define WEIGHED    WEFT_COURSE_WEIGHED
#define OFFERED    WEFT_COURSE_OFFERED
#define ACCEPTED   WEFT_COURSE_ACCEPTED
#define SNAPSHOT   WEFT_COURSE_SNAPSHOT
#define REPAIR     WEFT_COURSE_REPAIR
#define STAGED     WEFT_COURSE_STAGED
#define COMMITTING WEFT_COURSE_COMMITTING
#define ON(event)  WEFT_COURSE_ON_##event

typedef struct arrow {
    weft_course_state from;
    weft_course_event event;
    weft_course_state to;
} arrow;

static const arrow arrows[] = {
    {RECEIVING, ON(UPDATE), RECEIVING}, {REPAIR, ON(UPDATE), RECEIVING},      {STAGED, ON(UPDATE), STAGED},
    {RECEIVING, ON(OFFER), WEIGHED},    {COMMITTING, ON(UPDATE), COMMITTING}, {REPAIR, ON(OFFER), WEIGHED},
    {WEIGHED, ON(PUT), OFFERED},        {WEIGHED, ON(REPAIR), REPAIR},        {OFFERED, ON(ACCEPT), ACCEPTED},
    {ACCEPTED, ON(SNAPSHOT), SNAPSHOT}, {RECEIVING, ON(WHOLE), STAGED},       {SNAPSHOT, ON(WHOLE), STAGED},
    {STAGED, ON(COMMIT), COMMITTING},   {COMMITTING, ON(SETTLED), RECEIVING}, {COMMITTING, ON(UNDONE), RECEIVING},
    {COMMITTING, ON(RETURNED), STAGED},
};

static uint32_t drawn(weft_course_state state, weft_course_event event)
{
    for (size_t i = 0; i < sizeof arrows / sizeof arrows[0]; i++)
        if (arrows[i].from == state && arrows[i].event == event)
            return arrows[i].to;
    if (event != ON(LOST))
        return UINT32_MAX;
    return state == STAGED || state == COMMITTING ? state : RECEIVING;
}

static void every_cell(void **state)
{
    (void)state;
    for (unsigned from = 0; from < WEFT_COURSE_STATES; from++)
        for (unsigned event = 0; event < WEFT_COURSE_EVENTS; event++) {
            weft_course course = {.state = (weft_course_state)from};
            const uint32_t to = drawn(course.state, (weft_course_event)event);
            const uint64_t taken = weft_course_moves(course.state, (weft_course_event)event);
            const weft_status status = weft_course_move(&course, (weft_course_event)event);
            assert_int_equal(status, to == UINT32_MAX ? WEFT_E_PROTOCOL : WEFT_OK);
            assert_int_equal(course.state, to == UINT32_MAX ? from : to);
            assert_int_equal(weft_course_moves((weft_course_state)from, (weft_course_event)event), taken + 1);
        }
}

/* Order that the next version needs, without the table: a commit follows a proof, a snapshot an acceptance, and an
 * acceptance an offer that was put to the caller. */
static void random_walks_keep_the_order(void **state)
{
    uint64_t taken[WEFT_COURSE_EVENTS] = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        weft_course course = {0};
        bool put = false, accepted = false, whole = false, commits = false;
        for (uint64_t turn = 0; turn < 500; turn++) {
            const weft_course_event event = (weft_course_event)(weft_mix64(seed << 32 | turn) % WEFT_COURSE_EVENTS);
            if (weft_course_move(&course, event) != WEFT_OK)
                continue;
            taken[event]++;
            assert_true(event != ON(ACCEPT) || put);
            assert_true(event != ON(SNAPSHOT) || accepted);
            assert_true(event != ON(COMMIT) || whole);
            const bool ends = event == ON(SETTLED) || event == ON(UNDONE) || event == ON(RETURNED);
            assert_true(!ends || commits);
            put = event == ON(PUT) || (put && event != ON(ACCEPT) && event != ON(LOST));
            accepted = event == ON(ACCEPT) || (accepted && event != ON(SNAPSHOT) && event != ON(LOST));
            whole = event == ON(WHOLE) || event == ON(RETURNED) || (whole && event != ON(COMMIT));
            commits = event == ON(COMMIT) || (commits && !ends);
            assert_int_equal(weft_course_is_proved(&course), whole || commits);
            assert_true(!accepted || weft_course_takes_snapshot(&course));
        }
    }
    for (unsigned event = 0; event < WEFT_COURSE_EVENTS; event++)
        assert_true(taken[event] > 20);
}

/* No state is a trap: from each the rollout can come to receive again. */
static void receiving_can_be_reached(void **state)
{
    (void)state;
    for (unsigned from = 0; from < WEFT_COURSE_STATES; from++) {
        unsigned reached = 1u << from;
        for (unsigned turn = 0; turn < WEFT_COURSE_STATES; turn++)
            for (unsigned at = 0; at < WEFT_COURSE_STATES; at++)
                for (unsigned event = 0; reached >> at & 1 && event < WEFT_COURSE_EVENTS; event++) {
                    const uint32_t to = weft_course_after((weft_course_state)at, (weft_course_event)event);
                    reached |= to == UINT32_MAX ? 0 : 1u << to;
                }
        assert_true(reached >> RECEIVING & 1);
    }
}

static void a_wrong_event_is_named(void **state)
{
    weft_course course = {.state = OFFERED};
    (void)state;
    assert_int_equal(weft_course_move(&course, ON(SNAPSHOT)), WEFT_E_PROTOCOL);
    assert_string_equal(weft_last_error(), "a snapshot announced while an offer waits: out of turn");
    for (unsigned a = 0; a < WEFT_COURSE_EVENTS; a++)
        for (unsigned b = 0; b < a; b++)
            assert_string_not_equal(weft_course_event_name((weft_course_event)a),
                                    weft_course_event_name((weft_course_event)b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell),
        cmocka_unit_test(random_walks_keep_the_order),
        cmocka_unit_test(receiving_can_be_reached),
        cmocka_unit_test(a_wrong_event_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
