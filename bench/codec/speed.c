/* speed.c - how fast the stages run, beside the yardsticks, round by round. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "bench/codec/codec.h"
#include "bench/codec/rig.h"

#define KERNELS_VARIABLE "WEFT_KERNELS"

/* Two threads gain so much on one, or reach that share of what memory gives two, where that is less. */
#define GAIN         1.7
#define GAIN_OF_YARD 0.85

const weft_bench_stage_row weft_bench_stages[WEFT_BENCH_STAGES] = {
    [WEFT_BENCH_ENCODE_TIGHT] = {"diff + encode tight", WEFT_BENCH_READ_TWO, 0.60, WEFT_BENCH_READ_TWO_WIDE},
    [WEFT_BENCH_ENCODE_FAST] = {"diff + encode fast", WEFT_BENCH_READ_TWO, 0.75, WEFT_BENCH_READ_TWO_WIDE},
    [WEFT_BENCH_DECODE_TIGHT] = {"decode + apply tight", WEFT_BENCH_READ_ONE, 0.40, WEFT_BENCH_READ_VISIT},
    [WEFT_BENCH_DECODE_FAST] = {"decode + apply fast", WEFT_BENCH_READ_ONE, 0.70, WEFT_BENCH_VISIT},
    [WEFT_BENCH_CHOOSE] = {"parameters of tight", WEFT_BENCH_READ_TWO, 0, WEFT_BENCH_READ_TWO_WIDE},
    [WEFT_BENCH_DIGEST] = {"digest", WEFT_BENCH_READ_ONE, 0, WEFT_BENCH_READ_ONE_WIDE},
    [WEFT_BENCH_PACK] = {"pack byte planes", WEFT_BENCH_COPY, 0, WEFT_BENCH_COPY},
    [WEFT_BENCH_UNPACK] = {"unpack byte planes", WEFT_BENCH_COPY, 0, WEFT_BENCH_COPY},
};

/* ---- kernel sets */

/* The sets that can run here; where the environment names one, that one. The host backend tells of them in its detail:
 * "kernels avx2; avx512 lacks f; portable can run". */
static weft_status sets_find(weft_bench_speed *speed)
{
    static const char *const names[] = {"avx512", "avx2", "portable"};
    const char *forced = getenv(KERNELS_VARIABLE);
    weft_device_info device;
    char chosen[48], other[48];
    size_t count;
    weft_status status = weft_devices(&device, 1, &count);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(chosen, sizeof chosen, "kernels %s;", names[i]);
        snprintf(other, sizeof other, "%s can run", names[i]);
        bool runs = strstr(device.detail, chosen) || (strstr(device.detail, other) && !(forced && *forced));
        if (runs)
            snprintf(speed->kernels[speed->sets++], sizeof *speed->kernels, "%s", names[i]);
    }
    if (speed->sets == 0)
        return weft_fail(WEFT_E_MISSING, "no kernel set can run here: %s", device.detail);
    return WEFT_OK;
}

/* ---- stages */

typedef struct speed_run {
    weft_bench_pair *pair;
    weft_bench_speed *speed;
    weft_bench_rig *rigs[WEFT_BENCH_SETS][WEFT_BENCH_TEAMS_MAX];
    weft_bench_bytes file;
} speed_run;

/* Old weights to work on, and none of them in a cache. */
static void work_restore(weft_bench_pair *pair)
{
    memcpy(pair->work, pair->before, pair->bytes);
    weft_bench_cool(pair);
}

static weft_status level_time(weft_bench_pair *pair, weft_bench_rig *rig, const char *level, double *encode_ms,
                              double *decode_ms, double *choose_ms)
{
    weft_bench_cool(pair);
    weft_status status = weft_bench_rig_encode(rig, level, encode_ms, choose_ms);
    work_restore(pair);
    if (status == WEFT_OK)
        status = weft_bench_rig_apply(rig, decode_ms);
    if (status == WEFT_OK && memcmp(pair->work, pair->after, pair->bytes) != 0)
        status = weft_fail(WEFT_E_TARGET, "frames of level %s did not give the new weights", level);
    return status;
}

static weft_status digest_time(const weft_bench_pair *pair, uint32_t threads, double *ms)
{
    const weft_work work = {.size = sizeof work, .threads = threads};
    uint64_t root;
    weft_bench_cool(pair);
    uint64_t begun = weft_clock_ns();
    weft_status status = weft_digest_tensors(pair->layout, pair->pieces_before, pair->count, &work, NULL, &root);
    *ms = weft_clock_ms(begun, weft_clock_ns());
    return status;
}

static weft_status planes_time(speed_run *run, uint32_t threads, double *pack_ms, double *unpack_ms)
{
    weft_update_info diffed;
    weft_apply_info applied;
    weft_status status = weft_bench_diff(run->pair, "full", threads, &run->file, &diffed);
    if (status == WEFT_OK)
        status = weft_bench_rewrite(run->pair, &run->file, threads, &applied);
    if (status == WEFT_OK) {
        *pack_ms = diffed.encode_ms;
        *unpack_ms = applied.decode_ms;
    }
    return status;
}

/* ---- rounds */

static weft_status set_round(speed_run *run, uint32_t set, uint32_t team, double ms[WEFT_BENCH_STAGES])
{
    weft_bench_rig *rig = run->rigs[set][team];
    const uint32_t threads = run->speed->threads[team];
    setenv(KERNELS_VARIABLE, run->speed->kernels[set], 1); /* for what has no rig: read when a backend is opened */
    double choose_ms;
    weft_status status =
        level_time(run->pair, rig, "fast", &ms[WEFT_BENCH_ENCODE_FAST], &ms[WEFT_BENCH_DECODE_FAST], &choose_ms);
    if (status == WEFT_OK)
        status = level_time(run->pair, rig, "tight", &ms[WEFT_BENCH_ENCODE_TIGHT], &ms[WEFT_BENCH_DECODE_TIGHT],
                            &ms[WEFT_BENCH_CHOOSE]);
    if (status == WEFT_OK)
        status = digest_time(run->pair, threads, &ms[WEFT_BENCH_DIGEST]);
    if (status == WEFT_OK && set == 0 && team == 0) /* the same code in every set, and one thread packs */
        status = planes_time(run, threads, &ms[WEFT_BENCH_PACK], &ms[WEFT_BENCH_UNPACK]);
    return status;
}

/* Everything once; the first turn warms memory up and is not kept. */
static weft_status round_run(speed_run *run, uint32_t turn)
{
    weft_bench_speed *speed = run->speed;
    weft_status status = WEFT_OK;
    for (uint32_t team = 0; team < speed->teams && status == WEFT_OK; team++) {
        double yards[WEFT_BENCH_YARDS], stages[WEFT_BENCH_SETS][WEFT_BENCH_STAGES] = {{0}};
        status = weft_bench_yards_time(run->pair, speed->threads[team], yards);
        for (uint32_t set = 0; set < speed->sets && status == WEFT_OK; set++)
            status = set_round(run, set, team, stages[set]);
        for (int yard = 0; yard < WEFT_BENCH_YARDS && turn > 0; yard++)
            speed->yard[team][yard][turn - 1] = yards[yard];
        for (uint32_t set = 0; set < speed->sets && turn > 0; set++)
            for (int stage = 0; stage < WEFT_BENCH_STAGES; stage++)
                speed->stage[set][team][stage][turn - 1] = stages[set][stage];
    }
    return status;
}

static weft_status rigs_open(speed_run *run)
{
    const weft_bench_pair *pair = run->pair;
    const weft_bench_weights weights = {pair->layout, pair->pieces_before, pair->pieces_after, pair->pieces_work,
                                        pair->count};
    weft_status status = WEFT_OK;
    for (uint32_t set = 0; set < run->speed->sets; set++)
        for (uint32_t team = 0; team < run->speed->teams && status == WEFT_OK; team++)
            status = weft_bench_rig_open(&weights, run->speed->kernels[set], run->speed->threads[team],
                                         &run->rigs[set][team]);
    return status;
}

static void rigs_close(speed_run *run)
{
    for (uint32_t set = 0; set < WEFT_BENCH_SETS; set++)
        for (uint32_t team = 0; team < WEFT_BENCH_TEAMS_MAX; team++)
            weft_bench_rig_close(run->rigs[set][team]);
}

static weft_status rounds_run(speed_run *run)
{
    const uint64_t begun = weft_clock_ns();
    const double waited = weft_bench_waited_ms();
    weft_status status = rigs_open(run);
    if (status == WEFT_OK)
        status = weft_bench_pair_compare(run->pair);
    if (status == WEFT_OK)
        status = weft_bench_bytes_open(&run->file, 2 * run->pair->bytes + (1u << 20));
    for (uint32_t turn = 0; turn <= run->speed->rounds && status == WEFT_OK; turn++)
        status = round_run(run, turn);
    run->speed->waited = (weft_bench_waited_ms() - waited) / weft_clock_ms(begun, weft_clock_ns());
    weft_bench_bytes_close(&run->file);
    rigs_close(run);
    return status;
}

weft_status weft_bench_speed_run(weft_bench_pair *pair, const weft_bench_terms *terms, weft_bench_speed *speed)
{
    const char *before = getenv(KERNELS_VARIABLE);
    char *kept = before ? strdup(before) : NULL;
    speed_run run = {.pair = pair, .speed = speed};
    *speed = (weft_bench_speed){.rounds = terms->rounds, .teams = terms->teams};
    memcpy(speed->threads, terms->threads, sizeof speed->threads);
    weft_status status = sets_find(speed);
    if (status == WEFT_OK)
        status = rounds_run(&run);
    if (kept)
        setenv(KERNELS_VARIABLE, kept, 1);
    else
        unsetenv(KERNELS_VARIABLE);
    free(kept);
    return status;
}

/* ---- figures */

double weft_bench_waited_ms(void)
{
    unsigned long long ran, waited = 0; /* nanoseconds of the calling thread */
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (file && fscanf(file, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    if (file)
        fclose(file);
    return (double)waited / 1e6;
}

double weft_bench_ratio(const weft_bench_speed *speed, uint32_t set, uint32_t team, weft_bench_stage stage,
                        weft_bench_yard yard)
{
    const double *yards = speed->yard[team][yard], *took = speed->stage[set][team][stage];
    double ratios[WEFT_BENCH_ROUNDS_MAX];
    for (uint32_t round = 0; round < speed->rounds; round++)
        ratios[round] = took[round] > 0 ? yards[round] / took[round] : 0;
    return weft_bench_median(ratios, speed->rounds);
}

double weft_bench_gain(const weft_bench_speed *speed, uint32_t set, uint32_t team, weft_bench_stage stage)
{
    double ms = weft_bench_median(speed->stage[set][team][stage], speed->rounds);
    return team > 0 && ms > 0 ? weft_bench_median(speed->stage[set][0][stage], speed->rounds) / ms : 0;
}

double weft_bench_gain_bar(const weft_bench_speed *speed, uint32_t set, uint32_t team, weft_bench_stage stage)
{
    const weft_bench_stage_row *row = &weft_bench_stages[stage];
    if (row->bar <= 0 || speed->threads[0] != 1 || speed->threads[team] != 2)
        return 0;
    double yard = weft_bench_median(speed->yard[team][row->yard], speed->rounds);
    double allowed = GAIN_OF_YARD * weft_bench_median(speed->stage[set][0][stage], speed->rounds) / yard;
    return allowed < GAIN ? allowed : GAIN;
}
