/* bench_snapshot.c - a snapshot through weft beside a raw TCP stream of the same bytes (bar T1).
 *
 * Two processes on loopback; the rollout's clock runs from the call of weft_commit, which accepts the offer, to its
 * return, proof included. Rounds with a raw stream of the same bytes alternate. With --listen and --peer the rollout
 * stands behind a link (bar T2). */
#include <stdio.h>
#include <unistd.h>

#include "rig.h"

typedef struct figures {
    double ms[BENCH_ROUNDS_MAX];
    bench_cpu sender, receiver; /* sums over the rounds */
} figures;

static void add(bench_cpu *sum, bench_cpu cpu)
{
    sum->user_ms += cpu.user_ms;
    sum->kernel_ms += cpu.kernel_ms;
    sum->queued_ms += cpu.queued_ms;
}

/* A snapshot, or a raw stream of as many bytes by a connection of its own. */
static bench_report take(bench_rig *rig, bool raw)
{
    uint64_t count;
    bench_peer *peer = &rig->peers[0];
    if (!raw)
        return bench_peer_do(peer, BENCH_SNAPSHOT, rig->listen, 0);
    const bench_report report = bench_peer_raw(peer, rig->listen, weft_model_pieces(rig->model, &count)[0].data,
                                               weft_layout_bytes(weft_model_layout(rig->model)));
    close(peer->raw_fd);
    peer->raw_fd = -1;
    return report;
}

static void measure(bench_rig *rig, bool raw, figures *into, int round)
{
    const bench_cpu before = bench_cpu_now();
    const bench_report report = take(rig, raw);
    if (!raw && report.held.root != fleet_held(rig->trainer).root)
        fleet_fail("the rollout holds other bits");
    into->ms[round] = report.ms;
    add(&into->receiver, report.cpu);
    add(&into->sender, bench_cpu_since(before));
}

static void print_cpu(const char *who, bench_cpu cpu, double all_ms)
{
    printf("           %-8s CPU %3.0f %% user, %3.0f %% kernel of the clock; %3.0f %% ready but without a core\n", who,
           100 * cpu.user_ms / all_ms, 100 * cpu.kernel_ms / all_ms, 100 * cpu.queued_ms / all_ms);
}

static void print(const char *what, const figures *figures, int rounds, uint64_t bytes)
{
    double ms = bench_median(figures->ms, rounds), least = figures->ms[0], most = figures->ms[0], all = 0;
    for (int i = 0; i < rounds; i++) {
        least = figures->ms[i] < least ? figures->ms[i] : least;
        most = figures->ms[i] > most ? figures->ms[i] : most;
        all += figures->ms[i];
    }
    printf("%-10s %8.1f ms (%.1f to %.1f)  %6.3f GB/s\n", what, ms, least, most, (double)bytes / ms / 1e6);
    print_cpu("sender", figures->sender, all);
    print_cpu("receiver", figures->receiver, all);
}

int main(int argc, char **argv)
{
    bench_options options = {
        .provider = "tcp", .mib = 256, .rounds = 7, .seconds = 1, .heartbeat = "30s", .noise = true};
    bench_rig rig;
    static figures weft, raw, warm;
    bench_options_read(argc, argv, &options);
    bench_rig_open(&rig, &options);
    const uint64_t bytes = weft_layout_bytes(weft_model_layout(rig.model));
    printf("snapshot of %llu MiB of bf16, provider %s, median of %d\n", (unsigned long long)options.mib,
           options.provider, options.rounds);
    measure(&rig, false, &warm, 0);
    for (int round = 0; round < options.rounds; round++) {
        measure(&rig, true, &raw, round);
        measure(&rig, false, &weft, round);
    }
    print("weft", &weft, options.rounds, bytes);
    print("raw tcp", &raw, options.rounds, bytes);
    double weft_ms = bench_median(weft.ms, options.rounds), raw_ms = bench_median(raw.ms, options.rounds);
    printf("%.3f of the raw stream (T1's bar on loopback: 0.90)\n", raw_ms / weft_ms);
    printf("{\"what\": \"snapshot\", \"provider\": \"%s\", \"bytes\": %llu, \"weft_ms\": %.3f, \"raw_ms\": %.3f}\n",
           options.provider, (unsigned long long)bytes, weft_ms, raw_ms);
    bench_rig_close(&rig);
    return 0;
}
