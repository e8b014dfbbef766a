#include "bucket/estimate.h"

#include <math.h>
#include <string.h>

/* A flow's sample weighs a quarter: an outlier is gone within a few buckets, a tenfold change followed as fast. */
#define FLOW_WEIGHT 0.25
/* A bucket that met an idle link and was no work for it says little about the rate: wake-ups are in its time. */
#define LONE_WEIGHT  0.03
#define LONE_SECONDS 2e-3
#define FIT_WEIGHT   (1.0 / 32)
/* Most that a sample counts for, of what was expected; expectations are given up after so many beyond it. */
#define EXPECTED    4.0
#define STRANGE_MAX 3u
/* Fixed cost of a bucket at either end until it shows its own, and what is believed at all. */
#define FIXED_SECONDS     40e-6
#define FIXED_SECONDS_MIN 1e-6
#define FIXED_SECONDS_MAX 1e-3
/* Guesses before the first HELD, from this codec on one core: frame bytes decoded per second. */
#define TAKE_GUESS 3e9
static const double decode_guess[WEFT_LEVEL_COUNT] = {
    [WEFT_LEVEL_FULL] = 1e9, [WEFT_LEVEL_PAIRS] = 250e6, [WEFT_LEVEL_FAST] = 50e6, [WEFT_LEVEL_TIGHT] = 14e6};

static double rate_of(const weft_flow *flow, double unknown)
{
    return flow->seconds > 1e-9 ? flow->bytes / flow->seconds : unknown;
}

static void flow_in(weft_flow *flow, double bytes, double seconds, double weight)
{
    if (flow->bytes <= 0)
        *flow = (weft_flow){bytes * FLOW_WEIGHT, seconds * FLOW_WEIGHT};
    flow->bytes += weight * (bytes - flow->bytes);
    flow->seconds += weight * (seconds - flow->seconds);
}

/* Cuts a sample to what may be believed of it; `expected` 0: nothing is known. */
static double believable(double seconds, double expected, uint32_t *strange)
{
    bool far = expected > 0 && (seconds > EXPECTED * expected || seconds * EXPECTED < expected);
    *strange = far ? *strange + 1 : 0;
    return far && seconds > expected && *strange < STRANGE_MAX ? EXPECTED * expected : seconds;
}

void weft_estimate_rtt(weft_estimate *estimate, double seconds)
{
    double least = seconds > 1e-7 ? seconds : 1e-7;
    estimate->rtts[estimate->rtt_count++ % WEFT_ROUND_TRIPS] = least;
    uint32_t known = estimate->rtt_count < WEFT_ROUND_TRIPS ? estimate->rtt_count : WEFT_ROUND_TRIPS;
    for (uint32_t i = 0; i < known; i++)
        least = estimate->rtts[i] < least ? estimate->rtts[i] : least;
    estimate->rtt_s = least;
}

static double fixed_of(const weft_fit *fit)
{
    return fit->fixed_s > 0 ? fit->fixed_s : FIXED_SECONDS;
}

/* Mean square of what the least squares without a prior leave open, and of a doubt that few samples do not take away:
 * two of them fit any line. */
static double fit_noise(const weft_fit *fit)
{
    double doubt = fit->nt / fit->nn / 5, det = fit->nn * fit->bb - fit->nb * fit->nb;
    if (det < 1e-6 * fit->nn * fit->bb)
        return 0; /* one size: nothing to be drawn away from the prior */
    double fixed = (fit->nt * fit->bb - fit->nb * fit->bt) / det, slope = (fit->bt - fixed * fit->nb) / fit->bb;
    return (fmax(0, fit->tt - fixed * fit->nt - slope * fit->bt) + doubt * doubt) / fit->nn;
}

static void fit_solve(weft_fit *fit)
{
    double prior = fmax(1, fit_noise(fit) / (FIXED_SECONDS * FIXED_SECONDS)); /* it is worth so many samples */
    double nn = fit->nn + prior, nt = fit->nt + prior * FIXED_SECONDS, det = nn * fit->bb - fit->nb * fit->nb;
    if (det > 0)
        fit->fixed_s = fmin(fmax((nt * fit->bb - fit->nb * fit->bt) / det, FIXED_SECONDS_MIN), FIXED_SECONDS_MAX);
}

static void fade_in(double *sum, double value)
{
    *sum += value - FIT_WEIGHT * *sum;
}

/* `n` buckets of together `b` bytes took `t` seconds. */
static void fit_in(weft_fit *fit, double n, double b, double t)
{
    double slope = fit->bb > 0 ? fmax((fit->bt - fixed_of(fit) * fit->nb) / fit->bb, 0) : 0;
    believable(t, fit->bb > 0 ? fixed_of(fit) * n + slope * b : 0, &fit->strange);
    if (fit->strange > 0 && fit->strange < STRANGE_MAX)
        return;
    if (fit->strange >= STRANGE_MAX)
        *fit = (weft_fit){.fixed_s = fit->fixed_s};
    fade_in(&fit->nn, n * n);
    fade_in(&fit->nb, n * b);
    fade_in(&fit->bb, b * b);
    fade_in(&fit->nt, n * t);
    fade_in(&fit->bt, b * t);
    fade_in(&fit->tt, t * t);
    fit_solve(fit);
}

static void wire_in(weft_estimate *estimate, const weft_bunch *bunch)
{
    weft_flow *flow = &estimate->wire;
    double fixed = fmin(weft_estimate_post(estimate) * bunch->buckets, bunch->wire_s / 2);
    double known = rate_of(flow, 0), expected = known > 0 ? bunch->bytes / known : 0;
    double seconds = believable(bunch->wire_s - fixed, expected, &estimate->wire_strange);
    bool lone = !bunch->busy && expected > 0 && expected < LONE_SECONDS && seconds > expected;
    flow_in(flow, bunch->bytes, seconds, lone ? LONE_WEIGHT : FLOW_WEIGHT);
    estimate->rate_bytes_s = rate_of(flow, 0);
}

void weft_estimate_settle(weft_estimate *estimate)
{
    const weft_bunch bunch = estimate->bunch;
    if (bunch.buckets <= 0)
        return;
    estimate->bunch = (weft_bunch){0};
    wire_in(estimate, &bunch);
    if (bunch.busy)
        fit_in(&estimate->post, bunch.buckets, bunch.bytes, bunch.wire_s);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static double seconds_between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 0;
}

static void take_in(weft_estimate *estimate, double bytes, double seconds)
{
    double fixed = fmin(weft_estimate_accept(estimate), seconds / 2);
    flow_in(&estimate->take, bytes, seconds - fixed, FLOW_WEIGHT);
}

void weft_estimate_receipt(weft_estimate *estimate, const weft_bucket_times *times)
{
    uint64_t reached_ns = times->posted_ns + (uint64_t)(estimate->rtt_s * 1e9);
    uint64_t span_ns = times->receipt_ns > times->posted_ns ? times->receipt_ns - times->posted_ns : 0;
    uint64_t taken_ns = times->taken_ns < span_ns ? times->taken_ns : span_ns; /* what a peer says is not proved */
    uint64_t waited_ns = times->waited_ns < span_ns - taken_ns ? times->waited_ns : span_ns - taken_ns;
    uint64_t arrived_ns = times->receipt_ns - taken_ns - waited_ns;
    if (arrived_ns < reached_ns) {
        estimate->rtt_s = estimate->rtts[(estimate->rtt_count - 1) % WEFT_ROUND_TRIPS] =
            seconds_between(times->posted_ns, arrived_ns);
        reached_ns = arrived_ns;
    }
    double wire_s = seconds_between(later(reached_ns, estimate->arrived_ns), arrived_ns);
    weft_bunch *bunch = &estimate->bunch;
    if (times->receipt_ns > estimate->receipt_ns && wire_s > 0) {
        weft_estimate_settle(estimate);
        bunch->busy = estimate->arrived_ns > reached_ns;
    }
    bunch->buckets++;
    bunch->bytes += (double)times->bytes;
    bunch->wire_s += wire_s;
    fit_in(&estimate->accept, 1, (double)times->bytes, (double)taken_ns / 1e9);
    take_in(estimate, (double)times->bytes, (double)taken_ns / 1e9);
    estimate->arrived_ns = later(arrived_ns, estimate->arrived_ns);
    estimate->receipt_ns = times->receipt_ns;
}

void weft_estimate_decode(weft_estimate *estimate, weft_level level, uint64_t bytes, double seconds)
{
    if (bytes > 0 && seconds > 0)
        flow_in(&estimate->decode[level], (double)bytes, seconds, FLOW_WEIGHT);
}

void weft_estimate_resume(weft_estimate *estimate)
{
    weft_estimate_settle(estimate);
    estimate->post = (weft_fit){.fixed_s = estimate->post.fixed_s};
    estimate->accept = (weft_fit){.fixed_s = estimate->accept.fixed_s};
    memset(estimate->rtts, 0, sizeof estimate->rtts);
    estimate->rtt_count = 0;
    estimate->arrived_ns = estimate->receipt_ns = 0;
    estimate->wire_strange = STRANGE_MAX; /* the first sample is believed whatever it says */
}

double weft_estimate_apply(const weft_estimate *estimate, weft_level level)
{
    double take = rate_of(&estimate->take, TAKE_GUESS), decode = rate_of(&estimate->decode[level], decode_guess[level]);
    return 1 / (1 / take + 1 / decode);
}

double weft_estimate_post(const weft_estimate *estimate)
{
    return fixed_of(&estimate->post);
}

double weft_estimate_accept(const weft_estimate *estimate)
{
    return fixed_of(&estimate->accept);
}
