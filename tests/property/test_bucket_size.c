/* The size that auto chooses, on simulated links: never far from the best fixed size, still where nothing changes, and
 * quick where something does. The simulation knows nothing of the model: a sender, a wire, a peer that takes and
 * decodes buckets one after the other, slots, and receipts on their way back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bucket/bucket.h"
#include "layout/digest.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define WINDOWS  64
#define SLACK    50e-6 /* seconds that a wake-up costs */

typedef struct link_model {
    double rate, rtt, take, decode; /* bytes/s, s, bytes/s, bytes/s */
    double post, accept;            /* s per bucket at the sender, at the peer */
    uint32_t window;
    double noise; /* share by which each step may take longer */
    uint64_t seed;
    double now, heard; /* times in s; heard: of the last receipt, because receipts are read in a row */
    uint32_t strike;   /* the so-manieth receipt from now on is 100 times as late; 0: none */
} link_model;

typedef struct in_flight {
    double posted, receipt, waited, taken, bytes;
} in_flight;

static double noisy(link_model *link, double seconds)
{
    link->seed = weft_mix64(link->seed + 1);
    return seconds * (1 + link->noise * (double)(link->seed >> 11) / 9007199254740992.0);
}

static void tell(weft_estimate *estimate, const in_flight *bucket)
{
    const weft_bucket_times times = {(uint64_t)bucket->bytes, (uint64_t)(bucket->posted * 1e9),
                                     (uint64_t)(bucket->receipt * 1e9), (uint64_t)(bucket->waited * 1e9),
                                     (uint64_t)(bucket->taken * 1e9)};
    if (estimate)
        weft_estimate_receipt(estimate, &times);
}

/* Sends `stream` bytes in buckets of `size`; returns the seconds until the sender knows that all was decoded. */
static double send(link_model *link, double stream, double size, weft_estimate *estimate)
{
    in_flight flight[WINDOWS] = {{0}};
    double begun = link->now, sender = begun, wire = begun, peer = begun, decoding = 0, left = stream;
    uint64_t count = 0;
    for (; left > 0; count++) {
        in_flight *bucket = &flight[count % link->window], before = *bucket;
        if (count >= link->window) {
            sender = fmax(sender, before.receipt);
            tell(estimate, &before);
        }
        bucket->bytes = left < size ? left : size;
        bucket->posted = sender;
        sender += noisy(link, link->post);
        wire = fmax(wire, sender) + noisy(link, bucket->bytes / link->rate);
        double whole = wire + link->rtt / 2, begin = fmax(whole, peer);
        bucket->waited = begin - whole;
        bucket->taken = noisy(link, link->accept + bucket->bytes / link->take);
        double took = begin + bucket->taken, decode = noisy(link, bucket->bytes / link->decode);
        double late = link->strike && --link->strike == 0 ? 100 * (took + link->rtt / 2 - bucket->posted) : 0;
        bucket->receipt = link->heard = fmax(link->heard, took + link->rtt / 2 + late);
        peer = took + decode;
        decoding += decode;
        left -= bucket->bytes;
    }
    for (uint64_t i = count > link->window ? count - link->window : 0; i < count; i++)
        tell(estimate, &flight[i % link->window]);
    if (estimate)
        weft_estimate_decode(estimate, WEFT_LEVEL_FAST, (uint64_t)stream, decoding);
    link->now = fmax(peer + link->rtt / 2, link->heard);
    double seconds = link->now - begun;
    link->now += 0.1; /* to the next update */
    return seconds;
}

typedef struct world {
    link_model link;
    weft_site_peer site;
    weft_estimate estimate;
    uint64_t chosen, slot;
    weft_bucket_bound bound;
} world;

static world world_of(double rate, double rtt, double take, double decode, double fixed, uint32_t window, uint64_t slot)
{
    world w = {.link = {rate, rtt, take, decode, fixed / 2, fixed / 2, window, 0, 1, 1, 0, 0}, .slot = slot};
    w.site =
        (weft_site_peer){.bucket_start = 512u << 10, .bucket_min = 64u << 10, .bucket_max = slot, .window = window};
    return w;
}

/* One update: its size is chosen when it begins. */
static double update(world *w, double stream)
{
    weft_estimate_settle(&w->estimate);
    weft_estimate_rtt(&w->estimate, noisy(&w->link, w->link.rtt));
    w->chosen =
        weft_bucket_size(&w->site, &w->estimate, WEFT_LEVEL_FAST, (uint64_t)stream, w->slot, w->chosen, &w->bound);
    return send(&w->link, stream, (double)w->chosen, &w->estimate);
}

static double best_fixed(const world *w, double stream, double *size)
{
    double best = INFINITY;
    for (double b = (double)w->site.bucket_min; b <= (double)w->slot * 1.0001; b *= 1.1892071150027210) {
        link_model link = w->link;
        double seconds = send(&link, stream, b, NULL);
        if (seconds < best)
            *size = b;
        best = fmin(best, seconds);
    }
    return best;
}

static double worst;

static void check_one(double rate, double rtt, double decode, double fixed, uint32_t window, uint64_t slot,
                      double stream, double noise)
{
    world w = world_of(rate, rtt, 4e9, decode, fixed, window, slot);
    double size = 0;
    w.link.noise = noise;
    for (int i = 0; i < 10; i++) /* no two updates are of one size */
        update(&w, stream * (0.8 + 0.4 * (double)(weft_mix64((uint64_t)i) % 100) / 100));
    update(&w, stream);
    world still = w;
    still.link.noise = 0;
    double taken = send(&still.link, stream, (double)w.chosen, NULL);
    double best = best_fixed(&still, stream, &size);
    worst = fmax(worst, taken / best);
    if (taken > 1.10 * best + SLACK)
        fail_msg("rate %.3g, rtt %.3g, decode %.3g, fixed %.3g, window %u, slot %llu, stream %.3g: %llu bytes take "
                 "%.4g s, %.0f bytes %.4g s (%s; R %.3g A %.3g o %.3g L %.3g)",
                 rate, rtt, decode, fixed, window, (unsigned long long)slot, stream, (unsigned long long)w.chosen,
                 taken, size, best, weft_bucket_bound_name(w.bound), w.estimate.rate_bytes_s,
                 weft_estimate_apply(&w.estimate, WEFT_LEVEL_FAST), weft_estimate_post(&w.estimate), w.estimate.rtt_s);
}

static void near_the_best(void **state)
{
    (void)state;
    const double rates[] = {12.5e6, 125e6, 1.25e9, 12.5e9}, rtts[] = {1e-4, 1e-3, 1e-2, 5e-2};
    const double decodes[] = {2e7, 3e8, 5e9}, fixed[] = {3e-5, 1e-4, 3e-4};
    const struct {
        uint32_t window;
        uint64_t slot;
    } slots[] = {{2, 1u << 20}, {4, 4u << 20}, {16, 16u << 20}};
    for (double stream = 65536; stream <= 1073741824.0; stream *= 8)
        for (size_t r = 0; r < COUNT(rates); r++)
            for (size_t l = 0; l < COUNT(rtts); l++)
                for (size_t a = 0; a < COUNT(decodes); a++)
                    for (size_t o = 0; o < COUNT(fixed); o++)
                        for (size_t s = 0; s < COUNT(slots); s++)
                            for (int noise = 0; noise < 2; noise++)
                                check_one(rates[r], rtts[l], decodes[a], fixed[o], slots[s].window, slots[s].slot,
                                          stream, noise * 0.3);
    print_message("worst: %.3f of the best fixed size\n", worst);
}

/* A steady link with noise: once known, the size stays. */
static void does_not_oscillate(void **state)
{
    (void)state;
    const double rates[] = {12.5e6, 125e6, 1.25e9, 12.5e9}, rtts[] = {1e-4, 1e-2};
    for (size_t r = 0; r < COUNT(rates); r++)
        for (size_t l = 0; l < COUNT(rtts); l++) {
            world w = world_of(rates[r], rtts[l], 4e9, 3e8, 1e-4, 4, 16u << 20);
            uint32_t changes = 0, turns = 0;
            bool grew = false;
            w.link.noise = 0.5;
            for (int i = 0; i < 100; i++) {
                uint64_t before = w.chosen;
                update(&w, 64e6);
                if (i < 5 || w.chosen == before)
                    continue;
                turns += changes++ > 0 && grew != (w.chosen > before);
                grew = w.chosen > before;
            }
            if (turns > 2 || changes > 5)
                fail_msg("rate %.3g, rtt %.3g: %u changes in 95 updates, %u turns", rates[r], rtts[l], changes, turns);
        }
}

/* The rate drops tenfold, and comes back: three updates later the estimate is there, and the size as good as any. */
static void follows_the_link(void **state)
{
    (void)state;
    const double rates[] = {125e6, 1.25e9, 12.5e9}, streams[] = {200e3, 4e6, 64e6};
    for (size_t r = 0; r < COUNT(rates); r++)
        for (size_t s = 0; s < COUNT(streams); s++) {
            world w = world_of(rates[r], 1e-3, 4e9, 5e9, 5e-5, 8, 16u << 20);
            for (int phase = 0; phase < 3; phase++) {
                double size = 0;
                w.link.rate = phase == 1 ? rates[r] / 10 : rates[r];
                for (int i = 0; i < (phase ? 4 : 20); i++)
                    update(&w, streams[s]);
                link_model link = w.link;
                double taken = send(&link, streams[s], (double)w.chosen, NULL),
                       best = best_fixed(&w, streams[s], &size);
                if (taken > 1.10 * best)
                    fail_msg("rate %.3g, stream %.3g, phase %d: %llu takes %.4g, %.0f takes %.4g (R %.3g)", w.link.rate,
                             streams[s], phase, (unsigned long long)w.chosen, taken, size, best,
                             w.estimate.rate_bytes_s);
                if (streams[s] > 1e6 && fabs(log(w.estimate.rate_bytes_s / w.link.rate)) > log(2))
                    fail_msg("rate %.3g, stream %.3g, phase %d: believed %.3g", w.link.rate, streams[s], phase,
                             w.estimate.rate_bytes_s);
            }
        }
}

/* One receipt a hundred times late does not even halve or double the size, and is forgotten. */
static void forgets_an_outlier(void **state)
{
    (void)state;
    const double rates[] = {12.5e6, 125e6, 1.25e9, 12.5e9}, rtts[] = {1e-4, 1e-2};
    for (size_t r = 0; r < COUNT(rates); r++)
        for (size_t l = 0; l < COUNT(rtts); l++)
            for (uint32_t strike = 1; strike < 12; strike++) {
                world w = world_of(rates[r], rtts[l], 4e9, 3e8, 1e-4, 4, 16u << 20);
                for (int i = 0; i < 20; i++)
                    update(&w, 16e6);
                double before = (double)w.chosen;
                w.link.strike = strike;
                for (int i = 0; i < 6; i++) {
                    update(&w, 16e6);
                    if ((double)w.chosen > 2 * before || (double)w.chosen < before / 2)
                        fail_msg("rate %.3g, rtt %.3g: receipt %u late: %.0f becomes %llu", rates[r], rtts[l], strike,
                                 before, (unsigned long long)w.chosen);
                }
            }
}

/* The next connection of a peer starts with what is known of the peer. */
static void survives_a_reconnect(void **state)
{
    (void)state;
    world w = world_of(1.25e9, 1e-2, 4e9, 3e8, 1e-4, 4, 16u << 20);
    for (int i = 0; i < 20; i++)
        update(&w, 64e6);
    double before = (double)w.chosen;
    weft_estimate_resume(&w.estimate);
    w.link.now += 1000;
    weft_bucket_bound bound;
    double now = (double)weft_bucket_size(&w.site, &w.estimate, WEFT_LEVEL_FAST, 64000000, w.slot, 0, &bound);
    assert_true(bound != WEFT_BOUND_START);
    assert_true(now > before / 1.5 && now < before * 1.5);
    w.link.rate /= 10; /* another link under the same name */
    for (int i = 0; i < 3; i++)
        update(&w, 64e6);
    assert_true(fabs(log(w.estimate.rate_bytes_s / w.link.rate)) < log(1.5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_the_best),        cmocka_unit_test(does_not_oscillate),
        cmocka_unit_test(follows_the_link),     cmocka_unit_test(forgets_an_outlier),
        cmocka_unit_test(survives_a_reconnect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
