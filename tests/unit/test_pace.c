/* The rate limit, over simulated time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bucket/bucket.h"
#include "layout/digest.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define BURST    0.002 /* seconds of the rate that may go at once */

static bool near(double value, double wanted, double part)
{
    return fabs(value - wanted) <= part * wanted;
}

/* Sends `count` chunks, up to `late` ns after they may go; at no time more than rate, burst and the chunk on credit.
 * Returns the mean rate from the end of the first burst on. */
static double paced(uint64_t rate, uint64_t chunk, uint32_t count, uint64_t late)
{
    const uint64_t start = UINT64_C(1000000000);
    uint64_t now = start, sent = 0, begun = 0, begun_sent = 0, seed = rate + chunk;
    weft_pace pace;
    weft_pace_begin(&pace, rate);
    for (uint32_t i = 0; i < count || begun_sent == 0; i++) {
        uint64_t wait = weft_pace_wait(&pace, now);
        if (wait) {
            now += wait + (late ? weft_mix64(++seed) % late : 0);
            assert_int_equal(weft_pace_wait(&pace, now), 0); /* the wait it named is enough */
        }
        if (wait && !begun) {
            begun = now;
            begun_sent = sent;
            i = 0;
        }
        weft_pace_charge(&pace, chunk);
        sent += chunk;
        double most = (double)rate * ((double)(now - start) / 1e9 + BURST) + (double)chunk;
        assert_true((double)sent <= most * (1 + 1e-9) + 1);
    }
    return (double)(sent - begun_sent - chunk) / ((double)(now - begun) / 1e9);
}

static void holds_the_rate(void **state)
{
    (void)state;
    const uint64_t rates[] = {100000, 12500000, 1250000000};
    for (size_t i = 0; i < COUNT(rates); i++) {
        for (uint64_t chunk = 1u << 10; chunk <= 4u << 20; chunk *= 4) {
            double burst_chunks = BURST * (double)rates[i] / (double)chunk;
            uint32_t count =
                1000 + (uint32_t)(200 * burst_chunks); /* so that the last burst is below one part in 200 */
            double rate = paced(rates[i], chunk, count, 0);
            double late = paced(rates[i], chunk, count, 1000000);
            if (!near(rate, (double)rates[i], 0.01) || !near(late, (double)rates[i], 0.01))
                fail_msg("rate %llu in chunks of %llu: %.0f, with late wake-ups %.0f", (unsigned long long)rates[i],
                         (unsigned long long)chunk, rate, late);
        }
    }
}

static void idle_saves_nothing_up(void **state)
{
    (void)state;
    const uint64_t rate = 10000000, chunk = 1000;
    weft_pace pace;
    weft_pace_begin(&pace, rate);
    for (uint64_t round = 1; round <= 3; round++) {
        uint64_t now = round * UINT64_C(3600000000000), sent = 0; /* an hour apart */
        for (; weft_pace_wait(&pace, now) == 0; sent += chunk)
            weft_pace_charge(&pace, chunk);
        assert_true((double)sent >= BURST * (double)rate);
        assert_true((double)sent <= BURST * (double)rate + (double)chunk);
    }
}

/* All that a rate limit lets go before it says wait is what a message may meet in a queue on the way. With a limit of
 * the line's rate that is less than 5 ms of the line, from the rate on of which 5 ms hold the least chunk and the
 * burst. */
static void less_than_5_ms_go_ahead_of_a_message(void **state)
{
    (void)state;
    for (uint64_t rate = 1400000; rate < UINT64_C(1) << 40; rate = rate * 21 / 20) {
        const uint64_t chunk = weft_pace_chunk(rate);
        uint64_t now = UINT64_C(1000000000), ahead = 0, wait;
        double on_the_line = 0; /* what has not left the line's queue, which loses the rate */
        weft_pace pace;
        weft_pace_begin(&pace, rate);
        for (uint32_t i = 0; i < 2000; i++) {
            while ((wait = weft_pace_wait(&pace, now)) == 0) {
                weft_pace_charge(&pace, chunk);
                on_the_line += (double)chunk;
                ahead = on_the_line > (double)ahead ? (uint64_t)on_the_line : ahead;
            }
            const double left = (double)wait / 1e9 * (double)rate;
            on_the_line = on_the_line > left ? on_the_line - left : 0;
            now += wait;
        }
        assert_true((double)ahead >= BURST * (double)rate);
        assert_true((double)ahead <= BURST * (double)rate + (double)chunk + 1);
        assert_true((double)ahead < 0.005 * (double)rate);
    }
}

/* Chunks of a paced link: what the burst holds, but never so small that a bucket has too many. */
static void chunk_of_a_rate(void **state)
{
    (void)state;
    for (uint64_t rate = 1; rate < UINT64_C(1) << 40; rate *= 3) {
        uint64_t chunk = weft_pace_chunk(rate);
        assert_true(chunk >= 4096);
        assert_true(chunk == 4096 || (double)chunk <= BURST * (double)rate);
        assert_true(chunk == 4096 || (double)chunk + 64 >= BURST * (double)rate);
        assert_int_equal(chunk % 64, 0);
    }
    assert_int_equal(weft_pace_chunk(0), UINT32_MAX);
}

static void no_limit(void **state)
{
    (void)state;
    weft_pace pace;
    weft_pace_begin(&pace, 0);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(weft_pace_wait(&pace, 5), 0);
        weft_pace_charge(&pace, UINT64_C(1) << 40);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_the_rate),
        cmocka_unit_test(idle_saves_nothing_up),
        cmocka_unit_test(less_than_5_ms_go_ahead_of_a_message),
        cmocka_unit_test(chunk_of_a_rate),
        cmocka_unit_test(no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
