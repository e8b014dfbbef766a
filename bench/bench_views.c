/* bench_views.c - what views cost their source: CPU of weft_publish with ranks of three view families (4, 2 and 1 of
 * the model by rows) beside that with ranks of one family, in the same rounds. And what parts cost: CPU of four sources
 * of a quarter each beside one source of all, without ranks. Prints a JSON object.
 *
 *   bench_views [--params M] [--updates K]
 *
 * All ends run in one thread over the provider loop, on a clock of their own. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "model/synth.h"
#include "rig.h"

#define CHANGED    0.0117
#define PARTS      4u
#define RANKS      7u
#define ROUNDS_MAX 20000u
#define ROUND_NS   (100 * UINT64_C(1000))

/* A trainer and its ranks. */
typedef struct source {
    weft_session *trainer;
    weft_session *ranks[RANKS];
    uint8_t *images[RANKS];
    uint32_t count;
} source;

static uint64_t now;

static uint64_t now_ns(void *user)
{
    (void)user;
    return now;
}

static void pass(void *user, uint64_t ns)
{
    (void)user;
    now += ns < ROUND_NS ? ns : ROUND_NS;
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static weft_site *site_of(const char *listen)
{
    static const char *const keys[] = {"trainer.journal=256MiB", "session.progress=manual", "cut.rows.tensors=*",
                                       "cut.rows.rows=4", "trainer.max_peers=16"};
    bench_options options = {.provider = "loop"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        options.sets[options.set_count++] = keys[i];
    return bench_site(&options, listen, "60s");
}

/* ---- one rank: `take` of PARTS parts from `first` on, of each tensor */

static uint64_t rows_of(const weft_tensor *tensor, uint64_t *columns)
{
    uint64_t rows = 1;
    for (uint32_t d = 0; d + 1 < tensor->rank; d++)
        rows *= tensor->shape[d];
    *columns = tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
    return rows;
}

/* A vector is cut by its elements, as the rule by rows has it. */
static weft_slice slice_of(const weft_layout *layout, uint64_t tensor, uint32_t first, uint32_t take)
{
    weft_tensor t;
    uint64_t columns;
    bench_need(weft_layout_tensor(layout, tensor, &t), "a tensor");
    const uint64_t rows = rows_of(&t, &columns);
    return rows > 1 ? (weft_slice){tensor, rows / PARTS * first, rows / PARTS * take, 0, columns}
                    : (weft_slice){tensor, 0, 1, columns / PARTS * first, columns / PARTS * take};
}

static const uint8_t *data_of(const weft_layout *layout, const weft_piece *whole, const weft_slice *slice)
{
    weft_tensor tensor;
    uint64_t columns;
    bench_need(weft_layout_tensor(layout, slice->tensor, &tensor), "a tensor");
    const uint64_t elements = rows_of(&tensor, &columns) * columns;
    const uint64_t width = weft_layout_tensor_bytes(layout, slice->tensor) / elements;
    return (const uint8_t *)whole[slice->tensor].data + (slice->row * columns + slice->column) * width;
}

static void rank_open(const weft_model *model, const weft_site *site, source *s, uint32_t first, uint32_t take)
{
    uint64_t count, at = 0, columns;
    const weft_layout *layout = weft_model_layout(model);
    const weft_piece *from = weft_model_pieces(model, &count);
    weft_slice *slices = calloc(count, sizeof *slices);
    weft_block *blocks = calloc(count, sizeof *blocks);
    uint8_t *image = malloc(weft_layout_bytes(layout) + 64 * count);
    char name[16];
    if (!slices || !blocks || !image)
        bench_die("no memory for a rank");
    for (uint64_t t = 0; t < count; t++) {
        weft_tensor tensor;
        bench_need(weft_layout_tensor(layout, t, &tensor), "a tensor");
        const uint64_t elements = rows_of(&tensor, &columns) * columns, all = weft_layout_tensor_bytes(layout, t);
        slices[t] = slice_of(layout, t, first, take);
        const uint64_t bytes = slices[t].rows * slices[t].columns * (all / elements);
        blocks[t] = (weft_block){.slice = slices[t], .data = image + at};
        memcpy(image + at, data_of(layout, from, &slices[t]), bytes);
        at += (bytes + 63) & ~UINT64_C(63);
    }
    weft_options options = {.size = sizeof options, .slices = take < PARTS ? slices : NULL, .slice_count = count};
    snprintf(name, sizeof name, "p%u", s->count);
    bench_need(weft_rollout_open(site, name, layout, &options, &s->ranks[s->count]), "open a rank");
    bench_need(weft_bind_blocks(s->ranks[s->count], blocks, count, NULL, 0, 0), "bind a rank");
    s->images[s->count++] = image;
    free(blocks);
    free(slices);
}

/* ---- a source and its ranks */

static void source_open(const weft_model *model, uint32_t families, source *s)
{
    weft_stats_info stats = {.size = sizeof stats};
    uint64_t count;
    weft_site *site = site_of(NULL);
    *s = (source){0};
    bench_need(weft_trainer_open(site, weft_model_layout(model), NULL, &s->trainer), "open the trainer");
    const weft_piece *pieces = weft_model_pieces(model, &count);
    bench_need(weft_bind(s->trainer, pieces, count, NULL, 0, 0), "bind the trainer");
    bench_need(weft_stats(s->trainer, &stats), "stats");
    weft_site_free(site);
    site = site_of(stats.listen);
    for (uint32_t family = 0, take = 1; family < families; family++, take *= 2)
        for (uint32_t first = 0; first < PARTS; first += take)
            rank_open(model, site, s, first, take);
    weft_site_free(site);
}

static void step(weft_session *session)
{
    weft_event event = {.size = sizeof event};
    bench_need(weft_progress(session, 0), "a step");
    while (weft_events(session, &event) == WEFT_OK)
        ;
}

static bool all_hold(const source *s, uint64_t version)
{
    weft_stats_info stats = {.size = sizeof stats};
    return weft_stats(s->trainer, &stats) == WEFT_OK && stats.peers_joined >= s->count &&
           weft_wait(s->trainer, version, NULL, 0, 0) == WEFT_OK;
}

static void settle(source *s, uint64_t version)
{
    for (uint32_t round = 0; !all_hold(s, version); round++, now += ROUND_NS) {
        if (round == ROUNDS_MAX)
            bench_die("a version is not held by all");
        step(s->trainer);
        for (uint32_t i = 0; i < s->count; i++) {
            weft_staged_info info = {.size = sizeof info};
            step(s->ranks[i]);
            if (weft_staged(s->ranks[i], 0, &info) == WEFT_OK)
                bench_need(weft_commit(s->ranks[i], info.target.number, NULL, 0, NULL), "commit");
        }
    }
}

static double publish_ms(source *s, uint64_t version)
{
    const double begun = cpu_ms();
    bench_need(weft_publish(s->trainer, version, NULL, NULL, NULL), "publish");
    const double spent = cpu_ms() - begun;
    settle(s, version);
    return spent;
}

static void source_close(source *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        weft_close(s->ranks[i]);
        free(s->images[i]);
    }
    weft_close(s->trainer);
}

/* ---- sources of parts, without ranks */

/* Opens a trainer of a part of the model, where the model lies. */
static weft_session *part_open(const weft_model *model, const weft_site *site, uint32_t first, uint32_t take)
{
    uint64_t count;
    const weft_layout *layout = weft_model_layout(model);
    const weft_piece *whole = weft_model_pieces(model, &count);
    weft_slice *slices = calloc(count, sizeof *slices);
    weft_block *blocks = calloc(count, sizeof *blocks);
    weft_session *trainer;
    if (!slices || !blocks)
        bench_die("no memory for a source");
    for (uint64_t t = 0; t < count; t++) {
        slices[t] = slice_of(layout, t, first, take);
        blocks[t] = (weft_block){.slice = slices[t], .data = (void *)(uintptr_t)data_of(layout, whole, &slices[t])};
    }
    const weft_options options = {.size = sizeof options, .slices = slices, .slice_count = count, .run = 1};
    bench_need(weft_trainer_open(site, layout, &options, &trainer), "open a source");
    bench_need(weft_bind_blocks(trainer, blocks, count, NULL, 0, 0), "bind a source");
    free(blocks);
    free(slices);
    return trainer;
}

static double parts_publish(weft_session *const *parts, uint32_t count, uint64_t version)
{
    const double begun = cpu_ms();
    for (uint32_t i = 0; i < count; i++)
        bench_need(weft_publish(parts[i], version, NULL, NULL, NULL), "publish a part");
    return cpu_ms() - begun;
}

/* Measures one source of all and four of a quarter each, in turn. */
static void parts_measure(weft_model *model, unsigned long updates, double spent[2][BENCH_ROUNDS_MAX])
{
    weft_session *all, *parts[PARTS];
    weft_site *site = site_of(NULL);
    all = part_open(model, site, 0, PARTS);
    for (uint32_t i = 0; i < PARTS; i++)
        parts[i] = part_open(model, site, i, 1);
    weft_site_free(site);
    for (uint64_t version = 1; version <= updates + 1; version++) {
        const uint64_t at = version > 1 ? version - 2 : 0;
        bench_need(weft_synth_step(model, CHANGED, version, NULL), "make a step");
        for (uint32_t i = 0; i < 2; i++)
            if ((version + i) % 2)
                spent[0][at] = parts_publish(&all, 1, version);
            else
                spent[1][at] = parts_publish(parts, PARTS, version);
    }
    for (uint32_t i = 0; i < PARTS; i++)
        weft_close(parts[i]);
    weft_close(all);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"params", 1, NULL, 'p'}, {"updates", 1, NULL, 'u'}, {0}};
    double spent[2][BENCH_ROUNDS_MAX];
    unsigned long params = 16000000, updates = 15;
    source sources[2];
    weft_model *model;
    const weft_clock clock = {now_ns, pass, NULL};
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'p')
            params = strtoul(optarg, NULL, 10);
        else if (option == 'u')
            updates = strtoul(optarg, NULL, 10);
        else
            bench_die("usage: bench_views [--params M] [--updates K]");
    }
    if (updates == 0 || updates > BENCH_ROUNDS_MAX)
        bench_die("too many updates, or none");
    now = 1;
    weft_clock_own = &clock;
    bench_need(weft_synth_model(params, 1, &model), "make a model");
    for (uint32_t i = 0; i < 2; i++) {
        source_open(model, i ? 3 : 1, &sources[i]);
        settle(&sources[i], 0);
    }
    for (uint64_t version = 1; version <= updates + 1; version++) {
        bench_need(weft_synth_step(model, CHANGED, version, NULL), "make a step");
        for (uint32_t i = 0; i < 2; i++) { /* the first of all warms up, and the next writes over it */
            const uint32_t which = (uint32_t)((version + i) % 2);
            spent[which][version > 1 ? version - 2 : 0] = publish_ms(&sources[which], version);
        }
    }
    const double one = bench_median(spent[0], (int)updates), three = bench_median(spent[1], (int)updates);
    for (uint32_t i = 0; i < 2; i++)
        source_close(&sources[i]);
    parts_measure(model, updates, spent);
    const double whole = bench_median(spent[0], (int)updates), parts = bench_median(spent[1], (int)updates);
    printf("{\"params\": %lu, \"updates\": %lu, \"one_family_ms\": %.3f, \"three_families_ms\": %.3f, "
           "\"ratio\": %.3f, \"one_source_ms\": %.3f, \"four_sources_ms\": %.3f, \"sources_ratio\": %.3f}\n",
           params, updates, one, three, three / one, whole, parts, parts / whole);
    weft_model_close(model);
    return 0;
}
