/* bench_fleet.c - the cost of one more rollout for its trainer, in memory and in CPU time. Each line is a JSON object.
 *
 *   bench_fleet [--peers N] [--processes] [--updates K]
 *
 * All ends run in one thread over the provider loop, on a clock of their own, so that the trainer's share is known.
 * With
 * --processes each rollout is a process, over tcp. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/world.h"
#include "model/synth.h"
#include "rig.h"

#define PARAMS     UINT64_C(65536) /* of each end, in the loop */
#define CHANGED    0.0117          /* share of the elements */
#define PEERS_MOST 4096u

/* CPU times are the trainer's, medians over the updates. */
typedef struct row {
    uint32_t peers;
    uint64_t peer_bytes;    /* trainer's memory for one more peer */
    uint64_t rollout_bytes; /* a rollout's, weights not counted */
    uint64_t update_bytes;  /* to one peer */
    double publish_ms;      /* CPU of weft_publish */
    double together_us;     /* CPU of serving one peer one update when a step finds all of them with news */
    double alone_us;        /* the same when each has its news for itself, the worst case; 0: not measured */
    double join_us;         /* CPU of one join */
    double held_ms;         /* publish to all hold it, the rollouts' CPU too */
} row;

static void row_print(const char *fabric, const row *row)
{
    printf("{\"fabric\": \"%s\", \"peers\": %u, \"peer_bytes\": %llu, \"rollout_bytes\": %llu, \"bytes\": %llu, "
           "\"publish_cpu_ms\": %.3f, \"together_us\": %.2f, \"alone_us\": %.2f, \"join_us\": %.2f, \"held_ms\": "
           "%.3f}\n",
           fabric, row->peers, (unsigned long long)row->peer_bytes, (unsigned long long)row->rollout_bytes,
           (unsigned long long)row->update_bytes, row->publish_ms, row->together_us, row->alone_us, row->join_us,
           row->held_ms);
    fflush(stdout);
}

/* The site's keys of such a fleet; `text` holds the first one. */
static void options_fill(bench_options *options, uint32_t max_peers, bool manual, char text[40])
{
    static const char *const keys[] = {"trainer.journal=16MiB", "peers.window=1", "peers.bucket_max=1MiB",
                                       "peers.staging=4MiB", "session.connect_deadline=60s"};
    snprintf(text, 40, "trainer.max_peers=%u", max_peers);
    options->set_count = 0;
    options->sets[options->set_count++] = text;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        options->sets[options->set_count++] = keys[i];
    if (manual)
        options->sets[options->set_count++] = "session.progress=manual";
}

/* ---- in one thread */

static weft_site *site_of(uint32_t max_peers, const char *listen)
{
    bench_options options = {.provider = "loop"};
    char text[40];
    options_fill(&options, max_peers, true, text);
    return bench_site(&options, listen, "60s");
}

static uint64_t peer_bytes(const weft_model *model)
{
    uint64_t bytes[2];
    char listen[64];
    for (int i = 0; i < 2; i++) {
        weft_site *site = site_of(i ? 1001 : 1, NULL);
        weft_session *trainer = fleet_trainer_open(site, weft_model_layout(model), NULL, listen);
        bytes[i] = fleet_stats(trainer).memory_bytes;
        weft_close(trainer);
        weft_site_free(site);
    }
    return (bytes[1] - bytes[0]) / 1000;
}

static void world_open(fleet_world *w, fleet_clock *clock, weft_model *model, uint32_t peers)
{
    fleet_world_open(w, clock, model, 1, peers);
    weft_site *site = site_of(peers, NULL);
    fleet_source_add(w, site, FLEET_WHOLE, 0);
    weft_site_free(site);
    site = site_of(peers, w->sources[0].listen);
    for (uint32_t i = 0; i < peers; i++)
        fleet_rank_add(w, site, FLEET_WHOLE);
    weft_site_free(site);
}

/* Half of the updates with all news together, half one by one; the first of all warms up. */
static void updates_measure(fleet_world *w, uint32_t updates, row *row)
{
    double share[2][BENCH_ROUNDS_MAX], encode[BENCH_ROUNDS_MAX], held[BENCH_ROUNDS_MAX];
    int counts[2] = {0, 0}, published = 0;
    fleet_world_settle(w, 0);
    row->join_us = w->sources_us / w->rank_count;
    for (uint64_t version = 1; version <= 2 * updates + 1; version++) {
        weft_update_info info = {.size = sizeof info};
        fleet_need(weft_synth_step(w->model, CHANGED, version, NULL), "make a step");
        const double begun_us = fleet_cpu_us(), publish_ms = fleet_world_publish(w, version, &info);
        w->alone = version % 2;
        w->sources_us = 0;
        fleet_world_settle(w, version);
        if (version == 1)
            continue;
        share[w->alone][counts[w->alone]++] = w->sources_us / w->rank_count;
        encode[published] = publish_ms;
        held[published++] = (fleet_cpu_us() - begun_us) / 1e3;
        row->update_bytes = info.bytes;
    }
    row->together_us = bench_median(share[0], counts[0]);
    row->alone_us = bench_median(share[1], counts[1]);
    row->publish_ms = bench_median(encode, published);
    row->held_ms = bench_median(held, published);
}

static void simulate(uint32_t peers, uint32_t updates, row *row)
{
    fleet_world w;
    fleet_clock clock;
    weft_model *model;
    *row = (struct row){.peers = peers};
    fleet_clock_open(&clock, NULL, NULL);
    fleet_need(weft_synth_model(PARAMS, 1, &model), "make a model");
    row->peer_bytes = peer_bytes(model);
    world_open(&w, &clock, model, peers);
    updates_measure(&w, updates, row);
    row->rollout_bytes = fleet_stats(w.ranks[0].session).memory_bytes;
    fleet_world_close(&w);
    weft_model_close(model);
    fleet_clock_close();
}

/* ---- processes */

/* CPU time of all threads of this process, because the rollouts are other processes. */
static double own_us(void)
{
    bench_cpu cpu = bench_cpu_now();
    return (cpu.user_ms + cpu.kernel_ms) * 1e3;
}

static void processes_run(uint32_t peers, uint32_t updates, row *row)
{
    static char names[BENCH_PEERS_MAX][12];
    bench_options options = {.provider = "tcp", .mib = 1, .changed = 100 * CHANGED};
    bench_rig rig;
    double share[BENCH_ROUNDS_MAX], encode[BENCH_ROUNDS_MAX], held[BENCH_ROUNDS_MAX];
    char text[40];
    simulate(1, 1, row); /* the memory of either end */
    *row = (struct row){.peers = peers, .peer_bytes = row->peer_bytes, .rollout_bytes = row->rollout_bytes};
    options_fill(&options, peers, false, text);
    for (uint32_t i = 0; i < peers; i++) {
        snprintf(names[i], sizeof names[i], "p%u", i);
        options.peers[options.peer_count++] = names[i];
    }
    bench_rig_open(&rig, &options);
    double begun_us = own_us();
    bench_rig_join_all(&rig);
    row->join_us = (own_us() - begun_us) / peers;
    for (uint32_t i = 0; i <= updates; i++) {
        weft_update_info info = {.size = sizeof info};
        const uint32_t at = i ? i - 1 : 0; /* the first one warms up, and the next writes over it */
        bench_rig_step(&rig);
        double begun_ms = bench_now_ms();
        begun_us = own_us();
        bench_rig_publish_ms(&rig, &info);
        double published_us = own_us();
        bench_rig_wait(&rig, options.peer_count);
        share[at] = (own_us() - published_us) / peers;
        encode[at] = (published_us - begun_us) / 1e3;
        held[at] = bench_now_ms() - begun_ms;
        row->update_bytes = info.bytes;
    }
    bench_rig_close(&rig);
    row->together_us = bench_median(share, (int)updates);
    row->publish_ms = bench_median(encode, (int)updates);
    row->held_ms = bench_median(held, (int)updates);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"peers", 1, NULL, 'p'}, {"updates", 1, NULL, 'u'}, {"processes", 0, NULL, 'x'}, {0}};
    unsigned long peers = 100, updates = 8;
    bool processes = false;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'p')
            peers = strtoul(optarg, NULL, 10);
        else if (option == 'u')
            updates = strtoul(optarg, NULL, 10);
        else if (option == 'x')
            processes = true;
        else
            fleet_fail("bench_fleet [--peers N] [--processes] [--updates K]");
    }
    if (peers < 1 || peers > (processes ? BENCH_PEERS_MAX : PEERS_MOST))
        fleet_fail("--peers must be 1 to 4096, or to 32 with --processes");
    if (updates < 1 || updates > BENCH_ROUNDS_MAX / 2)
        fleet_fail("--updates must be 1 to 49");
    for (uint32_t size = 1;; size = size * 10 < peers ? size * 10 : (uint32_t)peers) {
        row row;
        (processes ? processes_run : simulate)(size, (uint32_t)updates, &row);
        row_print(processes ? "tcp" : "loop", &row);
        if (size == peers)
            return 0;
    }
}
