#include "tools/bench/fabric/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "tools/bench/fabric/end.h"

#define ECHO_BYTES   64u
#define ECHOES       200u
#define RUNS_MAX     15u
#define ENOUGH       0.90
#define NEARLY_ALL   0.95
#define WRITES_LEAST 16u
#define SPIN_MS      30u /* in each round, and at the end */

static const uint64_t chunks[WEFT_BENCH_CHUNKS] = {64u << 10, 256u << 10, 1u << 20, 4u << 20};
static const uint32_t depths[WEFT_BENCH_DEPTHS] = {1, 2, 4, 8, 16};
static const uint64_t regions[WEFT_BENCH_REGIONS] = {1u << 20, 16u << 20, 64u << 20};

/* Processor time of the two ends. */
typedef struct both {
    weft_bench_turns here, there;
} both;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

static weft_status order(const weft_bench_end *end, weft_bench_order what, uint64_t count, uint64_t bytes)
{
    weft_bench_message message = {.order = what, .count = count, .bytes = bytes};
    return weft_bench_say(end->line, &message);
}

static weft_status hear_done_with(const weft_bench_end *end, weft_bench_message *message)
{
    weft_status status = weft_bench_hear(end->line, message);
    if (status == WEFT_OK && message->order != WEFT_BENCH_DONE)
        return weft_fail_quiet(WEFT_E_PROTOCOL, "the other end is out of step");
    return status;
}

static weft_status hear_done(const weft_bench_end *end)
{
    weft_bench_message message;
    return hear_done_with(end, &message);
}

/* Both ends want a processor at once, as they do while they poll. */
static weft_status spin(const weft_bench_end *end, weft_bench_turns *here, weft_bench_turns *there)
{
    weft_bench_message message;
    weft_status status = order(end, WEFT_BENCH_SPIN, SPIN_MS, 0);
    if (status == WEFT_OK)
        weft_bench_spin(SPIN_MS, here);
    if (status == WEFT_OK)
        status = hear_done_with(end, &message);
    if (status == WEFT_OK) {
        there->wanted_ns += message.address;
        there->had_ns += message.key;
    }
    return status;
}

/* ---- latency */

static weft_status echo_once(weft_bench_end *end, uint64_t number, bool asleep, double *us)
{
    uint64_t begun = weft_clock_ns(), before = end->arrived;
    weft_status status;
    while ((status = weft_bench_end_post(end, number, ECHO_BYTES)) == WEFT_AGAIN)
        if ((status = weft_bench_end_step(end, false)) != WEFT_OK)
            return status;
    while (status == WEFT_OK && end->arrived == before)
        status = weft_bench_end_step(end, asleep);
    *us = (double)(weft_clock_ns() - begun) / 2e3;
    return status;
}

static weft_status echoes(weft_bench_end *end, weft_bench_order what, double *us)
{
    double each[ECHOES];
    weft_status status = order(end, what, ECHOES, ECHO_BYTES);
    for (uint32_t i = 0; i < ECHOES && status == WEFT_OK; i++)
        status = echo_once(end, i, what == WEFT_BENCH_ECHO_WOKEN, &each[i]);
    while (status == WEFT_OK && end->under_way)
        status = weft_bench_end_step(end, false);
    if (status == WEFT_OK)
        status = hear_done(end);
    if (status == WEFT_OK)
        *us = median(each, ECHOES);
    return status;
}

/* ---- rate */

static weft_status stream(weft_bench_end *end, uint64_t chunk, uint32_t depth, uint64_t count, double *rate)
{
    uint64_t begun = weft_clock_ns(), posted = 0;
    weft_status status = order(end, WEFT_BENCH_TAKE, count, chunk);
    while (status == WEFT_OK && (posted < count || end->under_way)) {
        while (status == WEFT_OK && posted < count && end->under_way < depth &&
               (status = weft_bench_end_post(end, posted, chunk)) == WEFT_OK)
            posted++;
        if (status == WEFT_OK || status == WEFT_AGAIN)
            status = weft_bench_end_step(end, true);
    }
    if (status == WEFT_OK)
        status = hear_done(end);
    *rate = (double)(count * chunk) / ((double)(weft_clock_ns() - begun) * 1e-9);
    return status;
}

static uint64_t writes_of(uint64_t bytes, uint64_t chunk)
{
    uint64_t count = bytes / chunk;
    return count < WRITES_LEAST ? WRITES_LEAST : count > WEFT_BENCH_WRITES ? WEFT_BENCH_WRITES : count;
}

/* In rounds, so that what disturbs the machine disturbs all sizes alike. */
static weft_status rates(weft_bench_end *end, const weft_bench_fabric_terms *terms, both *turns,
                         weft_bench_fabric_figures *f)
{
    double each[WEFT_BENCH_CHUNKS][WEFT_BENCH_DEPTHS][RUNS_MAX];
    weft_status status = WEFT_OK;
    double warm;
    status = stream(end, f->chunk[0], f->depth[0], WRITES_LEAST, &warm);
    for (uint32_t run = 0; run < terms->runs; run++) {
        if (status == WEFT_OK)
            status = spin(end, &turns->here, &turns->there);
        for (uint32_t c = 0; c < f->chunks; c++)
            for (uint32_t d = 0; d < f->depths && status == WEFT_OK; d++)
                status = stream(end, f->chunk[c], f->depth[d], writes_of(terms->bytes, f->chunk[c]), &each[c][d][run]);
    }
    double spreads[WEFT_BENCH_CHUNKS * WEFT_BENCH_DEPTHS];
    uint32_t known = 0;
    for (uint32_t c = 0; c < f->chunks && status == WEFT_OK; c++)
        for (uint32_t d = 0; d < f->depths; d++) {
            f->rate[c][d] = median(each[c][d], terms->runs);
            spreads[known++] = weft_bench_spread(each[c][d], terms->runs);
        }
    f->noise.rate_spread = known > 0 ? median(spreads, known) : -1;
    return status;
}

/* ---- the yardstick */

static weft_status raw_echoes(weft_bench_end *end, double *us)
{
    double each[ECHOES];
    weft_bench_line raw = {.fd = end->line->fd};
    weft_status status = order(end, WEFT_BENCH_RAW_ECHO, ECHOES, ECHO_BYTES);
    for (uint32_t i = 0; i < ECHOES && status == WEFT_OK; i++) {
        uint64_t begun = weft_clock_ns();
        status = weft_bench_line_give(&raw, end->out, ECHO_BYTES);
        if (status == WEFT_OK)
            status = weft_bench_line_take(&raw, end->in, ECHO_BYTES);
        each[i] = (double)(weft_clock_ns() - begun) / 2e3;
    }
    if (status == WEFT_OK)
        status = hear_done(end);
    if (status == WEFT_OK)
        *us = median(each, ECHOES);
    return status;
}

static weft_status raw_rate(weft_bench_end *end, const weft_bench_fabric_terms *terms, double *rate)
{
    double each[RUNS_MAX];
    uint64_t chunk = 1u << 20, count = writes_of(terms->bytes, chunk);
    weft_bench_line raw = {.fd = end->line->fd};
    weft_status status = WEFT_OK;
    for (uint32_t run = 0; run < terms->runs && status == WEFT_OK; run++) {
        uint64_t begun = weft_clock_ns();
        status = order(end, WEFT_BENCH_RAW_TAKE, count, chunk);
        for (uint64_t i = 0; i < count && status == WEFT_OK; i++)
            status = weft_bench_line_give(&raw, end->out, chunk);
        if (status == WEFT_OK)
            status = hear_done(end);
        each[run] = (double)(count * chunk) / ((double)(weft_clock_ns() - begun) * 1e-9);
    }
    if (status == WEFT_OK)
        *rate = median(each, terms->runs);
    return status;
}

/* ---- registration */

static weft_status registrations(weft_bench_end *end, const weft_bench_fabric_terms *terms,
                                 weft_bench_fabric_figures *f)
{
    for (uint32_t i = 0; i < WEFT_BENCH_REGIONS; i++) {
        double each[RUNS_MAX];
        for (uint32_t run = 0; run < terms->runs; run++) {
            weft_region *region;
            uint64_t begun = weft_clock_ns();
            weft_status status = end->provider->region_open(end->link, end->port, end->in, regions[i], true, &region);
            if (status != WEFT_OK)
                return status;
            end->provider->region_close(region);
            each[run] = (double)(weft_clock_ns() - begun) / 1e6;
        }
        f->region_bytes[i] = regions[i];
        f->region_ms[i] = median(each, terms->runs);
    }
    return WEFT_OK;
}

/* ---- all */

static void plan(const weft_bench_end *end, weft_bench_fabric_figures *f)
{
    snprintf(f->fabric, sizeof f->fabric, "%s", end->facts.fabric);
    f->raw = strncmp(end->provider->name, "tcp", 3) == 0;
    for (uint32_t i = 0; i < WEFT_BENCH_CHUNKS && (!i || chunks[i] <= end->facts.chunk_bytes); i++)
        f->chunk[f->chunks++] = chunks[i] <= end->facts.chunk_bytes ? chunks[i] : end->facts.chunk_bytes;
    for (uint32_t i = 0; i < WEFT_BENCH_DEPTHS && (!i || depths[i] <= end->facts.depth); i++)
        f->depth[f->depths++] = depths[i];
}

static double peak_of(const weft_bench_fabric_figures *f, uint32_t chunk)
{
    double peak = 0;
    for (uint32_t d = 0; d < f->depths; d++)
        peak = f->rate[chunk][d] > peak ? f->rate[chunk][d] : peak;
    return peak;
}

static uint32_t enough_of(const weft_bench_fabric_figures *f, uint32_t chunk, double peak)
{
    for (uint32_t d = 0; d < f->depths; d++)
        if (f->rate[chunk][d] >= ENOUGH * peak)
            return f->depth[d];
    return f->depth[f->depths - 1];
}

static void sum_up(weft_bench_fabric_figures *f)
{
    for (uint32_t c = 0; c < f->chunks; c++) {
        f->enough[c] = enough_of(f, c, peak_of(f, c));
        f->peak = peak_of(f, c) > f->peak ? peak_of(f, c) : f->peak;
    }
}

static void recommend(weft_bench_fabric_figures *f)
{
    uint32_t best = 0;
    while (best + 1 < f->chunks && peak_of(f, best) < NEARLY_ALL * f->peak)
        best++;
    f->best_chunk = f->chunk[best];
    f->best_depth = enough_of(f, best, f->peak);
    f->bucket_min = f->best_chunk * f->best_depth;
}

static weft_status measure_all(weft_bench_end *end, const weft_bench_fabric_terms *terms, both *turns,
                               weft_bench_fabric_figures *f)
{
    weft_status status = rates(end, terms, turns, f);
    if (status == WEFT_OK)
        status = echoes(end, WEFT_BENCH_ECHO, &f->latency_us);
    if (status == WEFT_OK)
        status = echoes(end, WEFT_BENCH_ECHO_WOKEN, &f->woken_us);
    if (status == WEFT_OK && f->raw)
        status = raw_echoes(end, &f->raw_latency_us);
    if (status == WEFT_OK && f->raw)
        status = raw_rate(end, terms, &f->raw_rate);
    return status == WEFT_OK ? registrations(end, terms, f) : status;
}

static weft_status measure(weft_bench_end *end, const weft_bench_fabric_terms *terms, weft_bench_fabric_figures *f)
{
    both turns = {{0, 0}, {0, 0}};
    char why[200];
    const weft_bench_ticks begun = weft_bench_ticks_now();
    plan(end, f);
    weft_status status = measure_all(end, terms, &turns, f);
    if (status == WEFT_OK)
        status = spin(end, &turns.here, &turns.there);
    if (status != WEFT_OK)
        return status;
    const weft_bench_ticks ended = weft_bench_ticks_now();
    f->noise.waited_here = weft_bench_waited(&turns.here);
    f->noise.waited_there = weft_bench_waited(&turns.there);
    f->noise.stolen_here = weft_bench_stolen(&begun, &ended);
    sum_up(f);
    if (weft_bench_noise_passes(&f->noise, why))
        recommend(f);
    return WEFT_OK;
}

weft_status weft_bench_fabric_measure(const weft_bench_fabric_terms *terms, weft_bench_fabric_figures *figures)
{
    weft_bench_end end;
    *figures = (weft_bench_fabric_figures){0};
    weft_status status = weft_bench_end_open(&end, terms->provider, &terms->link, terms->line, false);
    if (status == WEFT_OK)
        status = measure(&end, terms, figures);
    if (status == WEFT_OK)
        status = order(&end, WEFT_BENCH_END, 0, 0);
    weft_bench_end_close(&end);
    return status;
}
