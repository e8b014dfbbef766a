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

#include "fleet.h"
#include "model/synth.h"

#define LISTS_MAX   16
#define LEVELS      5
#define WARM        3
#define DEADLINE_MS 120000
#define SEED        7

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

static weft_model *open_model(const plan *plan)
{
    weft_model *model;
    bench_need(weft_synth_model(plan->options.mib << 19, SEED, &model), "make a model");
    return model;
}

static void run_rollout(int in, int out, const void *user)
{
    const plan *plan = user;
    char listen[64];
    uint64_t count;
    weft_session *rollout;
    (void)out;
    if (!bench_receive(in, listen, sizeof listen))
        return;
    if (plan->options.peer_count)
        bench_netns_enter(plan->options.peers[0]);
    weft_model *model = open_model(plan);
    weft_site *site = bench_site(&plan->options, listen, "60s");
    const weft_options options = {.size = sizeof options, .tells_away = 1}; /* its end is this rollout's */
    bench_need(weft_rollout_open(site, "a", weft_model_layout(model), &options, &rollout), "open a rollout");
    const weft_piece *pieces = weft_model_pieces(model, &count);
    bench_need(weft_bind(rollout, pieces, count, NULL, 0, 0), "bind a rollout");
    for (;;) {
        weft_staged_info staged = {.size = sizeof staged};
        weft_status status = weft_staged(rollout, DEADLINE_MS, &staged);
        if (status == WEFT_E_PEER_LOST || status == WEFT_E_UNREACHABLE)
            return;
        if (status == WEFT_OK)
            weft_commit(rollout, staged.target.number, NULL, 0, NULL);
    }
}

static double publish(weft_session *trainer, weft_model *model, double percent, uint64_t version)
{
    static const char *const names[] = {"a"};
    bench_need(weft_synth_step(model, percent / 100, SEED + version, NULL), "a step");
    bench_sleep_ms(20);
    double begun = bench_now_ms();
    bench_need(weft_publish(trainer, version, NULL, NULL, NULL), "publish");
    bench_need(weft_wait(trainer, version, names, 1, DEADLINE_MS), "wait for the rollout");
    return bench_now_ms() - begun;
}

static void measure(const plan *plan, weft_session *trainer, weft_model *model, cell *cell)
{
    uint64_t version = 0;
    for (int d = 0; d < plan->density_count; d++) {
        double ms[BENCH_ROUNDS_MAX];
        weft_peer_info info = {.size = sizeof info};
        size_t count;
        for (int i = 0; i < WARM; i++)
            publish(trainer, model, plan->densities[d], ++version);
        for (int i = 0; i < plan->options.rounds; i++)
            ms[i] = publish(trainer, model, plan->densities[d], ++version);
        cell->ms[d] = bench_median(ms, plan->options.rounds);
        bench_need(weft_peers(trainer, &info, 1, &count), "peers");
        snprintf(cell->level[d], sizeof cell->level[d], "%s", info.level);
    }
}

static void run_trainer(int in, int out, const void *user)
{
    const plan *plan = user;
    cell cell = {{0}, {{0}}};
    uint64_t count;
    weft_session *trainer;
    weft_stats_info stats = {.size = sizeof stats};
    weft_model *model = open_model(plan);
    weft_site *site = bench_site(&plan->options, NULL, "60s");
    (void)in;
    bench_need(weft_trainer_open(site, weft_model_layout(model), NULL, &trainer), "open the trainer");
    const weft_piece *pieces = weft_model_pieces(model, &count);
    bench_need(weft_bind(trainer, pieces, count, NULL, 0, 0), "bind the trainer");
    bench_need(weft_stats(trainer, &stats), "stats");
    bench_send(out, stats.listen, sizeof stats.listen);
    measure(plan, trainer, model, &cell);
    bench_send(out, &cell, sizeof cell);
    weft_close(trainer);
}

/* Both ends are processes: this one has no threads, and forks again for the next cell. */
static cell run_cell(plan *plan, const char *rate, const char *level)
{
    bench_child rollout, trainer;
    cell cell;
    char listen[64];
    snprintf(plan->rate, sizeof plan->rate, "peers.rate_limit=%s", rate);
    snprintf(plan->level, sizeof plan->level, "peers.level=%s", level);
    bench_child_open(&rollout, run_rollout, plan);
    bench_child_open(&trainer, run_trainer, plan);
    if (!bench_receive(trainer.from, listen, sizeof listen))
        bench_die("the trainer is gone");
    bench_send(rollout.to, listen, sizeof listen);
    if (!bench_receive(trainer.from, &cell, sizeof cell))
        bench_die("the trainer is gone");
    bench_child_close(&trainer);
    bench_child_close(&rollout);
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
            bench_die("--densities are percents, as 0.1,1,5");
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
        bench_die("too many --set");
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
