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

#include "bench.h"
#include "harness/world.h"
#include "model/synth.h"

#define CHANGED 0.0117
#define PARTS   4u
#define RANKS   7u

static weft_site *site_of(const char *listen)
{
    static const char *const keys[] = {"trainer.journal=256MiB", "session.progress=manual", "cut.rows.tensors=*",
                                       "cut.rows.rows=4", "trainer.max_peers=16"};
    bench_options options = {.provider = "loop"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        options.sets[options.set_count++] = keys[i];
    return bench_site(&options, listen, "60s");
}

/* A source, and ranks of so many families: of a part each, of two, of all. */
static void world_open(fleet_world *w, fleet_clock *clock, weft_model *model, uint32_t families)
{
    fleet_world_open(w, clock, model, 1, RANKS);
    weft_site *site = site_of(NULL);
    fleet_source_add(w, site, FLEET_WHOLE, 0);
    weft_site_free(site);
    site = site_of(w->sources[0].listen);
    for (uint32_t family = 0, take = 1; family < families; family++, take *= 2)
        for (uint32_t first = 0; first < PARTS; first += take)
            fleet_rank_add(w, site, (fleet_cut){first, take, PARTS, 0, 1});
    weft_site_free(site);
}

/* Sources of a part each, without ranks. */
static void parts_open(fleet_world *w, fleet_clock *clock, weft_model *model, uint32_t parts)
{
    weft_site *site = site_of(NULL);
    fleet_world_open(w, clock, model, parts, 1);
    for (uint32_t i = 0; i < parts; i++)
        fleet_source_add(w, site, (fleet_cut){i, 1, parts, 0, 1}, 1);
    weft_site_free(site);
}

/* Publishes at two worlds in turn; medians of the CPU time in ms. */
static void compare(fleet_world worlds[2], weft_model *model, unsigned long updates, double medians[2])
{
    double spent[2][BENCH_ROUNDS_MAX];
    for (int i = 0; i < 2; i++)
        fleet_world_settle(&worlds[i], 0);
    for (uint64_t version = 1; version <= updates + 1; version++) {
        fleet_need(weft_synth_step(model, CHANGED, version, NULL), "make a step");
        for (uint32_t i = 0; i < 2; i++) { /* the first of all warms up, and the next writes over it */
            const uint32_t which = (uint32_t)((version + i) % 2);
            spent[which][version > 1 ? version - 2 : 0] = fleet_world_publish(&worlds[which], version, NULL);
            if (worlds[which].rank_count > 0)
                fleet_world_settle(&worlds[which], version);
        }
    }
    for (int i = 0; i < 2; i++) {
        medians[i] = bench_median(spent[i], (int)updates);
        fleet_world_close(&worlds[i]);
    }
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"params", 1, NULL, 'p'}, {"updates", 1, NULL, 'u'}, {0}};
    double families[2], sources[2];
    unsigned long params = 16000000, updates = 15;
    fleet_world worlds[2];
    fleet_clock clock;
    weft_model *model;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'p')
            params = strtoul(optarg, NULL, 10);
        else if (option == 'u')
            updates = strtoul(optarg, NULL, 10);
        else
            fleet_fail("usage: bench_views [--params M] [--updates K]");
    }
    if (updates == 0 || updates > BENCH_ROUNDS_MAX)
        fleet_fail("too many updates, or none");
    fleet_clock_open(&clock, NULL, NULL);
    fleet_need(weft_synth_model(params, 1, &model), "make a model");
    for (uint32_t i = 0; i < 2; i++)
        world_open(&worlds[i], &clock, model, i ? 3 : 1);
    compare(worlds, model, updates, families);
    for (uint32_t i = 0; i < 2; i++)
        parts_open(&worlds[i], &clock, model, i ? PARTS : 1);
    compare(worlds, model, updates, sources);
    printf("{\"params\": %lu, \"updates\": %lu, \"one_family_ms\": %.3f, \"three_families_ms\": %.3f, "
           "\"ratio\": %.3f, \"one_source_ms\": %.3f, \"four_sources_ms\": %.3f, \"sources_ratio\": %.3f}\n",
           params, updates, families[0], families[1], families[1] / families[0], sources[0], sources[1],
           sources[1] / sources[0]);
    weft_model_close(model);
    return 0;
}
