/* bench_crossover.c - which level is held soonest on which link: milliseconds from the call of publish until the peer
 * holds the version, by link rate, density and level, and what `level = auto` makes of it.
 *
 * The link is tcp over loopback, or over --listen and --peer of a namespace, held to the rate by [peer] rate_limit;
 * diff, encoding, decoding and commit are this machine's. Weights and steps are made up and have the law of exponents.
 * Each cell of rate and level is a trainer and a rollout of its own; its densities follow one after the other, two
 * updates each before time is taken, so that what is measured of the link is known. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define LISTS_MAX 16
#define LEVELS    5
#define WARM      3

static const char *const levels[LEVELS] = {"pairs", "fast", "tight", "full", "auto"};

typedef struct plan {
    bench_options options;
    const char *rates[LISTS_MAX];
    double densities[LISTS_MAX]; /* percent */
    int rate_count, density_count;
    char rate[64], level[64]; /* this cell's overrides */
} plan;

typedef struct cell {
    double ms[LISTS_MAX];
    char level[LISTS_MAX][8]; /* that was taken */
} cell;

static double publish(bench_rig *rig)
{
    bench_rig_step(rig);
    bench_sleep_ms(20);
    double begun = bench_now_ms();
    bench_rig_publish_ms(rig, NULL);
    bench_rig_wait(rig, 1);
    return bench_now_ms() - begun;
}

static cell run_cell(plan *plan, const char *rate, const char *level)
{
    cell cell = {{0}, {{0}}};
    bench_rig rig;
    snprintf(plan->rate, sizeof plan->rate, "peers.rate_limit=%s", rate);
    snprintf(plan->level, sizeof plan->level, "peers.level=%s", level);
    bench_rig_open(&rig, &plan->options);
    bench_rig_join_all(&rig);
    for (int d = 0; d < plan->density_count; d++) {
        double ms[BENCH_ROUNDS_MAX];
        weft_peer_info info;
        plan->options.changed = plan->densities[d];
        for (int i = 0; i < WARM; i++)
            publish(&rig);
        for (int i = 0; i < plan->options.rounds; i++)
            ms[i] = publish(&rig);
        cell.ms[d] = bench_median(ms, plan->options.rounds);
        if (fleet_find(rig.trainer, rig.names[0], &info))
            snprintf(cell.level[d], sizeof cell.level[d], "%s", info.level);
    }
    bench_rig_close(&rig);
    return cell;
}

static void print_rate(const plan *plan, const char *rate, const cell cells[LEVELS])
{
    for (int d = 0; d < plan->density_count; d++) {
        int best = 0;
        for (int l = 1; l < LEVELS - 1; l++)
            best = cells[l].ms[d] < cells[best].ms[d] ? l : best;
        printf("| %s | %.2f %% |", rate, plan->densities[d]);
        for (int l = 0; l < LEVELS - 1; l++)
            printf(l == best ? " **%.1f** |" : " %.1f |", cells[l].ms[d]);
        printf(" %.1f (%s) | %.2f |\n", cells[LEVELS - 1].ms[d], cells[LEVELS - 1].level[d],
               cells[LEVELS - 1].ms[d] / cells[best].ms[d]);
    }
}

static int read_rates(const char *text, const char **list)
{
    static char words[256];
    int count = 0;
    snprintf(words, sizeof words, "%s", text);
    for (char *word = strtok(words, ","); word && count < LISTS_MAX; word = strtok(NULL, ","))
        list[count++] = word;
    return count;
}

static int read_numbers(const char *text, double *list)
{
    int count = 0;
    for (char *end; *text && count < LISTS_MAX; text = *end == ',' ? end + 1 : end) {
        list[count++] = strtod(text, &end);
        if (end == text || list[count - 1] <= 0 || list[count - 1] > 100)
            fleet_fail("--densities are percents, as 0.1,1,5");
    }
    return count;
}

/* Takes --rates LIST and --densities LIST out of the options. */
static void read_plan(int argc, char **argv, plan *plan)
{
    char *rest[64] = {argv[0]};
    const char *rates = "100Mbit/s,1Gbit/s,none", *densities = "0.1,1,10";
    int kept = 1;
    *plan = (struct plan){.options = {.provider = "tcp", .mib = 32, .rounds = 5, .seconds = 1}};
    for (int i = 1; i < argc && kept < 62; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--rates") == 0)
            rates = value;
        else if (strcmp(argv[i], "--densities") == 0)
            densities = value;
        else {
            rest[kept++] = argv[i];
            if (i + 1 < argc)
                rest[kept++] = argv[i + 1];
        }
    }
    bench_options_read(kept, rest, &plan->options);
    plan->rate_count = read_rates(rates, plan->rates);
    plan->density_count = read_numbers(densities, plan->densities);
    if (plan->options.set_count + 2 > BENCH_SETS_MAX)
        fleet_fail("too many --set");
    plan->options.sets[plan->options.set_count++] = plan->rate;
    plan->options.sets[plan->options.set_count++] = plan->level;
}

int main(int argc, char **argv)
{
    static plan plan;
    read_plan(argc, argv, &plan);
    printf("publish to held, ms: %llu MiB of made-up bf16, provider %s, medians of %d\n\n",
           (unsigned long long)plan.options.mib, plan.options.provider, plan.options.rounds);
    printf("| link | changed | pairs | fast | tight | full | auto | auto of the best "
           "|\n|---|---|---|---|---|---|---|---|\n");
    for (int r = 0; r < plan.rate_count; r++) {
        cell cells[LEVELS];
        for (int l = 0; l < LEVELS; l++)
            cells[l] = run_cell(&plan, plan.rates[r], levels[l]);
        print_rate(&plan, plan.rates[r], cells);
    }
    return 0;
}
