/* bench_codec.c - sizes of updates beside their floors and the published methods, and the speed of each stage beside
 * the memory's (bars R1 to R6, S1 to S5, S7, S8). Each line is one JSON object.
 *
 *   bench_codec [--params M] [--density LIST] [--threads LIST] [--rounds N] [OLD NEW] */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/codec/codec.h"

static const char *const levels[] = {"tight", "fast", "pairs", "full"};
#define LEVELS (sizeof levels / sizeof *levels)

typedef struct options {
    weft_bench_terms terms;
    uint64_t params;
    double densities[WEFT_BENCH_CASES_MAX]; /* percent */
    uint32_t cases;
    const char *old, *new; /* NULL: made-up models */
} options;

/* ---- sizes */

static double share(double part, double all)
{
    return all > 0 ? part / all : 0;
}

static void print_planes(const weft_bench_pair *pair, const weft_bench_bytes *file)
{
    uint64_t bits[WEFT_BENCH_PLANES];
    fleet_need(weft_bench_planes_count(file, pair->layout, bits), "planes");
    printf(", \"plane_bits\": {");
    for (int plane = 0; plane < WEFT_BENCH_PLANES; plane++)
        printf("%s\"%s\": %llu", plane ? ", " : "", weft_bench_plane_name((weft_bench_plane)plane),
               (unsigned long long)bits[plane]);
    printf("}");
}

static void print_sizes(const weft_bench_pair *pair)
{
    weft_bench_bytes file;
    weft_update_info info;
    weft_apply_info made;
    fleet_need(weft_bench_bytes_open(&file, 2 * pair->bytes + (1u << 20)), "memory for an update");
    for (size_t level = 0; level < LEVELS; level++) {
        weft_update_header header;
        fleet_need(weft_bench_diff(pair, levels[level], 1, &file, &info), "diff");
        fleet_need(weft_bench_rewrite(pair, &file, 1, &made), "rewrite");
        fleet_need(weft_bench_describe(&file, &header), "describe");
        printf("{\"what\": \"level\", \"level\": \"%s\", \"bytes\": %llu, \"bits_per_change\": %.4f, \"of_dense\": "
               "%.5f, \"frames\": %llu",
               levels[level], (unsigned long long)header.bytes, share(8 * (double)header.bytes, (double)header.changed),
               share((double)header.bytes, (double)header.dense_bytes), (unsigned long long)header.frames);
        if (level < 2)
            print_planes(pair, &file);
        printf("}\n");
    }
    weft_bench_bytes_close(&file);
}

static void print_floor(const weft_bench_floor *f)
{
    printf("{\"what\": \"floor\", \"bits_per_change\": %.9f, \"position\": %.9f, \"direction\": %.9f, \"magnitude\": "
           "%.9f, \"base_free\": %.9f, \"position_base_free\": %.9f, \"magnitude_base_free\": %.9f, \"one_step\": "
           "%.9f}\n",
           f->position + f->direction + f->magnitude, f->position, f->direction, f->magnitude,
           f->position_free + f->direction + f->magnitude_free, f->position_free, f->magnitude_free, f->one_step);
}

/* ---- speeds */

static double gb_s(const weft_bench_pair *pair, double ms)
{
    return ms > 0 ? (double)pair->bytes / ms / 1e6 : 0;
}

static void print_rivals(weft_bench_pair *pair, uint32_t rounds, uint64_t changed)
{
    weft_bench_rival rivals[WEFT_BENCH_RIVALS];
    fleet_need(weft_bench_rivals_run(pair, rounds, rivals), "other methods");
    for (size_t i = 0; i < WEFT_BENCH_RIVALS; i++) {
        const weft_bench_rival *r = &rivals[i];
        if (r->skipped)
            printf("{\"what\": \"method\", \"method\": \"%s\", \"skipped\": \"%s\"}\n", r->name, r->skipped);
        else
            printf("{\"what\": \"method\", \"method\": \"%s\", \"bytes\": %llu, \"bits_per_change\": %.4f, "
                   "\"encode_gb_s\": %.3f, \"decode_gb_s\": %.3f}\n",
                   r->name, (unsigned long long)r->bytes, share(8 * (double)r->bytes, (double)changed),
                   gb_s(pair, r->encode_ms), gb_s(pair, r->decode_ms));
    }
}

static void print_stage(const weft_bench_pair *pair, const weft_bench_speed *s, uint32_t set, uint32_t team,
                        weft_bench_stage stage)
{
    const weft_bench_stage_row *row = &weft_bench_stages[stage];
    double ms = weft_bench_median(s->stage[set][team][stage], s->rounds);
    if (ms <= 0)
        return;
    printf("{\"what\": \"stage\", \"stage\": \"%s\", \"kernels\": \"%s\", \"threads\": %u, \"ms\": %.4f, \"gb_s\": "
           "%.3f, \"yardstick\": \"%s\", \"ratio\": %.4f, \"bar\": %.2f, \"ratio_of_most\": %.4f, \"speedup\": %.3f, "
           "\"speedup_bar\": %.3f}\n",
           row->name, s->kernels[set], s->threads[team], ms, gb_s(pair, ms), weft_bench_yard_name(row->yard),
           weft_bench_ratio(s, set, team, stage, row->yard), row->bar, weft_bench_ratio(s, set, team, stage, row->most),
           weft_bench_gain(s, set, team, stage), weft_bench_gain_bar(s, set, team, stage));
}

static void print_speeds(const weft_bench_pair *pair, const weft_bench_speed *s)
{
    for (uint32_t team = 0; team < s->teams; team++)
        for (int yard = 0; yard < WEFT_BENCH_YARDS; yard++)
            printf("{\"what\": \"yardstick\", \"yardstick\": \"%s\", \"threads\": %u, \"gb_s\": %.3f}\n",
                   weft_bench_yard_name((weft_bench_yard)yard), s->threads[team],
                   gb_s(pair, weft_bench_median(s->yard[team][yard], s->rounds)));
    for (int stage = 0; stage < WEFT_BENCH_STAGES; stage++)
        for (uint32_t set = 0; set < s->sets; set++)
            for (uint32_t team = 0; team < s->teams; team++)
                print_stage(pair, s, set, team, (weft_bench_stage)stage);
}

static void measure(const options *options, uint32_t number)
{
    static weft_bench_speed speed;
    weft_bench_pair pair;
    weft_bench_floor floor;
    if (options->old)
        fleet_need(weft_bench_pair_open(&pair, options->old, options->new), "models");
    else
        fleet_need(weft_bench_pair_make(&pair, options->params, options->densities[number] / 100, 1), "models");
    fleet_need(weft_bench_floor_find(&pair, &floor), "floor");
    fleet_need(weft_bench_speed_run(&pair, &options->terms, &speed), "speed");
    printf("{\"what\": \"weights\", \"weights\": \"%s\", \"elements\": %llu, \"changed\": %llu, \"dense_bytes\": %llu, "
           "\"rounds\": %u, \"waited\": %.4f}\n",
           pair.name, (unsigned long long)floor.elements, (unsigned long long)floor.changed,
           (unsigned long long)pair.bytes, speed.rounds, speed.waited);
    print_floor(&floor);
    print_sizes(&pair);
    print_rivals(&pair, options->terms.rounds, floor.changed);
    print_speeds(&pair, &speed);
    weft_bench_pair_close(&pair);
}

/* ---- options */

/* Reads numbers with commas between them; ends the process where one is none or out of range. */
static uint32_t list_read(const char *text, double least, double most, double *values, uint32_t capacity)
{
    uint32_t count = 0;
    for (char *end = NULL;; text = end + 1) {
        double value = strtod(text, &end);
        if (end == text || (*end && *end != ',') || !(value >= least && value <= most) || count == capacity)
            fleet_fail("a list has no number, one that is out of range, or too many");
        values[count++] = value;
        if (!*end)
            return count;
    }
}

static void option_read(options *options, int option, const char *value)
{
    double numbers[WEFT_BENCH_TEAMS_MAX], one;
    switch (option) {
    case 'p':
        list_read(value, 1e4, 1e12, &one, 1);
        options->params = (uint64_t)one;
        break;
    case 'd':
        options->cases = list_read(value, 0, 100, options->densities, WEFT_BENCH_CASES_MAX);
        break;
    case 't':
        options->terms.teams = list_read(value, 1, 64, numbers, WEFT_BENCH_TEAMS_MAX);
        for (uint32_t i = 0; i < options->terms.teams; i++)
            options->terms.threads[i] = (uint32_t)numbers[i];
        break;
    case 'r':
        list_read(value, 1, WEFT_BENCH_ROUNDS_MAX, &one, 1);
        options->terms.rounds = (uint32_t)one;
        break;
    default:
        fleet_fail("bench_codec [--params M] [--density LIST] [--threads LIST] [--rounds N] [OLD NEW]");
    }
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"params", 1, NULL, 'p'}, {"density", 1, NULL, 'd'}, {"threads", 1, NULL, 't'}, {"rounds", 1, NULL, 'r'}, {0}};
    options options = {.terms = {11, 2, {1, 2}}, .params = 25000000, .densities = {0.1, 1.17, 7.89}, .cases = 3};
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;)
        option_read(&options, option, optarg);
    if (argc - optind != 0 && argc - optind != 2)
        fleet_fail("two models, or none: then models are made up");
    if (optind < argc) {
        options.old = argv[optind];
        options.new = argv[optind + 1];
        options.cases = 1;
    }
    for (uint32_t number = 0; number < options.cases; number++)
        measure(&options, number);
    return 0;
}
