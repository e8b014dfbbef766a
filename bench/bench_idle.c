/* bench_idle.c - what a trainer and a rollout cost while nothing happens: CPU time over wall time.
 *
 * Two processes on loopback, joined, the newest version held. The trainer's caller sleeps; the rollout's waits in
 * weft_staged, as `weft rollout` does. */
#include <stdio.h>

#include "fleet.h"

#define SETTLE_MS 500 /* after the join: adaptive sleeps are long by then */

typedef struct order {
    char listen[64];
} order;

static double cpu_ms(void)
{
    bench_cpu cpu = bench_cpu_now();
    return cpu.user_ms + cpu.kernel_ms;
}

static void run_rollout(int in, int out, const void *user)
{
    const bench_options *options = user;
    bench_model model;
    order order;
    weft_session *rollout;
    weft_staged_info staged = {.size = sizeof staged};
    bench_model_open(&model, options->mib);
    if (!bench_receive(in, &order, sizeof order))
        return;
    weft_site *site = bench_site(options, order.listen, "5s");
    bench_need(weft_rollout_open(site, "a", model.layout, NULL, &rollout), "open the rollout");
    bench_need(weft_bind(rollout, model.pieces, model.count, NULL, 0, 0), "bind the rollout");
    weft_staged(rollout, SETTLE_MS, &staged);
    double begun_ms = bench_now_ms(), begun_cpu_ms = cpu_ms();
    double end_ms = begun_ms + options->seconds * 1e3;
    for (double left; (left = end_ms - bench_now_ms()) > 0;)
        if (weft_staged(rollout, (uint32_t)left + 1, &staged) != WEFT_AGAIN)
            bench_die("something came while idle");
    double share = (cpu_ms() - begun_cpu_ms) / (bench_now_ms() - begun_ms);
    bench_send(out, &share, sizeof share);
    weft_close(rollout);
    weft_site_free(site);
}

static void measure(const bench_options *options)
{
    static const char *const names[] = {"a"};
    bench_model model;
    bench_child child;
    order order;
    double share;
    bench_child_open(&child, run_rollout, options);
    bench_model_open(&model, options->mib);
    weft_session *trainer = bench_trainer_open(options, "5s", &model, order.listen);
    bench_send(child.to, &order, sizeof order);
    bench_need(weft_wait(trainer, 0, names, 1, 30000), "wait for the rollout");
    bench_sleep_ms(SETTLE_MS);
    double begun_ms = bench_now_ms(), begun_cpu_ms = cpu_ms();
    bench_sleep_ms(options->seconds * 1e3 - SETTLE_MS);
    double own = (cpu_ms() - begun_cpu_ms) / (bench_now_ms() - begun_ms);
    if (!bench_receive(child.from, &share, sizeof share))
        bench_die("the rollout failed");
    printf("idle, provider %-7s over %d s: trainer %.2f %%, rollout %.2f %% of a core (promise: under 1 %%)\n",
           options->provider, options->seconds, 100 * own, 100 * share);
    weft_close(trainer);
    bench_child_close(&child);
    bench_model_close(&model);
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"tcp", "tcp-rxm", "shm"};
    bench_options options = {.mib = 16, .rounds = 1, .seconds = 10};
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
