/* What is believed of a link, the size of bucket that follows, and the rate limit; all over simulated time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bucket.h"
#include "digest.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SLOT     (4u << 20)

static bool near(double value, double wanted, double part)
{
    return fabs(value - wanted) <= part * wanted;
}

/* Receipts of buckets of random size from a link of `rate`. */
static void receipts(weft_estimate *estimate, double rate, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = 10000 + weft_mix64(seed + i) % 1000000;
        weft_estimate_receipt(estimate, bytes, (double)bytes / rate, (double)bytes / (3 * rate));
    }
}

static void unmeasured(void **state)
{
    (void)state;
    weft_estimate estimate = {0};
    weft_estimate_receipt(&estimate, 1000, 0, 0);
    assert_true(estimate.rate_bytes_s >= 0 && isfinite(estimate.rate_bytes_s));
    assert_true(estimate.apply_bytes_s >= 0 && isfinite(estimate.apply_bytes_s));
}

static void converges(void **state)
{
    (void)state;
    const double rates[] = {1e4, 1e6, 1e9, 5e10};
    for (size_t i = 0; i < COUNT(rates); i++) {
        weft_estimate estimate = {0};
        receipts(&estimate, rates[i], 30, i);
        assert_true(near(estimate.rate_bytes_s, rates[i], 0.01));
        assert_true(near(estimate.apply_bytes_s, 3 * rates[i], 0.01));
    }
}

static void follows_a_tenfold_change(void **state)
{
    (void)state;
    weft_estimate estimate = {0};
    receipts(&estimate, 1e9, 30, 1);
    for (uint32_t i = 0; i < 8; i++)
        weft_estimate_receipt(&estimate, 500000, 500000 / 1e8, 500000 / 3e8);
    assert_true(near(estimate.rate_bytes_s, 1e8, 0.25));
    for (uint32_t i = 0; i < 16; i++)
        weft_estimate_receipt(&estimate, 500000, 500000 / 1e9, 500000 / 3e9);
    assert_true(near(estimate.rate_bytes_s, 1e9, 0.25));
}

/* A bucket that stood still for a while, and one whose receipt came with the one before. */
static void forgets_an_outlier(void **state)
{
    (void)state;
    const double slower[] = {10, 0.001};
    for (size_t i = 0; i < COUNT(slower); i++) {
        weft_estimate estimate = {0};
        receipts(&estimate, 1e8, 30, 1);
        weft_estimate_receipt(&estimate, 500000, slower[i] * 500000 / 1e8, 500000 / 3e8);
        for (uint32_t k = 0; k < 10; k++)
            weft_estimate_receipt(&estimate, 500000, 500000 / 1e8, 500000 / 3e8);
        assert_true(near(estimate.rate_bytes_s, 1e8, 0.2));
    }
}

/* Receipts read four at a time: the first has all the time, the others none. The mean is the link's rate. */
static void receipts_in_bunches(void **state)
{
    (void)state;
    weft_estimate estimate = {0};
    double sum = 0;
    for (uint32_t i = 0; i < 400; i++) {
        weft_estimate_receipt(&estimate, 100000, i % 4 ? 0 : 4 * 100000 / 1e8, 100000 / 1e9);
        sum += i < 200 ? 0 : estimate.rate_bytes_s;
        assert_true(i < 40 || near(estimate.rate_bytes_s, 1e8, 0.7));
    }
    assert_true(near(sum / 200, 1e8, 0.2));
}

static void round_trips(void **state)
{
    (void)state;
    weft_estimate estimate = {0};
    for (uint32_t i = 0; i < 30; i++)
        weft_estimate_rtt(&estimate, 0.002);
    assert_true(near(estimate.rtt_s, 0.002, 0.01));
    weft_estimate_rtt(&estimate, 0.2);
    for (uint32_t i = 0; i < 16; i++)
        weft_estimate_rtt(&estimate, 0.002);
    assert_true(near(estimate.rtt_s, 0.002, 0.3));
}

/* ---- size */

static weft_site_peer site_of(uint64_t fixed, uint64_t low, uint64_t high, uint64_t window)
{
    weft_site_peer site = {.bucket = fixed, .bucket_min = low, .bucket_max = high, .window = window};
    return site;
}

static void fixed_size(void **state)
{
    (void)state;
    const weft_estimate estimate = {.rate_bytes_s = 1e10, .apply_bytes_s = 1e9, .rtt_s = 0.1};
    weft_site_peer site = site_of(1u << 20, 64u << 10, SLOT, 4);
    weft_bucket_bound bound;
    assert_int_equal(weft_bucket_size(&site, &estimate, 1u << 30, SLOT, &bound), 1u << 20);
    assert_int_equal(bound, WEFT_BOUND_FIXED);
    assert_int_equal(weft_bucket_size(&site, &estimate, 1u << 30, 100000, &bound), 100000); /* the peer's slot */
    site.bucket_max = 200000;
    assert_int_equal(weft_bucket_size(&site, &estimate, 1u << 30, SLOT, &bound), 200000);
}

/* Monotone in the stream, never outside the bounds, and what is said to have decided did. */
static void bounds(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        uint64_t random = weft_mix64(seed), last = 0;
        weft_estimate estimate = {.rate_bytes_s = pow(10, 4 + (double)(random % 7)),
                                  .apply_bytes_s = pow(10, 7 + (double)(random >> 8) / 1e18),
                                  .rtt_s = pow(10, -5 + (double)((random >> 16) % 5))};
        weft_site_peer site = site_of(0, 64u << 10, 1u << (20 + (random >> 24) % 8), 1 + (random >> 32) % 16);
        uint64_t ceiling = site.bucket_max < SLOT ? site.bucket_max : SLOT;
        double fill = estimate.rate_bytes_s * estimate.rtt_s / (double)site.window;
        for (uint64_t stream = 1; stream < UINT64_C(1) << 40; stream *= 3) {
            weft_bucket_bound bound;
            uint64_t size = weft_bucket_size(&site, &estimate, stream, SLOT, &bound);
            assert_in_range(size, site.bucket_min, ceiling);
            assert_true(size >= last);
            assert_true(size == ceiling || (double)size + 1 >= fill);
            assert_int_equal(bound == WEFT_BOUND_CEILING, size == ceiling);
            assert_int_equal(bound == WEFT_BOUND_FLOOR, size == site.bucket_min);
            last = size;
        }
    }
}

/* Where the model decides, no other size is faster by the model's own law: T(B) as bucket.h has it. */
static void is_the_optimum(void **state)
{
    (void)state;
    const weft_estimate estimate = {.rate_bytes_s = 1e9, .apply_bytes_s = 2e9, .rtt_s = 100e-6, .bucket_s = 80e-6};
    weft_site_peer site = site_of(0, 4096, 1u << 30, 4);
    for (uint64_t stream = 1u << 20; stream <= UINT64_C(1) << 36; stream *= 4) {
        weft_bucket_bound bound;
        double size = (double)weft_bucket_size(&site, &estimate, stream, 1u << 30, &bound), total = (double)stream;
        assert_int_equal(bound, WEFT_BOUND_MODEL);
        double mine = total / size * 80e-6 + size / 2e9;
        for (double factor = 0.25; factor < 4; factor *= 1.1)
            assert_true(mine <= 1.0001 * (total / (factor * size) * 80e-6 + factor * size / 2e9));
    }
}

/* Nothing is known yet: still a size that the peer can take. */
static void before_any_receipt(void **state)
{
    (void)state;
    const weft_estimate estimate = {0};
    weft_site_peer site = site_of(0, 64u << 10, SLOT, 0);
    weft_bucket_bound bound;
    assert_in_range(weft_bucket_size(&site, &estimate, 0, SLOT, &bound), 64u << 10, SLOT);
    assert_int_equal(weft_bucket_size(&site, &estimate, UINT64_MAX, SLOT, &bound), SLOT);
    assert_int_equal(weft_bucket_size(&site, &estimate, 1u << 30, 1000, &bound), 1000); /* a slot below bucket_min */
}

/* ---- pace */

#define BURST 0.002 /* seconds of the rate that may go at once */

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
        cmocka_unit_test(unmeasured),
        cmocka_unit_test(converges),
        cmocka_unit_test(follows_a_tenfold_change),
        cmocka_unit_test(forgets_an_outlier),
        cmocka_unit_test(receipts_in_bunches),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(fixed_size),
        cmocka_unit_test(bounds),
        cmocka_unit_test(is_the_optimum),
        cmocka_unit_test(before_any_receipt),
        cmocka_unit_test(holds_the_rate),
        cmocka_unit_test(idle_saves_nothing_up),
        cmocka_unit_test(chunk_of_a_rate),
        cmocka_unit_test(no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
