/* bench_ranks.c - what S sources and R ranks cost each other: CPU of a storm of joins, of publish and of serving one
 * rank one update, and the memory of both ends. Prints a JSON object.
 *
 *   bench_ranks [--sources S] [--ranks R] [--params M] [--updates K]
 *
 * Source r has each S-th tensor from r on, and each rank has a fourth of the rows of every tensor, so that each rank
 * needs all sources. All ends run in one thread over the provider loop, on a clock of their own. */
#include <dirent.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "model/synth.h"
#include "rig.h"

#define CHANGED    0.0117
#define PARTS      4u
#define RANKS_MOST 1024u
#define ROUNDS_MAX 20000u
#define ROUND_NS   (100 * UINT64_C(1000))

/* One process of the fleet: what it has of the model. */
typedef struct end {
    weft_session *session;
    uint8_t *image; /* NULL: the model's own memory */
    weft_slice *slices;
    uint64_t slice_count;
    char listen[64];
} end;

typedef struct world {
    uint64_t now_ns;
    weft_model *model;
    end sources[WEFT_SOURCES_MAX], ranks[RANKS_MOST];
    uint32_t source_count, rank_count;
    double sources_us; /* CPU in the sources' steps, summed up */
} world;

static world w;

static uint64_t now_ns(void *user)
{
    (void)user;
    return w.now_ns;
}

static void pass(void *user, uint64_t ns)
{
    (void)user;
    w.now_ns += ns < ROUND_NS ? ns : ROUND_NS;
}

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static weft_site *site_open(void)
{
    static const char *const keys[] = {"trainer.journal=64MiB", "session.progress=manual",     "cut.rows.tensors=*",
                                       "cut.rows.rows=4",       "trainer.max_peers=1024",      "peers.window=1",
                                       "peers.bucket_max=1MiB", "session.connect_deadline=60s"};
    bench_options options = {.provider = "loop"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        options.sets[options.set_count++] = keys[i];
    return bench_site(&options, NULL, "60s");
}

/* ---- parts of the model */

static weft_tensor tensor_of(uint64_t number, uint64_t *rows, uint64_t *columns)
{
    weft_tensor tensor;
    bench_need(weft_layout_tensor(weft_model_layout(w.model), number, &tensor), "a tensor");
    *rows = 1;
    for (uint32_t d = 0; d + 1 < tensor.rank; d++)
        *rows *= tensor.shape[d];
    *columns = tensor.rank ? tensor.shape[tensor.rank - 1] : 1;
    return tensor;
}

/* Adds one of PARTS parts of a tensor's rows, of a vector's elements, or all of the tensor. */
static void slice_add(end *e, uint64_t number, uint32_t part, bool whole)
{
    uint64_t rows, columns;
    tensor_of(number, &rows, &columns);
    weft_slice slice = {number, 0, rows, 0, columns};
    if (!whole && rows > 1) {
        slice.row = rows * part / PARTS;
        slice.rows = rows * (part + 1) / PARTS - slice.row;
    } else if (!whole) {
        slice.column = columns * part / PARTS;
        slice.columns = columns * (part + 1) / PARTS - slice.column;
    }
    e->slices[e->slice_count++] = slice;
}

static void end_share(end *e, uint32_t at, bool rank)
{
    uint64_t count;
    weft_model_pieces(w.model, &count);
    e->slices = calloc(count, sizeof *e->slices);
    if (!e->slices)
        bench_die("no memory for slices");
    for (uint64_t t = 0; t < count; t++)
        if (rank || t % w.source_count == at)
            slice_add(e, t, at % PARTS, !rank);
}

/* Binds an end's slices: in the model's own memory, or with `copied` in a copy. */
static void end_bind(end *e, bool copied)
{
    uint64_t count, at = 0, rows, columns;
    const weft_layout *layout = weft_model_layout(w.model);
    const weft_piece *from = weft_model_pieces(w.model, &count);
    weft_block *blocks = calloc(e->slice_count, sizeof *blocks);
    e->image = copied ? malloc(weft_layout_bytes(layout) / PARTS * 2 + 128 * count) : NULL;
    if (!blocks || (copied && !e->image))
        bench_die("no memory for weights");
    for (uint64_t i = 0; i < e->slice_count; i++) {
        const weft_slice *slice = &e->slices[i];
        tensor_of(slice->tensor, &rows, &columns);
        const uint64_t width = weft_layout_tensor_bytes(layout, slice->tensor) / (rows * columns);
        const uint64_t bytes = slice->rows * slice->columns * width;
        uint8_t *data = (uint8_t *)from[slice->tensor].data + (slice->row * columns + slice->column) * width;
        blocks[i] = (weft_block){.slice = *slice, .data = copied ? memcpy(e->image + at, data, bytes) : data};
        at += (bytes + 63) & ~UINT64_C(63);
    }
    bench_need(weft_bind_blocks(e->session, blocks, e->slice_count, NULL, 0, 0), "bind");
    free(blocks);
}

/* ---- sources and ranks */

static void source_open(uint32_t number, const weft_site *site)
{
    end *e = &w.sources[number];
    weft_stats_info stats = {.size = sizeof stats};
    end_share(e, number, false);
    const weft_options options = {.size = sizeof options, .run = 1, .slices = e->slices, .slice_count = e->slice_count};
    bench_need(weft_trainer_open(site, weft_model_layout(w.model), &options, &e->session), "open a source");
    bench_need(weft_stats(e->session, &stats), "stats");
    snprintf(e->listen, sizeof e->listen, "%s", stats.listen);
    end_bind(e, false);
}

static void rank_open(uint32_t number, const weft_site *site)
{
    end *e = &w.ranks[number];
    weft_trainer_source sources[WEFT_SOURCES_MAX];
    char name[16];
    end_share(e, number, true);
    for (uint32_t i = 0; i < w.source_count; i++)
        sources[i] = (weft_trainer_source){w.sources[i].listen, w.sources[i].slices, w.sources[i].slice_count};
    const weft_options options = {.size = sizeof options,
                                  .slices = e->slices,
                                  .slice_count = e->slice_count,
                                  .sources = sources,
                                  .source_count = w.source_count};
    snprintf(name, sizeof name, "p%u", number);
    bench_need(weft_rollout_open(site, name, weft_model_layout(w.model), &options, &e->session), "open a rank");
    end_bind(e, true);
}

static void sources_step(void)
{
    const double begun = cpu_us();
    for (uint32_t i = 0; i < w.source_count; i++) {
        weft_event event = {.size = sizeof event};
        bench_need(weft_progress(w.sources[i].session, 0), "a source's step");
        while (weft_events(w.sources[i].session, &event) == WEFT_OK)
            ;
    }
    w.sources_us += cpu_us() - begun;
}

static void rank_step(weft_session *session)
{
    weft_staged_info info = {.size = sizeof info};
    weft_event event = {.size = sizeof event};
    bench_need(weft_progress(session, 0), "a rank's step");
    while (weft_events(session, &event) == WEFT_OK)
        ;
    if (weft_staged(session, 0, &info) == WEFT_OK)
        bench_need(weft_commit(session, info.target.number, NULL, 0, NULL), "commit");
}

static bool all_hold(uint64_t version)
{
    for (uint32_t i = 0; i < w.source_count; i++) {
        weft_stats_info stats = {.size = sizeof stats};
        bench_need(weft_stats(w.sources[i].session, &stats), "stats");
        if (w.sources[i].slice_count == 0) /* no rank needs a source that has nothing */
            continue;
        if (stats.peers_joined < w.rank_count || weft_wait(w.sources[i].session, version, NULL, 0, 0) != WEFT_OK)
            return false;
    }
    return true;
}

static void settle(uint64_t version)
{
    for (uint32_t round = 0; !all_hold(version); round++, w.now_ns += ROUND_NS) {
        if (round == ROUNDS_MAX)
            bench_die("a version is not held by all");
        sources_step();
        for (uint32_t i = 0; i < w.rank_count; i++)
            rank_step(w.ranks[i].session);
    }
}

/* ---- figures */

static uint64_t descriptors(void)
{
    uint64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

static uint64_t memory_of(const end *e)
{
    weft_stats_info stats = {.size = sizeof stats};
    bench_need(weft_stats(e->session, &stats), "stats");
    return stats.memory_bytes;
}

static void updates_run(uint32_t updates, double open_ms, uint64_t ends_descriptors)
{
    double publish[BENCH_ROUNDS_MAX], serve[BENCH_ROUNDS_MAX], held[BENCH_ROUNDS_MAX];
    const double pairs = (double)w.source_count * w.rank_count, join_us = w.sources_us / pairs;
    for (uint64_t version = 1; version <= updates + 1; version++) {
        const uint64_t at = version > 1 ? version - 2 : 0; /* the first one warms up */
        bench_need(weft_synth_step(w.model, CHANGED, version, NULL), "make a step");
        const double begun = cpu_us();
        for (uint32_t i = 0; i < w.source_count; i++)
            bench_need(weft_publish(w.sources[i].session, version, NULL, NULL, NULL), "publish");
        publish[at] = (cpu_us() - begun) / 1e3 / w.source_count;
        w.sources_us = 0;
        settle(version);
        serve[at] = w.sources_us / pairs;
        held[at] = (cpu_us() - begun) / 1e3;
    }
    printf("{\"sources\": %u, \"ranks\": %u, \"open_us\": %.1f, \"join_us\": %.1f, \"publish_ms\": %.3f, "
           "\"serve_us\": %.2f, \"held_cpu_ms\": %.1f, \"source_bytes\": %llu, \"rank_bytes\": %llu, "
           "\"pair_descriptors\": %.2f}\n",
           w.source_count, w.rank_count, open_ms * 1e3 / w.rank_count, join_us, bench_median(publish, (int)updates),
           bench_median(serve, (int)updates), bench_median(held, (int)updates),
           (unsigned long long)memory_of(&w.sources[0]), (unsigned long long)memory_of(&w.ranks[0]),
           (double)ends_descriptors / pairs);
}

static void world_run(uint32_t updates)
{
    weft_site *site = site_open();
    const uint64_t before = descriptors();
    for (uint32_t i = 0; i < w.source_count; i++)
        source_open(i, site);
    const double begun = cpu_us();
    for (uint32_t i = 0; i < w.rank_count; i++)
        rank_open(i, site);
    const double opened = cpu_us();
    settle(0);
    updates_run(updates, (opened - begun) / 1e3, descriptors() - before);
    for (uint32_t i = 0; i < w.rank_count + w.source_count; i++) {
        end *e = i < w.rank_count ? &w.ranks[i] : &w.sources[i - w.rank_count];
        weft_close(e->session);
        free(e->image);
        free(e->slices);
    }
    weft_site_free(site);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"sources", 1, NULL, 's'}, {"ranks", 1, NULL, 'r'}, {"params", 1, NULL, 'p'}, {"updates", 1, NULL, 'u'}, {0}};
    unsigned long sources = 8, ranks = 64, params = 1000000, updates = 5;
    const weft_clock clock = {now_ns, pass, NULL};
    struct rlimit limit;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        unsigned long *value = option == 's' ? &sources : option == 'r' ? &ranks : option == 'p' ? &params : &updates;
        if (option == '?')
            bench_die("usage: bench_ranks [--sources S] [--ranks R] [--params M] [--updates K]");
        *value = strtoul(optarg, NULL, 10);
    }
    if (sources == 0 || sources > WEFT_SOURCES_MAX || ranks == 0 || ranks > RANKS_MOST || updates == 0 ||
        updates > BENCH_ROUNDS_MAX)
        bench_die("too many sources, ranks or updates, or none");
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    w = (world){.now_ns = 1, .source_count = (uint32_t)sources, .rank_count = (uint32_t)ranks};
    weft_clock_own = &clock;
    bench_need(weft_synth_model(params, 1, &w.model), "make a model");
    world_run((uint32_t)updates);
    weft_model_close(w.model);
    return 0;
}
