/* The in-process fabric: each of its faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/clock_own.h"
#include "tests/support/loop_pair.h"

static void drop(void **state)
{
    (void)state;
    weft_loop_faults faults = {.drop_every = 5, .drop_at = 7};
    weft_loop_counts counts;
    pair p = pair_open(&faults);
    tally t = pair_send_spots(&p);
    uint32_t lost = SPOTS / 5 + 1;
    assert_int_equal(t.written, SPOTS); /* local completion is no delivery */
    assert_int_equal(t.arrived, SPOTS - lost);
    for (uint32_t i = 0; i < SPOTS; i++)
        assert_int_equal(pair_landed(&p, i), (i + 1) % 5 != 0 && i + 1 != 7);
    weft_loop_link_counted(p.tx_link, &counts);
    assert_int_equal(counts.dropped, lost);
    assert_int_equal(counts.landed, SPOTS - lost);
    pair_close(&p);
}

static void fail_writes(void **state)
{
    (void)state;
    weft_loop_faults faults = {.fail_at = 9, .fail_status = WEFT_E_PROVIDER, .drop_at = 9, .corrupt_at = 9};
    pair p = pair_open(&faults);
    tally t = pair_send_spots(&p);
    assert_int_equal(t.failed, 1);
    assert_int_equal(t.status, WEFT_E_PROVIDER);
    assert_int_equal(t.written, SPOTS - 1);
    assert_int_equal(t.arrivals_of[8], 0);
    assert_false(pair_landed(&p, 8));
    pair_close(&p);
}

static void refuse_posts(void **state)
{
    (void)state;
    weft_loop_faults faults = {.again_every = 3};
    weft_loop_counts counts;
    pair p = pair_open(&faults);
    tally t = pair_send_spots(&p);
    assert_int_equal(t.arrived, SPOTS);
    for (uint32_t i = 0; i < SPOTS; i++)
        assert_int_equal(t.arrivals_of[i], 1);
    weft_loop_link_counted(p.tx_link, &counts);
    assert_int_equal(counts.refused, counts.posted / 3);
    assert_int_equal(counts.posted - counts.refused, SPOTS);
    pair_close(&p);
}

static uint32_t bits_off(const pair *p)
{
    uint32_t bits = 0;
    for (uint64_t i = 0; i < BYTES; i++)
        bits += (uint32_t)__builtin_popcount(p->memory[i] ^ p->source[i]);
    return bits;
}

static void corrupt(void **state)
{
    (void)state;
    weft_loop_faults faults = {.seed = 4, .corrupt_every = 8, .corrupt_at = 3};
    pair p = pair_open(&faults);
    tally t = pair_send_spots(&p);
    assert_int_equal(t.arrived, SPOTS);
    assert_int_equal(bits_off(&p), SPOTS / 8 + 1);
    assert_false(pair_landed(&p, 2) || pair_landed(&p, 7));
    assert_true(pair_landed(&p, 0) && pair_landed(&p, 1));
    pair_close(&p);
}

static void duplicate(void **state)
{
    (void)state;
    weft_loop_faults faults = {.duplicate_every = 10, .duplicate_at = 1};
    pair p = pair_open(&faults);
    tally t = pair_send_spots(&p);
    assert_int_equal(t.written, SPOTS);
    assert_int_equal(t.arrived, SPOTS + SPOTS / 10 + 1);
    for (uint32_t i = 0; i < SPOTS; i++)
        assert_int_equal(t.arrivals_of[i], i == 0 || (i + 1) % 10 == 0 ? 2 : 1);
    assert_int_equal(bits_off(&p), 0);
    pair_close(&p);
}

static uint32_t out_of_order(const tally *t)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < t->arrived; i++)
        n += t->order[i] < t->order[i - 1];
    return n;
}

static void reorder(void **state)
{
    (void)state;
    tally runs[3];
    for (uint32_t run = 0; run < 3; run++) {
        weft_loop_faults faults = {.seed = run == 2 ? 8 : 7, .reorder_window = 4};
        pair p = pair_open(&faults);
        runs[run] = pair_send_spots(&p);
        assert_int_equal(runs[run].arrived, SPOTS);
        assert_int_equal(runs[run].written, SPOTS);
        assert_true(out_of_order(&runs[run]) > SPOTS / 8);
        assert_int_equal(bits_off(&p), 0);
        pair_close(&p);
    }
    assert_memory_equal(runs[0].order, runs[1].order, sizeof runs[0].order); /* a seed is a sequence */
    assert_memory_not_equal(runs[0].order, runs[2].order, sizeof runs[0].order);
}

static void stall(void **state)
{
    (void)state;
    weft_loop_faults faults = {.stall_after = 3};
    pair p = pair_open(&faults);
    tally t = {.written = 0};
    uint32_t taken = 0;
    for (uint32_t spot = 0; spot < SPOTS; spot++) {
        taken += pair_post(&p, spot) == WEFT_OK;
        pair_drain(&p, &t);
    }
    assert_int_equal(taken, 3 + DEPTH); /* then the port is full for ever */
    assert_int_equal(t.written, 3);
    assert_int_equal(t.arrived, 3);
    assert_int_equal(t.failed, 0);
    assert_int_equal(loop->wait_arm(p.tx), WEFT_OK);
    pair_close(&p);
}

static void break_port(void **state)
{
    (void)state;
    weft_loop_faults faults = {.break_at = 6};
    pair p = pair_open(&faults);
    tally t = {.written = 0};
    for (uint32_t spot = 0; spot < 10; spot++) {
        pair_post(&p, spot);
        pair_drain(&p, &t);
    }
    assert_int_equal(t.written, 5);
    assert_int_equal(t.failed, 1);
    assert_true(t.cookie == UINT64_MAX);
    assert_int_equal(t.arrived, 5);
    loop->port_close(p.tx); /* a fresh port of the same link works */
    assert_int_equal(loop->port_open(p.tx_link, &p.tx), WEFT_OK);
    pair_join(p.tx, p.rx);
    assert_int_equal(pair_post(&p, 20), WEFT_OK);
    pair_drain(&p, &t);
    assert_true(pair_landed(&p, 20));
    pair_close(&p);
}

/* Writes that wait when the port breaks neither land nor complete. */
static void break_port_that_holds(void **state)
{
    (void)state;
    weft_loop_faults faults = {.break_at = 6, .reorder_window = 4};
    pair p = pair_open(&faults);
    tally t = {.written = 0};
    for (uint32_t spot = 0; spot < 6; spot++)
        assert_int_equal(pair_post(&p, spot), WEFT_OK);
    pair_drain(&p, &t);
    assert_true(t.failed == 1 && t.written == 1 && t.arrived == 1);
    pair_close(&p);
}

/* A millisecond for each write: they complete at once, and land one after the other. */
static void line(void **state)
{
    (void)state;
    weft_loop_faults faults = {.line_bytes_s = CHUNK * 1000};
    pair p = pair_open(&faults);
    tally t = {.written = 0};
    for (uint32_t spot = 0; spot < 4; spot++)
        assert_int_equal(pair_post(&p, spot), WEFT_OK);
    for (uint32_t landed = 0; landed < 5; landed++, own_now += WEFT_NS_PER_MS) {
        pair_drain(&p, &t);
        assert_true(t.written == 4 && t.arrived == (landed < 4 ? landed : 4));
    }
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(t.order[i], i);
    pair_close(&p);
}

static void an_address_that_is_away(void **state)
{
    (void)state;
    const weft_loop_faults away = {.away = true};
    const weft_link_options here = {.address = "r0"}, elsewhere = {.address = "r1"};
    weft_link *link, *other;
    weft_port *port;
    assert_int_equal(loop->link_open(&here, &link), WEFT_OK);
    weft_loop_set_rail("r0", &away);
    assert_int_equal(loop->link_here(link), WEFT_E_CONFIG);
    assert_int_equal(loop->port_open(link, &port), WEFT_E_CONFIG);
    assert_int_equal(loop->link_open(&here, &other), WEFT_AGAIN); /* it may come */
    assert_int_equal(loop->link_open(&elsewhere, &other), WEFT_OK);
    loop->link_close(other);
    weft_loop_set_rail("r0", NULL);
    assert_int_equal(loop->port_open(link, &port), WEFT_OK);
    loop->port_close(port);
    loop->link_close(link);
}

/* Sessions open links without faults of their own: these are reached by the process-wide set, at any time. */
static void faults_for_the_process(void **state)
{
    (void)state;
    weft_loop_faults faults = {.drop_every = 2};
    weft_loop_faults own = {.drop_at = 1};
    weft_loop_counts counts;
    pair open_before = pair_open(NULL);
    pair with_own = pair_open(&own);
    weft_loop_set_faults(&faults);
    tally t = pair_send_spots(&open_before);
    assert_int_equal(t.arrived, SPOTS / 2);
    weft_loop_counted(&counts);
    assert_int_equal(counts.posted, SPOTS);
    assert_int_equal(counts.dropped, SPOTS / 2);
    t = pair_send_spots(&with_own);
    assert_int_equal(t.arrived, SPOTS - 1);
    weft_loop_set_faults(NULL);
    weft_loop_counted(&counts);
    assert_int_equal(counts.posted, 0);
    t = pair_send_spots(&open_before);
    assert_int_equal(t.arrived, SPOTS);
    pair_close(&open_before);
    pair_close(&with_own);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(drop),
        cmocka_unit_test(fail_writes),
        cmocka_unit_test(refuse_posts),
        cmocka_unit_test(corrupt),
        cmocka_unit_test(duplicate),
        cmocka_unit_test(reorder),
        cmocka_unit_test(stall),
        cmocka_unit_test(break_port),
        cmocka_unit_test(faults_for_the_process),
        cmocka_unit_test(break_port_that_holds),
        cmocka_unit_test(an_address_that_is_away),
        cmocka_unit_test_setup_teardown(line, set_clock, give_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
