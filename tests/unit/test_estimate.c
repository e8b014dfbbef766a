/* The estimate of a link, and the size of bucket that follows from the estimate, over simulated time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bucket/bucket.h"
#include "layout/digest.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SLOT     (4u << 20)

static bool near(double value, double wanted, double part)
{
    return fabs(value - wanted) <= part * wanted;
}

typedef struct clocked {
    weft_estimate estimate;
    uint64_t now_ns;
} clocked;

/* A receipt of a bucket that followed another: `wire_s` after it arrived, it had waited, and was taken. */
static void receipt(clocked *c, uint64_t bytes, double wire_s, double waited_s, double taken_s)
{
    uint64_t arrived_ns = c->estimate.arrived_ns + (uint64_t)(wire_s * 1e9);
    if (c->now_ns == 0)
        arrived_ns = c->now_ns = 1000000000;
    uint64_t waited_ns = (uint64_t)(waited_s * 1e9), taken_ns = (uint64_t)(taken_s * 1e9);
    uint64_t read_ns = arrived_ns + waited_ns + taken_ns;
    const weft_bucket_times times = {bytes, 1, read_ns, waited_ns, taken_ns};
    weft_estimate_receipt(&c->estimate, &times);
}

/* Receipts of buckets of random size from a link of `rate`; each also costs `fixed` seconds. */
static void receipts(clocked *c, double rate, double fixed, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = 10000 + weft_mix64(seed + i) % 1000000;
        receipt(c, bytes, fixed + (double)bytes / rate, 1e-3, fixed / 2 + (double)bytes / (3 * rate));
    }
    weft_estimate_settle(&c->estimate);
}

static void unmeasured(void **state)
{
    (void)state;
    weft_estimate estimate = {0};
    const weft_bucket_times wrong[] = {
        {1000, 5, 5, 0, 0}, {1000, 5, 4, 9, 9}, {0, 5, 6, UINT64_MAX, UINT64_MAX}, {UINT64_MAX, 0, UINT64_MAX, 1, 1}};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        weft_estimate_receipt(&estimate, &wrong[i]);
        weft_estimate_settle(&estimate);
        weft_estimate_rtt(&estimate, 0);
        weft_estimate_decode(&estimate, WEFT_LEVEL_TIGHT, 0, 0);
        assert_true(estimate.rate_bytes_s >= 0 && isfinite(estimate.rate_bytes_s));
        for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
            assert_true(weft_estimate_apply(&estimate, (weft_level)level) > 0);
        assert_true(weft_estimate_post(&estimate) > 0 && weft_estimate_accept(&estimate) > 0);
    }
}

/* No new receipt means no new knowledge. */
static void settled_twice(void **state)
{
    (void)state;
    clocked c = {0};
    receipts(&c, 1e8, 1e-4, 100, 3);
    const weft_estimate before = c.estimate;
    for (int i = 0; i < 20; i++)
        weft_estimate_settle(&c.estimate);
    assert_memory_equal(&before, &c.estimate, sizeof before);
}

static void converges(void **state)
{
    (void)state;
    const double rates[] = {1e4, 1e6, 1e9, 1e10}, fixed[] = {1e-5, 1e-4, 5e-4};
    for (size_t i = 0; i < COUNT(rates); i++)
        for (size_t k = 0; k < COUNT(fixed); k++) {
            clocked c = {0};
            receipts(&c, rates[i], fixed[k], 200, i);
            weft_estimate_decode(&c.estimate, WEFT_LEVEL_FAST, 1000000, 1e6 / rates[i]);
            bool hidden =
                fixed[k] * rates[i] > 1e5; /* hidden by the fixed time: half of the time is left to the bytes */
            double part = hidden ? 0.95 : 0.03;
            assert_true(c.estimate.rate_bytes_s < 1.3 * rates[i]);
            assert_true(near(c.estimate.rate_bytes_s, rates[i], part));
            double apply = 1 / (1 / rates[i] + 1 / (3 * rates[i]));
            assert_true(near(weft_estimate_apply(&c.estimate, WEFT_LEVEL_FAST), apply, part));
            if (rates[i] < 1e8)
                continue; /* on slow links it is nothing beside the bytes' time */
            assert_true(fabs(weft_estimate_post(&c.estimate) - fixed[k]) < 0.25 * fixed[k] + 10e-6);
            assert_true(fabs(weft_estimate_accept(&c.estimate) - fixed[k] / 2) < 0.25 * fixed[k] + 10e-6);
        }
}

/* Buckets of one size say nothing about what is fixed: the prior stays, and rate and cost together give their time. */
static void one_size(void **state)
{
    (void)state;
    clocked c = {0};
    double prior = weft_estimate_post(&c.estimate);
    for (uint32_t i = 0; i < 100; i++)
        receipt(&c, 500000, 1e-3, 0, 1e-4);
    weft_estimate_settle(&c.estimate);
    assert_true(near(weft_estimate_post(&c.estimate), prior, 0.01));
    assert_true(near(weft_estimate_post(&c.estimate) + 500000 / c.estimate.rate_bytes_s, 1e-3, 0.01));
}

static void follows_a_tenfold_change(void **state)
{
    (void)state;
    clocked c = {0};
    receipts(&c, 1e9, 0, 30, 1);
    receipts(&c, 1e8, 0, 12, 2);
    assert_true(near(c.estimate.rate_bytes_s, 1e8, 0.25));
    receipts(&c, 1e9, 0, 16, 3);
    assert_true(near(c.estimate.rate_bytes_s, 1e9, 0.25));
}

/* A bucket that stood still for a while, and one whose receipt came with the one before. */
static void forgets_an_outlier(void **state)
{
    (void)state;
    const double slower[] = {100, 0.001};
    for (size_t i = 0; i < COUNT(slower); i++) {
        clocked c = {0};
        receipts(&c, 1e8, 1e-4, 30, 1);
        double post = weft_estimate_post(&c.estimate);
        receipt(&c, 500000, slower[i] * 500000 / 1e8, 0, 500000 / 3e8);
        weft_estimate_settle(&c.estimate);
        assert_true(fabs(log(c.estimate.rate_bytes_s / 1e8)) < log(2));
        assert_true(near(weft_estimate_post(&c.estimate), post, 0.1));
        receipts(&c, 1e8, 1e-4, 10, 2);
        assert_true(near(c.estimate.rate_bytes_s, 1e8, 0.1));
    }
}

/* Receipts read four at a time are one sample. */
static void receipts_in_bunches(void **state)
{
    (void)state;
    clocked c = {0};
    receipts(&c, 1e8, 1e-4, 20, 1);
    for (uint32_t i = 0; i < 100; i++) {
        uint64_t arrived_ns = c.estimate.arrived_ns + 4400000;
        for (uint32_t k = 0; k < 4; k++) {
            const weft_bucket_times times = {100000, 1, arrived_ns + 5000, 0, 5000};
            weft_estimate_receipt(&c.estimate, &times);
        }
        assert_true(c.estimate.bunch.buckets == 4);
        assert_true(i < 8 || near(c.estimate.rate_bytes_s, 1e8, 0.15));
    }
}

/* A bucket that met an idle link has wake-ups in its time. */
static void a_lone_bucket_says_little(void **state)
{
    (void)state;
    clocked c = {0};
    receipts(&c, 1e8, 0, 50, 1);
    const uint64_t posted_ns = c.estimate.arrived_ns + 1000000000;
    const weft_bucket_times times = {190000, posted_ns, posted_ns + 7400000, 0, 0}; /* 1.9 ms were expected */
    weft_estimate_receipt(&c.estimate, &times);
    weft_estimate_settle(&c.estimate);
    assert_true(near(c.estimate.rate_bytes_s, 1e8, 0.1));
}

/* A fixed cost that changed is known after a few buckets, because the fit begins anew. */
static void a_fit_begins_anew(void **state)
{
    (void)state;
    clocked c = {0};
    receipts(&c, 1e10, 1e-5, 200, 1);
    receipts(&c, 1e10, 8e-4, 24, 2);
    assert_true(near(weft_estimate_accept(&c.estimate), 4e-4, 0.3));
}

/* A bucket takes at least the round trip, so a bucket that was quicker has measured it. */
static void a_bucket_tells_the_round_trip(void **state)
{
    (void)state;
    weft_estimate estimate = {0};
    const weft_bucket_times times = {1000, 1000000, 4000000, 0, 1000000};
    weft_estimate_rtt(&estimate, 0.005);
    weft_estimate_receipt(&estimate, &times);
    assert_true(near(estimate.rtt_s, 0.002, 0.001));
}

/* Three samples in a row that are far off are the link's, and so is the first one of a new connection. */
static void a_change_is_believed(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        clocked c = {0};
        receipts(&c, 1e8, 0, 50, 3);
        const double before = c.estimate.rate_bytes_s;
        if (again)
            weft_estimate_resume(&c.estimate);
        for (int i = 0; i < (again ? 2 : 4); i++) { /* what a connection begins with waits for the next */
            c.now_ns = again && i == 0 ? 0 : c.now_ns;
            receipt(&c, 100000, 1, 0, 0);
            weft_estimate_settle(&c.estimate);
        }
        assert_true(c.estimate.rate_bytes_s < before / 40);
    }
}

/* Whatever a peer says of its own times, a bucket arrived between its posting and its receipt. */
static void a_peer_cannot_say_more_than_was_seen(void **state)
{
    static const uint64_t said[] = {0, 400, 1000, 1001, UINT64_MAX / 2, UINT64_MAX};
    (void)state;
    for (size_t w = 0; w < COUNT(said); w++)
        for (size_t t = 0; t < COUNT(said); t++) {
            weft_estimate estimate = {0};
            const weft_bucket_times times = {5000, 7000, 8000, said[w], said[t]};
            weft_estimate_receipt(&estimate, &times);
            assert_in_range(estimate.arrived_ns, 7000, 8000);
            assert_true(estimate.take.seconds <= 1000e-9);
        }
}

static void each_level_has_its_rate(void **state)
{
    weft_estimate estimate = {0};
    (void)state;
    const double tight = weft_estimate_apply(&estimate, WEFT_LEVEL_TIGHT);
    weft_estimate_decode(&estimate, WEFT_LEVEL_FAST, 1000, 1);
    assert_true(weft_estimate_apply(&estimate, WEFT_LEVEL_TIGHT) == tight);
    assert_true(near(weft_estimate_apply(&estimate, WEFT_LEVEL_FAST), 1000, 0.01));
}

/* The fixed cost of a bucket is believed between a microsecond and a millisecond. */
static void fixed_costs_are_bounded(void **state)
{
    static const double fixed[] = {0, 0.3, 5e-3}, rates[] = {1e7, 1e7, 1e9};
    (void)state;
    for (size_t i = 0; i < COUNT(fixed); i++) {
        clocked c = {0};
        receipts(&c, rates[i], fixed[i], 500, 3);
        assert_true(weft_estimate_post(&c.estimate) >= 1e-6 && weft_estimate_post(&c.estimate) <= 1e-3);
        assert_true(weft_estimate_accept(&c.estimate) >= 1e-6 && weft_estimate_accept(&c.estimate) <= 1e-3);
    }
}

static void round_trips(void **state)
{
    (void)state;
    weft_estimate estimate = {0};
    for (uint32_t i = 0; i < 30; i++)
        weft_estimate_rtt(&estimate, 0.002);
    assert_true(near(estimate.rtt_s, 0.002, 0.01));
    weft_estimate_rtt(&estimate, 0.2);
    assert_true(near(estimate.rtt_s, 0.002, 0.01)); /* an end was busy */
    for (uint32_t i = 0; i < 16; i++)
        weft_estimate_rtt(&estimate, 0.004);
    assert_true(near(estimate.rtt_s, 0.004, 0.01)); /* another way */
    weft_estimate_resume(&estimate);
    weft_estimate_rtt(&estimate, 0.3); /* another connection */
    assert_true(near(estimate.rtt_s, 0.3, 0.01));
}

/* ---- size */

static weft_site_peer site_of(uint64_t fixed, uint64_t low, uint64_t high, uint64_t window)
{
    weft_site_peer site = {.bucket = fixed, .bucket_min = low, .bucket_max = high, .window = window};
    return site;
}

/* Makes an estimate as if it had been measured. */
static weft_estimate known(double rate, double apply, double rtt)
{
    return (weft_estimate){
        .rate_bytes_s = rate, .rtt_s = rtt, .take = {apply * 1e3, 1}, .decode = {[WEFT_LEVEL_FAST] = {apply, 1}}};
}

static uint64_t size_of(const weft_site_peer *site, const weft_estimate *estimate, uint64_t stream, uint64_t slot,
                        weft_bucket_bound *bound)
{
    return weft_bucket_size(site, estimate, WEFT_LEVEL_FAST, stream, slot, 0, bound);
}

static void fixed_size(void **state)
{
    (void)state;
    const weft_estimate estimate = known(1e10, 1e9, 0.1);
    weft_site_peer site = site_of(1u << 20, 64u << 10, SLOT, 4);
    weft_bucket_bound bound;
    assert_int_equal(size_of(&site, &estimate, 1u << 30, SLOT, &bound), 1u << 20);
    assert_int_equal(bound, WEFT_BOUND_FIXED);
    assert_int_equal(size_of(&site, &estimate, 1u << 30, 100000, &bound), 100000); /* the peer's slot */
    site.bucket_max = 200000;
    assert_int_equal(size_of(&site, &estimate, 1u << 30, SLOT, &bound), 200000);
}

/* The size is never outside the bounds, and the reason that is given is the one that decided. */
static void bounds(void **state)
{
    (void)state;
    bool seen[6] = {false};
    for (uint64_t seed = 0; seed < 500; seed++) {
        uint64_t random = weft_mix64(seed);
        weft_estimate estimate = known(pow(10, 4 + (double)(random % 7)), pow(10, 7 + (double)(random >> 8) / 1e18),
                                       pow(10, -5 + (double)((random >> 16) % 5)));
        weft_site_peer site = site_of(0, 64u << 10, 1u << (20 + (random >> 24) % 8), 1 + (random >> 32) % 16);
        const uint64_t slot = seed % 5 ? SLOT : 32u << 10; /* a peer's slots may be below the site's floor */
        uint64_t ceiling = site.bucket_max < slot ? site.bucket_max : slot;
        for (uint64_t stream = 1; stream < UINT64_C(1) << 40; stream *= 3) {
            weft_bucket_bound bound;
            uint64_t size = size_of(&site, &estimate, stream, slot, &bound);
            assert_in_range(size, site.bucket_min < ceiling ? site.bucket_min : ceiling, ceiling);
            const uint64_t outside = stream & 1 ? ceiling + 1 : site.bucket_min - 1; /* chosen under other bounds */
            assert_in_range(weft_bucket_size(&site, &estimate, WEFT_LEVEL_FAST, stream, slot, outside, &bound),
                            site.bucket_min < ceiling ? site.bucket_min : ceiling, ceiling);
            size_of(&site, &estimate, stream, slot, &bound);
            assert_int_equal(bound == WEFT_BOUND_CEILING, size == ceiling);
            assert_true(bound != WEFT_BOUND_FLOOR || size == site.bucket_min);
            assert_true(bound != WEFT_BOUND_START && bound != WEFT_BOUND_FIXED);
            assert_string_not_equal(weft_bucket_bound_name(bound), "?");
            seen[bound] = true;
        }
    }
    assert_true(seen[WEFT_BOUND_CEILING] && seen[WEFT_BOUND_FLOOR] && seen[WEFT_BOUND_MODEL] &&
                seen[WEFT_BOUND_WINDOW]);
    assert_string_equal(weft_bucket_bound_name((weft_bucket_bound)6), "?");
}

/* No size is faster by more than one part in 50 by the model's own law, and a larger one never as fast as it. */
static void is_the_optimum(void **state)
{
    (void)state;
    const weft_estimate estimate = known(1e9, 2e9, 100e-6);
    weft_site_peer site = site_of(0, 4096, 1u << 30, 8);
    weft_sizing sizing = weft_sizing_of(&site, &estimate, WEFT_LEVEL_FAST);
    for (uint64_t stream = 1u << 20; stream <= UINT64_C(1) << 36; stream *= 4) {
        weft_bucket_bound bound;
        double size = (double)size_of(&site, &estimate, stream, 1u << 30, &bound), total = (double)stream;
        double mine = weft_bucket_time(&sizing, total, size);
        for (double other = 4096; other < 1e9; other *= 1.05)
            assert_true(mine <= 1.02 * weft_bucket_time(&sizing, total, other));
    }
}

/* If wire and peer alone count, the best size is that of DESIGN's T(B): B = sqrt(S * o * max(R, A)). */
static void is_the_square_root(void **state)
{
    (void)state;
    const double rates[] = {1e8, 1e9}, applies[] = {1e8, 5e9};
    for (int i = 0; i < 2; i++) {
        const weft_sizing sizing = {rates[i], applies[i], 0, 1e-4, 0, 0};
        double stream = 1e9, wanted = sqrt(stream * 1e-4 * applies[i]), least = INFINITY, best = 0;
        for (double count = 1; count < 1e5; count = ceil(count * 1.01)) /* without a rest, which has its own law */
            if (weft_bucket_time(&sizing, stream, stream / count) < least) {
                best = stream / count;
                least = weft_bucket_time(&sizing, stream, best);
            }
        assert_true(near(best, wanted, 0.1));
    }
}

/* A chosen level stays while it is nearly as good as the best, and goes when it is not. */
static void what_was_chosen_stays(void **state)
{
    (void)state;
    weft_estimate estimate = known(1e9, 1e9, 100e-6);
    weft_site_peer site = site_of(0, 4096, 1u << 30, 8);
    weft_bucket_bound bound;
    uint64_t size = size_of(&site, &estimate, 1u << 28, 1u << 30, &bound);
    assert_int_equal(weft_bucket_size(&site, &estimate, WEFT_LEVEL_FAST, 1u << 28, 1u << 30, size - size / 10, &bound),
                     size - size / 10);
    assert_int_equal(weft_bucket_size(&site, &estimate, WEFT_LEVEL_FAST, 1u << 28, 1u << 30, 5000, &bound), size);
    assert_int_equal(weft_bucket_size(&site, &estimate, WEFT_LEVEL_FAST, 1u << 28, 1u << 30, 1u << 29, &bound), size);
}

/* Nothing is known yet: the site's start, as far as the peer can take it. */
static void before_any_receipt(void **state)
{
    (void)state;
    const weft_estimate estimate = {0};
    weft_site_peer site = site_of(0, 64u << 10, SLOT, 0);
    weft_bucket_bound bound;
    site.bucket_start = 512u << 10;
    assert_int_equal(size_of(&site, &estimate, 0, SLOT, &bound), 512u << 10);
    assert_int_equal(bound, WEFT_BOUND_START);
    assert_int_equal(size_of(&site, &estimate, UINT64_MAX, 1000, &bound), 1000); /* a slot below bucket_min */
    site.bucket_min = 1u << 20;
    assert_int_equal(size_of(&site, &estimate, 1u << 30, SLOT, &bound), 1u << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unmeasured),
        cmocka_unit_test(settled_twice),
        cmocka_unit_test(converges),
        cmocka_unit_test(one_size),
        cmocka_unit_test(follows_a_tenfold_change),
        cmocka_unit_test(forgets_an_outlier),
        cmocka_unit_test(receipts_in_bunches),
        cmocka_unit_test(a_bucket_tells_the_round_trip),
        cmocka_unit_test(a_lone_bucket_says_little),
        cmocka_unit_test(a_fit_begins_anew),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(a_change_is_believed),
        cmocka_unit_test(a_peer_cannot_say_more_than_was_seen),
        cmocka_unit_test(each_level_has_its_rate),
        cmocka_unit_test(fixed_costs_are_bounded),
        cmocka_unit_test(fixed_size),
        cmocka_unit_test(bounds),
        cmocka_unit_test(is_the_optimum),
        cmocka_unit_test(is_the_square_root),
        cmocka_unit_test(what_was_chosen_stays),
        cmocka_unit_test(before_any_receipt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
