/* The judgement whether a fabric's figures can be trusted, from what else the machine did: over made-up runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tools/bench/fabric/noise.h"

static void quiet_machines_pass(void **state)
{
    (void)state;
    char why[200];
    const weft_bench_noise rows[] = {
        {0, 0, 0, 0}, {0.02, 0.03, 0, 0.1}, {0.1, 0.1, 0.05, 0.5}, {-1, -1, -1, -1}, {0.01, -1, 0.02, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(weft_bench_noise_passes(&rows[i], why));
        assert_string_equal(why, "");
    }
}

static void busy_machines_do_not(void **state)
{
    (void)state;
    static const struct {
        weft_bench_noise noise;
        const char *why;
    } rows[] = {
        {{0.87, 0, 0, 0}, "this end waited for a processor 87 % of the time that it wanted one"},
        {{0, 0.12, 0, 0}, "the other end waited for a processor 12 % of the time that it wanted one"},
        {{-1, -1, 0.3, -1}, "a hypervisor gave others 30 % of the processors' time"},
        {{0.01, -1, 0, 1.2}, "the same rate differs by 120 % from run to run"},
    };
    char why[200];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_false(weft_bench_noise_passes(&rows[i].noise, why));
        assert_string_equal(why, rows[i].why);
    }
}

static bool near(double a, double b)
{
    return a - b < 1e-9 && b - a < 1e-9;
}

/* A figure that the system does not give is unknown, and not quiet. */
static void shares_are_of_the_time(void **state)
{
    (void)state;
    const weft_bench_turns some = {1000, 750}, none = {0, 0}, all = {1000, 1001};
    const weft_bench_ticks from = {1000, 10}, to = {1400, 30}, unknown = {-1, -1};
    assert_true(near(weft_bench_waited(&some), 0.25));
    assert_true(near(weft_bench_waited(&all), 0));
    assert_true(weft_bench_waited(&none) < 0);
    assert_true(near(weft_bench_stolen(&from, &to), 0.05));
    assert_true(weft_bench_stolen(&unknown, &to) < 0 && weft_bench_stolen(&from, &unknown) < 0);
    assert_true(weft_bench_stolen(&from, &from) < 0);
}

static void a_spin_wants_as_long_as_it_is_told(void **state)
{
    (void)state;
    weft_bench_turns turns = {5, 0};
    weft_bench_spin(3, &turns);
    assert_true(turns.wanted_ns >= 3000005);
    assert_true(turns.had_ns > 0);
}

static void spreads_are_between_quarters(void **state)
{
    (void)state;
    const double calm[] = {1, 98, 99, 100, 101, 102, 900}, wild[] = {20, 30, 60, 100, 140, 180, 900};
    assert_true(near(weft_bench_spread(calm, 7), 0.04));
    assert_true(near(weft_bench_spread(wild, 7), 1.5));
    assert_true(weft_bench_spread(wild, 3) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet_machines_pass),          cmocka_unit_test(busy_machines_do_not),
        cmocka_unit_test(shares_are_of_the_time),       cmocka_unit_test(a_spin_wants_as_long_as_it_is_told),
        cmocka_unit_test(spreads_are_between_quarters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
