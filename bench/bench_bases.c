/* bench_bases.c - publish while every peer waits at another version, beside publish while all wait at one (bar F5).
 *
 * Peers are stopped one version after the other (or all at the first); then they go on all at once, and the publishes
 * that follow at once are timed while each is brought up to date. Both ways alternate. The wall clock shares the cores
 * with all of the peers; the calling thread's CPU time does not. */
#include <signal.h>
#include <stdio.h>

#include "rig.h"

#define PUBLISHES 3

typedef struct figures {
    double ms[BENCH_ROUNDS_MAX], cpu_ms[BENCH_ROUNDS_MAX], settle_ms[BENCH_ROUNDS_MAX];
    int count, rounds;
} figures;

static void publish_timed(bench_rig *rig, figures *into)
{
    bench_rig_step(rig);
    double cpu = bench_thread_ms();
    into->ms[into->count] = bench_rig_publish_ms(rig, NULL);
    into->cpu_ms[into->count++] = bench_thread_ms() - cpu;
}

static void run_way(bench_rig *rig, bool spread, figures *into)
{
    int peers = rig->options->peer_count;
    for (int i = 0; i < peers; i++) {
        if (spread || i == 0)
            for (int p = i; p < (spread ? i + 1 : peers); p++)
                kill(rig->peers[p].process.pid, SIGSTOP);
        bench_rig_step(rig);
        bench_rig_publish_ms(rig, NULL);
    }
    for (int i = 0; i < peers; i++)
        kill(rig->peers[i].process.pid, SIGCONT);
    double begun = bench_now_ms();
    for (int i = 0; i < PUBLISHES; i++)
        publish_timed(rig, into);
    bench_rig_wait(rig, peers);
    into->settle_ms[into->rounds++] = bench_now_ms() - begun;
}

static void print(const char *bases, const bench_rig *rig, const figures *figures)
{
    printf("{\"what\": \"bases\", \"bases\": \"%s\", \"peers\": %d, \"publish_ms\": %.3f, \"cpu_ms\": %.3f, "
           "\"settle_ms\": "
           "%.1f, \"resident_bytes\": %llu, \"journal_bytes\": %llu}\n",
           bases, rig->options->peer_count, bench_median(figures->ms, figures->count),
           bench_median(figures->cpu_ms, figures->count), bench_median(figures->settle_ms, figures->rounds),
           (unsigned long long)(bench_resident_bytes() - rig->resident_bytes),
           (unsigned long long)fleet_stats(rig->trainer).journal_bytes);
}

int main(int argc, char **argv)
{
    static char names[BENCH_PEERS_MAX][16];
    static figures one, many;
    bench_rig rig;
    bench_options options = {.provider = "tcp", .mib = 8, .rounds = 5, .seconds = 1, .changed = 1.17};
    options.sets[options.set_count++] = "trainer.max_peers=40";
    options.sets[options.set_count++] = "peers.bucket_max=1MiB";
    options.sets[options.set_count++] = "peers.staging=16MiB";
    bench_options_read(argc, argv, &options);
    for (int i = 0; options.peer_count < BENCH_PEERS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "p%d", i);
        options.peers[options.peer_count++] = names[i];
    }
    if (options.rounds * PUBLISHES > BENCH_ROUNDS_MAX)
        fleet_fail("too many rounds");
    bench_rig_open(&rig, &options);
    bench_rig_join_all(&rig);
    for (int round = 0; round < options.rounds; round++) {
        run_way(&rig, false, &one);
        run_way(&rig, true, &many);
    }
    print("one", &rig, &one);
    print("all", &rig, &many);
    bench_rig_close(&rig);
    return 0;
}
