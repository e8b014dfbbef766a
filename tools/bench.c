/* bench.c - weft bench: sizes and speeds beside floors, yardsticks and other methods. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "bench.h"
#include "bench_fabric.h"
#include "bench_fleet.h"
#include "bench_gpu.h"
#include "output.h"
#include "verbs.h"

#define SEED UINT64_C(1)

typedef struct plan {
    const weft_args *args;
    weft_bench_terms terms;
    double densities[WEFT_BENCH_CASES_MAX]; /* percent; used without files */
    uint32_t cases;
} plan;

/* ---- one case */

static weft_status sizes_find(weft_bench_case *c)
{
    static const char *const levels[WEFT_BENCH_LEVELS] = {[WEFT_BENCH_TIGHT] = "tight",
                                                          [WEFT_BENCH_FAST] = "fast",
                                                          [WEFT_BENCH_PAIRS] = "pairs",
                                                          [WEFT_BENCH_FULL] = "full"};
    weft_bench_bytes file;
    weft_update_info info;
    weft_apply_info made;
    weft_status status = weft_bench_bytes_open(&file, 2 * c->pair.bytes + (1u << 20));
    for (int level = 0; level < WEFT_BENCH_LEVELS && status == WEFT_OK; level++) {
        weft_bench_size *size = &c->sizes[level];
        size->level = levels[level];
        status = weft_bench_diff(&c->pair, size->level, 1, &file, &info);
        if (status == WEFT_OK)
            status = weft_bench_rewrite(&c->pair, &file, 1, &made);
        if (status == WEFT_OK)
            status = weft_bench_describe(&file, &size->header);
        if (status == WEFT_OK && level <= WEFT_BENCH_FAST)
            status = weft_bench_planes_count(&file, c->pair.layout, size->bits);
    }
    weft_bench_bytes_close(&file);
    return status;
}

static weft_status case_run(weft_bench_case *c, const weft_bench_terms *terms)
{
    weft_status status = weft_bench_floor_find(&c->pair, &c->floor);
    if (status == WEFT_OK)
        status = sizes_find(c);
    if (status == WEFT_OK)
        status = weft_bench_rivals_run(&c->pair, terms->rounds, c->rivals);
    return status == WEFT_OK ? weft_bench_speed_run(&c->pair, terms, &c->speed) : status;
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
    weft_bench_case *c = weft_mem_take(1, sizeof *c);
    weft_status status = c ? pair_open(plan, number, &c->pair) : weft_fail(WEFT_E_MEMORY, "no memory for figures");
    if (status == WEFT_OK) {
        phase = WEFT_TOOL_WORK;
        status = case_run(c, &plan->terms);
    }
    int code = status == WEFT_OK ? WEFT_EXIT_DONE : weft_output_error(plan->args->json, phase, status);
    if (status == WEFT_OK)
        (plan->args->json ? weft_bench_print_json : weft_bench_print)(c);
    if (c)
        weft_bench_pair_close(&c->pair);
    weft_mem_give(c);
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
    uint32_t words;   /* behind its name, at most */
    int (*run)(const weft_args *args);
} bench;

static const bench benches[] = {
    {"codec", WEFT_TAKES(JSON) | WEFT_TAKES(PARAMS) | WEFT_TAKES(DENSITY) | WEFT_TAKES(TEAMS) | WEFT_TAKES(RUNS), 2,
     codec_run},
    {"fleet",
     WEFT_TAKES(JSON) | WEFT_TAKES(PEERS) | WEFT_TAKES(PROCESSES) | WEFT_TAKES(PARAMS) | WEFT_TAKES(CHANGED) |
         WEFT_TAKES(UPDATES),
     0, weft_bench_fleet},
    {"fabric",
     WEFT_TAKES(JSON) | WEFT_TAKES(SET) | WEFT_TAKES(PEER) | WEFT_TAKES(SERVE) | WEFT_TAKES(JOIN) |
         WEFT_TAKES(MEGABYTES) | WEFT_TAKES(RUNS),
     1, weft_bench_fabric},
    {"gpu", WEFT_TAKES(JSON) | WEFT_TAKES(PARAMS) | WEFT_TAKES(CHANGED) | WEFT_TAKES(MEGABYTES) | WEFT_TAKES(RUNS), 1,
     weft_bench_gpu_verb},
};

/* What another bench would use means that another one is meant. */
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
    return weft_output_error(args->json, WEFT_TOOL_INPUT,
                             weft_fail_quiet(WEFT_E_ARGUMENT,
                                             "weft bench has no '%s'; it has codec, fleet, fabric and gpu",
                                             args->words[0]));
}
