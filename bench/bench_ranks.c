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

#include "bench.h"
#include "harness/world.h"
#include "model/synth.h"

#define CHANGED    0.0117
#define PARTS      4u
#define RANKS_MOST 1024u

static weft_site *site_of(const char *listen)
{
    static const char *const keys[] = {"trainer.journal=64MiB", "session.progress=manual",     "cut.rows.tensors=*",
                                       "cut.rows.rows=4",       "trainer.max_peers=1024",      "peers.window=1",
                                       "peers.bucket_max=1MiB", "session.connect_deadline=60s"};
    bench_options options = {.provider = "loop"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        options.sets[options.set_count++] = keys[i];
    return bench_site(&options, listen, "60s");
}

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

static void updates_run(fleet_world *w, uint32_t updates, double open_us, uint64_t ends_descriptors)
{
    double publish[BENCH_ROUNDS_MAX], serve[BENCH_ROUNDS_MAX], held[BENCH_ROUNDS_MAX];
    const double pairs = (double)w->source_count * w->rank_count, join_us = w->sources_us / pairs;
    for (uint64_t version = 1; version <= updates + 1; version++) {
        const uint64_t at = version > 1 ? version - 2 : 0; /* the first one warms up */
        fleet_need(weft_synth_step(w->model, CHANGED, version, NULL), "make a step");
        const double begun = fleet_cpu_us();
        publish[at] = fleet_world_publish(w, version, NULL) / w->source_count;
        w->sources_us = 0;
        fleet_world_settle(w, version);
        serve[at] = w->sources_us / pairs;
        held[at] = (fleet_cpu_us() - begun) / 1e3;
    }
    printf("{\"sources\": %u, \"ranks\": %u, \"open_us\": %.1f, \"join_us\": %.1f, \"publish_ms\": %.3f, "
           "\"serve_us\": %.2f, \"held_cpu_ms\": %.1f, \"source_bytes\": %llu, \"rank_bytes\": %llu, "
           "\"pair_descriptors\": %.2f}\n",
           w->source_count, w->rank_count, open_us / w->rank_count, join_us, bench_median(publish, (int)updates),
           bench_median(serve, (int)updates), bench_median(held, (int)updates),
           (unsigned long long)fleet_stats(w->sources[0].session).memory_bytes,
           (unsigned long long)fleet_stats(w->ranks[0].session).memory_bytes, (double)ends_descriptors / pairs);
}

static void world_run(fleet_world *w, uint32_t sources, uint32_t ranks, uint32_t updates)
{
    weft_site *site = site_of(NULL);
    const uint64_t before = descriptors();
    for (uint32_t i = 0; i < sources; i++)
        fleet_source_add(w, site, (fleet_cut){0, 1, 1, i, sources}, 1);
    weft_site_free(site);
    site = site_of(w->sources[0].listen);
    const double begun = fleet_cpu_us();
    for (uint32_t i = 0; i < ranks; i++)
        fleet_rank_add(w, site, (fleet_cut){i % PARTS, 1, PARTS, 0, 1});
    const double opened = fleet_cpu_us();
    fleet_world_settle(w, 0);
    updates_run(w, updates, opened - begun, descriptors() - before);
    weft_site_free(site);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"sources", 1, NULL, 's'}, {"ranks", 1, NULL, 'r'}, {"params", 1, NULL, 'p'}, {"updates", 1, NULL, 'u'}, {0}};
    unsigned long sources = 8, ranks = 64, params = 1000000, updates = 5;
    fleet_clock clock;
    fleet_world w;
    weft_model *model;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        unsigned long *value = option == 's' ? &sources : option == 'r' ? &ranks : option == 'p' ? &params : &updates;
        if (option == '?')
            fleet_fail("usage: bench_ranks [--sources S] [--ranks R] [--params M] [--updates K]");
        *value = strtoul(optarg, NULL, 10);
    }
    if (sources == 0 || sources > WEFT_SOURCES_MAX || ranks == 0 || ranks > RANKS_MOST || updates == 0 ||
        updates > BENCH_ROUNDS_MAX)
        fleet_fail("too many sources, ranks or updates, or none");
    fleet_clock_open(&clock, NULL, NULL);
    fleet_need(weft_synth_model(params, 1, &model), "make a model");
    fleet_world_open(&w, &clock, model, (uint32_t)sources, (uint32_t)ranks);
    world_run(&w, (uint32_t)sources, (uint32_t)ranks, (uint32_t)updates);
    fleet_world_close(&w);
    weft_model_close(model);
    return 0;
}
