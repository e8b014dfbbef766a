/* bench.c - weft bench: sizes and speeds of updates beside a copy of the same bytes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "model/bench_pair.h"
#include "tools/bench/bench_fabric.h"
#include "tools/bench/bench_gpu.h"
#include "tools/output.h"
#include "tools/verbs.h"

#define SEED   UINT64_C(1)
#define LEVELS 4u

static const char *const levels[LEVELS] = {"tight", "fast", "pairs", "full"};

typedef struct plan {
    const weft_args *args;
    weft_bench_terms terms;
    double densities[WEFT_BENCH_CASES_MAX]; /* percent; used without files */
    uint32_t cases;
} plan;

/* ---- one case */

typedef struct speed {
    double diff_ms[WEFT_BENCH_ROUNDS_MAX], apply_ms[WEFT_BENCH_ROUNDS_MAX];
} speed;

typedef struct figures {
    weft_bench_pair pair;
    const weft_bench_terms *terms;
    double copy_ms[WEFT_BENCH_ROUNDS_MAX];
    weft_update_header headers[LEVELS];
    speed speeds[LEVELS][WEFT_BENCH_TEAMS_MAX];
} figures;

static weft_status level_run(figures *f, uint32_t level, uint32_t team, uint32_t round, weft_bench_bytes *file)
{
    speed *speed = &f->speeds[level][team];
    const uint32_t threads = f->terms->threads[team];
    weft_update_info info;
    weft_apply_info made;
    double begun = weft_now_ms();
    weft_status status = weft_bench_diff(&f->pair, levels[level], threads, file, &info);
    speed->diff_ms[round] = weft_now_ms() - begun;
    begun = weft_now_ms();
    if (status == WEFT_OK)
        status = weft_bench_rewrite(&f->pair, file, threads, &made);
    speed->apply_ms[round] = weft_now_ms() - begun;
    return status == WEFT_OK ? weft_bench_describe(file, &f->headers[level]) : status;
}

/* The first turn warms memory up, and the next one writes over its figures. */
static weft_status rounds_run(figures *f, weft_bench_bytes *file)
{
    weft_status status = WEFT_OK;
    for (uint32_t turn = 0; turn <= f->terms->rounds && status == WEFT_OK; turn++) {
        const uint32_t round = turn ? turn - 1 : 0;
        const double begun = weft_now_ms();
        memcpy(f->pair.work, f->pair.before, f->pair.bytes);
        f->copy_ms[round] = weft_now_ms() - begun;
        for (uint32_t at = 0; at < LEVELS * f->terms->teams && status == WEFT_OK; at++)
            status = level_run(f, at / f->terms->teams, at % f->terms->teams, round, file);
    }
    return status;
}

static weft_status case_run(figures *f)
{
    weft_bench_bytes file;
    weft_status status = weft_bench_bytes_open(&file, 2 * f->pair.bytes + (1u << 20));
    if (status == WEFT_OK)
        status = rounds_run(f, &file);
    weft_bench_bytes_close(&file);
    return status;
}

/* ---- what is printed */

static double share(double part, double all)
{
    return all > 0 ? part / all : 0;
}

static double gb_s(const figures *f, const double *ms)
{
    return share((double)f->pair.layout->bytes / 1e6, weft_bench_median(ms, f->terms->rounds));
}

static double of_copy(const figures *f, const double *ms)
{
    double ratios[WEFT_BENCH_ROUNDS_MAX];
    for (uint32_t round = 0; round < f->terms->rounds; round++)
        ratios[round] = share(f->copy_ms[round], ms[round]);
    return weft_bench_median(ratios, f->terms->rounds);
}

static void print_level(const figures *f, uint32_t level)
{
    const weft_update_header *header = &f->headers[level];
    printf("  %-6s %14" PRIu64 " %14.3f %11.1f %8" PRIu64, levels[level], header->bytes,
           share(8 * (double)header->bytes, (double)header->changed),
           share((double)f->pair.layout->bytes, (double)header->bytes), header->frames);
    for (uint32_t team = 0; team < f->terms->teams; team++) {
        const speed *speed = &f->speeds[level][team];
        printf("%*s %7u %12.2f %9.2f %12.2f %9.2f\n", team ? 57 : 0, "", f->terms->threads[team],
               gb_s(f, speed->diff_ms), of_copy(f, speed->diff_ms), gb_s(f, speed->apply_ms),
               of_copy(f, speed->apply_ms));
    }
}

static void print_lines(const figures *f)
{
    const weft_layout *layout = f->pair.layout;
    const uint64_t changed = f->headers[0].changed;
    printf("%s: %.2f M elements in %" PRIu64 " tensors, %" PRIu64 " changed (%.4f %%)\n", f->pair.name,
           (double)layout->elements / 1e6, layout->count, changed,
           100 * share((double)changed, (double)layout->elements));
    printf("  memcpy: %.2f GB/s, one thread (medians of %u rounds)\n", gb_s(f, f->copy_ms), f->terms->rounds);
    printf("  %-6s %14s %14s %11s %8s %7s %12s %9s %12s %9s\n", "level", "bytes", "bits a change", "times less",
           "frames", "threads", "diff GB/s", "of memcpy", "apply GB/s", "of memcpy");
    for (uint32_t level = 0; level < LEVELS; level++)
        print_level(f, level);
    printf("\n");
    fflush(stdout);
}

static json_t *json_speeds(const figures *f, uint32_t level)
{
    json_t *list = json_array();
    for (uint32_t team = 0; team < f->terms->teams; team++) {
        const speed *speed = &f->speeds[level][team];
        json_array_append_new(list, json_pack("{s:i,s:f,s:f,s:f,s:f}", "threads", (int)f->terms->threads[team],
                                              "diff_gb_s", gb_s(f, speed->diff_ms), "diff_of_memcpy",
                                              of_copy(f, speed->diff_ms), "apply_gb_s", gb_s(f, speed->apply_ms),
                                              "apply_of_memcpy", of_copy(f, speed->apply_ms)));
    }
    return list;
}

static void print_json(const figures *f)
{
    const weft_layout *layout = f->pair.layout;
    json_t *list = json_array();
    for (uint32_t level = 0; level < LEVELS; level++) {
        const weft_update_header *header = &f->headers[level];
        json_array_append_new(list,
                              json_pack("{s:s,s:o,s:o,s:o,s:o,s:o}", "level", levels[level], "bytes",
                                        weft_json_count(header->bytes), "frame_bytes",
                                        weft_json_count(header->frame_bytes), "frames", weft_json_count(header->frames),
                                        "bits_per_change", weft_json_bits_per_change(header->bytes, header->changed),
                                        "speeds", json_speeds(f, level)));
    }
    weft_output_object(json_pack("{s:s,s:o,s:o,s:o,s:o,s:i,s:f,s:o}", "weights", f->pair.name, "elements",
                                 weft_json_count(layout->elements), "tensors", weft_json_count(layout->count),
                                 "changed", weft_json_count(f->headers[0].changed), "dense_bytes",
                                 weft_json_count(layout->bytes), "runs", (int)f->terms->rounds, "memcpy_gb_s",
                                 gb_s(f, f->copy_ms), "levels", list));
}

static weft_status pair_open(const plan *plan, uint32_t number, weft_bench_pair *pair)
{
    const weft_args *args = plan->args;
    if (args->words[1])
        return weft_bench_pair_open(pair, args->words[1], args->words[2]);
    return weft_bench_pair_make(pair, args->params, plan->densities[number] / 100, SEED);
}

static int case_measure(const plan *plan, uint32_t number)
{
    weft_tool_phase phase = WEFT_TOOL_INPUT;
    figures *f = weft_mem_take(1, sizeof *f);
    weft_status status = f ? pair_open(plan, number, &f->pair) : weft_fail(WEFT_E_MEMORY, "no memory for figures");
    if (status == WEFT_OK) {
        phase = WEFT_TOOL_WORK;
        f->terms = &plan->terms;
        status = case_run(f);
    }
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(plan->args->json, phase, status);
    if (status == WEFT_OK)
        (plan->args->json ? print_json : print_lines)(f);
    if (f)
        weft_bench_pair_close(&f->pair);
    weft_mem_give(f);
    return code;
}

/* ---- the command line */

/* Reads numbers with commas between them, multiples of `step` unless that is 0; returns how many, 0 if one is none or
 * out of range. */
static uint32_t list_read(const char *text, double step, double least, double most, double *values, uint32_t capacity)
{
    uint32_t count = 0;
    for (char *end = NULL;; text = end + 1) {
        double value = strtod(text, &end);
        if (end == text || (*end && *end != ',') || !(value >= least && value <= most) || count == capacity)
            return 0;
        if (step > 0 && fmod(value, step) != 0)
            return 0;
        values[count++] = value;
        if (!*end)
            return count;
    }
}

static weft_status plan_make(plan *plan)
{
    const weft_args *args = plan->args;
    double threads[WEFT_BENCH_TEAMS_MAX];
    if (args->words[1] && !args->words[2])
        return weft_fail_quiet(WEFT_E_ARGUMENT,
                               "weft bench codec takes two models, or none: then it makes two models up");
    if (args->words[1] && (args->given & (WEFT_TAKES(DENSITY) | WEFT_TAKES(PARAMS))))
        return weft_fail_quiet(
            WEFT_E_ARGUMENT,
            "--density and --params are for made-up models; leave them out, or leave the two models out");
    if (args->runs < 1 || args->runs > WEFT_BENCH_ROUNDS_MAX)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--runs must be 1 to %u", WEFT_BENCH_ROUNDS_MAX);
    plan->terms.rounds = (uint32_t)args->runs;
    plan->terms.teams = list_read(args->teams, 1, 1, 64, threads, WEFT_BENCH_TEAMS_MAX);
    if (plan->terms.teams == 0)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--threads '%s' is not one to %u numbers from 1 to 64, as in 1,2",
                               args->teams, WEFT_BENCH_TEAMS_MAX);
    for (uint32_t i = 0; i < plan->terms.teams; i++)
        plan->terms.threads[i] = (uint32_t)threads[i];
    plan->cases = list_read(args->density, 0, 0, 100, plan->densities, WEFT_BENCH_CASES_MAX);
    if (plan->cases == 0)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--density '%s' is not one to %u percentages, as in 0.1,1.2,8",
                               args->density, WEFT_BENCH_CASES_MAX);
    if (args->words[1])
        plan->cases = 1;
    return WEFT_OK;
}

static int codec_run(const weft_args *args)
{
    plan plan = {.args = args};
    weft_status status = plan_make(&plan);
    if (status != WEFT_OK)
        return weft_output_error(args->json, WEFT_TOOL_INPUT, status);
    int code = WEFT_EXIT_DONE;
    for (uint32_t number = 0; number < plan.cases && code == WEFT_EXIT_DONE; number++)
        code = case_measure(&plan, number);
    return code;
}

/* ---- which one */

typedef struct bench {
    const char *name;
    uint64_t options; /* of those that the verb takes */
    uint32_t words;   /* after its name, at most */
    int (*run)(const weft_args *args);
} bench;

static const bench benches[] = {
    {"codec", WEFT_TAKES(JSON) | WEFT_TAKES(PARAMS) | WEFT_TAKES(DENSITY) | WEFT_TAKES(TEAMS) | WEFT_TAKES(RUNS), 2,
     codec_run},
    {"fabric",
     WEFT_TAKES(JSON) | WEFT_TAKES(SET) | WEFT_TAKES(PEER) | WEFT_TAKES(SERVE) | WEFT_TAKES(JOIN) |
         WEFT_TAKES(MEGABYTES) | WEFT_TAKES(RUNS),
     1, weft_bench_fabric},
    {"gpu", WEFT_TAKES(JSON) | WEFT_TAKES(PARAMS) | WEFT_TAKES(CHANGED) | WEFT_TAKES(MEGABYTES) | WEFT_TAKES(RUNS), 1,
     weft_bench_gpu_verb},
};

/* An option or a word of another bench means that another one is meant. */
static weft_status asked_check(const bench *asked, const weft_args *args)
{
    const uint64_t foreign = args->given & ~asked->options;
    const char *word = args->words[asked->words + 1];
    if (foreign)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "weft bench %s takes no %s; see weft bench --help", asked->name,
                               weft_args_name((weft_option)__builtin_ctzll(foreign)));
    if (word)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "'%s' is one word too many for weft bench %s; see weft bench --help",
                               word, asked->name);
    return WEFT_OK;
}

int weft_verb_bench(const weft_args *args)
{
    for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
        if (strcmp(args->words[0], benches[i].name) != 0)
            continue;
        weft_status status = asked_check(&benches[i], args);
        return status == WEFT_OK ? benches[i].run(args) : weft_output_error(args->json, WEFT_TOOL_INPUT, status);
    }
    return weft_output_error(
        args->json, WEFT_TOOL_INPUT,
        weft_fail_quiet(WEFT_E_ARGUMENT, "weft bench has no '%s'; it has codec, fabric and gpu", args->words[0]));
}
