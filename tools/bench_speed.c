/* bench_speed.c - how fast the stages run, beside the yardsticks, round by round. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "output.h"
#include "status.h"

#define KERNELS_VARIABLE "WEFT_KERNELS"

const weft_bench_stage_row weft_bench_stages[WEFT_BENCH_STAGES] = {
    [WEFT_BENCH_ENCODE_TIGHT] = {"diff + encode tight", WEFT_BENCH_READ_TWO, 0.60},
    [WEFT_BENCH_ENCODE_FAST] = {"diff + encode fast", WEFT_BENCH_READ_TWO, 0.75},
    [WEFT_BENCH_DECODE_TIGHT] = {"decode + apply tight", WEFT_BENCH_READ_ONE, 0.40},
    [WEFT_BENCH_DECODE_FAST] = {"decode + apply fast", WEFT_BENCH_READ_ONE, 0.70},
    [WEFT_BENCH_DIGEST] = {"digest", WEFT_BENCH_READ_ONE, 0},
    [WEFT_BENCH_PACK] = {"pack byte planes", WEFT_BENCH_COPY, 0},
    [WEFT_BENCH_UNPACK] = {"unpack byte planes", WEFT_BENCH_COPY, 0},
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

static weft_status level_time(weft_bench_pair *pair, const char *level, uint32_t threads, weft_bench_bytes *file,
                              double *encode_ms, double *decode_ms)
{
    weft_update_info diffed;
    weft_apply_info applied;
    weft_status status = weft_bench_diff(pair, level, threads, file, &diffed);
    if (status == WEFT_OK)
        status = weft_bench_apply(pair, file, threads, &applied);
    if (status == WEFT_OK) {
        *encode_ms = diffed.diff_ms + diffed.encode_ms;
        *decode_ms = applied.decode_ms + applied.apply_ms;
    }
    return status;
}

static weft_status digest_time(const weft_bench_pair *pair, uint32_t threads, double *ms)
{
    const weft_work work = {.size = sizeof work, .threads = threads};
    uint64_t root;
    double begun = weft_now_ms();
    weft_status status = weft_digest_tensors(pair->layout, pair->pieces_before, pair->count, &work, NULL, &root);
    *ms = weft_now_ms() - begun;
    return status;
}

/* `planes`: byte planes too, which are the same code in every set. */
static weft_status stages_time(weft_bench_pair *pair, uint32_t threads, bool planes, weft_bench_bytes *file,
                               double ms[WEFT_BENCH_STAGES])
{
    weft_status status =
        level_time(pair, "tight", threads, file, &ms[WEFT_BENCH_ENCODE_TIGHT], &ms[WEFT_BENCH_DECODE_TIGHT]);
    if (status == WEFT_OK)
        status = level_time(pair, "fast", threads, file, &ms[WEFT_BENCH_ENCODE_FAST], &ms[WEFT_BENCH_DECODE_FAST]);
    if (status == WEFT_OK)
        status = digest_time(pair, threads, &ms[WEFT_BENCH_DIGEST]);
    if (status == WEFT_OK && planes)
        status = level_time(pair, "full", threads, file, &ms[WEFT_BENCH_PACK], &ms[WEFT_BENCH_UNPACK]);
    return status;
}

/* ---- rounds */

static weft_status set_round(weft_bench_pair *pair, weft_bench_speed *speed, uint32_t team, uint32_t set,
                             uint32_t round, weft_bench_bytes *file)
{
    double ms[WEFT_BENCH_STAGES] = {0};
    setenv(KERNELS_VARIABLE, speed->kernels[set], 1); /* read when a backend is opened; no other thread runs now */
    weft_status status = stages_time(pair, speed->threads[team], set == 0, file, ms);
    for (int stage = 0; stage < WEFT_BENCH_STAGES; stage++)
        speed->stage[set][team][stage][round] = ms[stage];
    return status;
}

static weft_status round_run(weft_bench_pair *pair, weft_bench_speed *speed, uint32_t round, weft_bench_bytes *file)
{
    weft_status status = WEFT_OK;
    for (uint32_t team = 0; team < speed->teams && status == WEFT_OK; team++) {
        double ms[WEFT_BENCH_YARDS];
        status = weft_bench_yards_time(pair, speed->threads[team], ms);
        for (int yard = 0; yard < WEFT_BENCH_YARDS && status == WEFT_OK; yard++)
            speed->yard[team][yard][round] = ms[yard];
        for (uint32_t set = 0; set < speed->sets && status == WEFT_OK; set++)
            status = set_round(pair, speed, team, set, round, file);
    }
    return status;
}

weft_status weft_bench_speed_run(weft_bench_pair *pair, const weft_bench_terms *terms, weft_bench_speed *speed)
{
    const char *before = getenv(KERNELS_VARIABLE);
    char *kept = before ? strdup(before) : NULL;
    weft_bench_bytes file;
    *speed = (weft_bench_speed){.rounds = terms->rounds, .teams = terms->teams};
    memcpy(speed->threads, terms->threads, sizeof speed->threads);
    weft_status status = sets_find(speed);
    if (status == WEFT_OK)
        status = weft_bench_bytes_open(&file, 2 * pair->bytes + (1u << 20));
    if (status == WEFT_OK) {
        for (uint32_t round = 0; round < speed->rounds && status == WEFT_OK; round++)
            status = round_run(pair, speed, round, &file);
        weft_bench_bytes_close(&file);
    }
    if (kept)
        setenv(KERNELS_VARIABLE, kept, 1);
    else
        unsetenv(KERNELS_VARIABLE);
    free(kept);
    return status;
}

/* ---- figures */

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double weft_bench_median(const double *values, uint32_t count)
{
    double sorted[WEFT_BENCH_ROUNDS_MAX];
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, by_value);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

double weft_bench_ratio(const weft_bench_speed *speed, uint32_t set, uint32_t team, weft_bench_stage stage)
{
    const double *yard = speed->yard[team][weft_bench_stages[stage].yard], *took = speed->stage[set][team][stage];
    double ratios[WEFT_BENCH_ROUNDS_MAX];
    for (uint32_t round = 0; round < speed->rounds; round++)
        ratios[round] = took[round] > 0 ? yard[round] / took[round] : 0;
    return weft_bench_median(ratios, speed->rounds);
}
