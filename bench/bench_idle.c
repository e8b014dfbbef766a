/* bench_idle.c - what a trainer and a rollout cost while nothing happens: CPU time over wall time.
 *
 * Two processes on loopback, joined, the newest version held. The trainer's caller sleeps; the rollout's waits in
 * weft_staged, as `weft rollout` does. */
#include <stdio.h>

#include "rig.h"

#define SETTLE_MS 500 /* after the join: adaptive sleeps are long by then */

static double share_of(bench_cpu cpu, double ms)
{
    return 100 * (cpu.user_ms + cpu.kernel_ms) / ms;
}

static void measure(bench_options *options)
{
    bench_rig rig;
    bench_rig_open(&rig, options);
    bench_rig_join_all(&rig);
    bench_peer_do(&rig.peers[0], BENCH_IDLE, NULL, SETTLE_MS);
    bench_peer_tell(&rig.peers[0], BENCH_IDLE, NULL, (uint64_t)options->seconds * 1000);
    const double begun = bench_now_ms();
    const bench_cpu before = bench_cpu_now();
    bench_sleep_ms(options->seconds * 1e3 - SETTLE_MS);
    const double own = share_of(bench_cpu_since(before), bench_now_ms() - begun);
    const bench_report report = bench_peer_answer(&rig.peers[0]);
    printf("idle, provider %-7s over %d s: trainer %.2f %%, rollout %.2f %% of a core (promise: under 1 %%)\n",
           options->provider, options->seconds, own, share_of(report.cpu, report.ms));
    bench_rig_close(&rig);
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"tcp", "tcp-rxm", "shm"};
    bench_options options = {.mib = 16, .rounds = 1, .seconds = 10, .heartbeat = "5s"};
    bench_options_read(argc, argv, &options);
    if (options.provider) {
        measure(&options);
        return 0;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        options.provider = all[i];
        measure(&options);
    }
    return 0;
}
