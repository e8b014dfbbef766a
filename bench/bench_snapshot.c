/* bench_snapshot.c - a snapshot through weft beside a raw TCP stream of the same bytes (bar T1).
 *
 * Two processes on loopback; the rollout's clock runs from the call of weft_commit, which accepts the offer, to its
 * return, proof included. Rounds with a raw stream of the same bytes alternate. With --listen and --peer the rollout
 * stands behind a link (bar T2). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fleet.h"
#include "raw.h"

typedef struct order {
    char what; /* 's': a snapshot from `listen`; 'r': the raw stream from `port` of its host */
    char listen[64];
    uint16_t port;
} order;

typedef struct answer {
    double ms;
    bench_cpu cpu;
    uint64_t root;
} answer;

/* ---- rollout */

static void take_snapshot(const bench_options *options, const bench_model *model, const order *order, answer *answer)
{
    weft_session *rollout;
    weft_staged_info staged = {.size = sizeof staged};
    weft_version held;
    weft_site *site = bench_site(options, order->listen, "30s");
    bench_need(weft_rollout_open(site, "a", model->layout, NULL, &rollout), "open the rollout");
    bench_need(weft_bind(rollout, model->pieces, model->count, NULL, 0, WEFT_BIND_EMPTY), "bind the rollout");
    bench_need(weft_staged(rollout, 30000, &staged), "the offer");
    bench_cpu before = bench_cpu_now();
    double begun = bench_now_ms();
    bench_need(weft_commit(rollout, staged.target.number, NULL, 0, &held), "commit");
    answer->ms = bench_now_ms() - begun;
    answer->cpu = bench_cpu_since(before);
    answer->root = held.root;
    weft_close(rollout);
    weft_site_free(site);
}

static void take_raw(const bench_model *model, const order *order, answer *answer)
{
    char host[64];
    bench_host(order->listen, host);
    int fd = bench_raw_dial(host, order->port);
    bench_cpu before = bench_cpu_now();
    answer->ms = bench_raw_take_ms(fd, model->bytes);
    answer->cpu = bench_cpu_since(before);
    close(fd);
}

static void run_rollout(int in, int out, const void *user)
{
    const bench_options *options = user;
    bench_model model;
    order order;
    bench_netns_enter(options->peers[0]);
    bench_model_open(&model, options->mib);
    while (bench_receive(in, &order, sizeof order)) {
        answer answer = {0};
        if (order.what == 's') {
            memset(model.weights, 0, model.bytes);
            take_snapshot(options, &model, &order, &answer);
        } else {
            take_raw(&model, &order, &answer);
        }
        bench_send(out, &answer, sizeof answer);
    }
}

/* ---- trainer */

typedef struct figures {
    double ms[BENCH_ROUNDS_MAX];
    bench_cpu sender, receiver; /* sums over the rounds */
} figures;

static void give_raw(int listen_fd, const bench_model *model)
{
    int fd = bench_raw_accept(listen_fd);
    bench_raw_give(fd, model->weights, model->bytes);
    close(fd);
}

static void add(bench_cpu *sum, bench_cpu cpu)
{
    sum->user_ms += cpu.user_ms;
    sum->kernel_ms += cpu.kernel_ms;
    sum->queued_ms += cpu.queued_ms;
}

static void measure(const bench_child *child, const order *order, int raw_fd, const bench_model *model, figures *into,
                    int round, uint64_t root)
{
    answer answer;
    bench_cpu before = bench_cpu_now();
    bench_send(child->to, order, sizeof *order);
    if (order->what == 'r')
        give_raw(raw_fd, model);
    if (!bench_receive(child->from, &answer, sizeof answer))
        bench_die("the rollout failed");
    if (order->what == 's' && answer.root != root)
        bench_die("the rollout holds other bits");
    into->ms[round] = answer.ms;
    add(&into->receiver, answer.cpu);
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
    bench_options options = {.provider = "tcp", .mib = 256, .rounds = 7, .seconds = 1};
    char host[64] = "127.0.0.1";
    bench_model model;
    bench_child child;
    static figures weft, raw, warm;
    order snapshot = {.what = 's'}, stream = {.what = 'r'};
    weft_version newest;
    bench_options_read(argc, argv, &options);
    bench_child_open(&child, run_rollout, &options);
    bench_model_open(&model, options.mib);
    if (options.listen)
        bench_host(options.listen, host);
    int raw_fd = bench_raw_listen(host, &stream.port);
    weft_session *trainer = bench_trainer_open(&options, "30s", &model, snapshot.listen);
    memcpy(stream.listen, snapshot.listen, sizeof stream.listen);
    bench_need(weft_held(trainer, &newest), "held");
    printf("snapshot of %llu MiB of bf16, provider %s, median of %d\n", (unsigned long long)options.mib,
           options.provider, options.rounds);
    measure(&child, &snapshot, raw_fd, &model, &warm, 0, newest.root);
    for (int round = 0; round < options.rounds; round++) {
        measure(&child, &stream, raw_fd, &model, &raw, round, newest.root);
        measure(&child, &snapshot, raw_fd, &model, &weft, round, newest.root);
    }
    print("weft", &weft, options.rounds, model.bytes);
    print("raw tcp", &raw, options.rounds, model.bytes);
    double weft_ms = bench_median(weft.ms, options.rounds), raw_ms = bench_median(raw.ms, options.rounds);
    printf("%.3f of the raw stream (T1's bar on loopback: 0.90)\n", raw_ms / weft_ms);
    printf("{\"what\": \"snapshot\", \"provider\": \"%s\", \"bytes\": %llu, \"weft_ms\": %.3f, \"raw_ms\": %.3f}\n",
           options.provider, (unsigned long long)model.bytes, weft_ms, raw_ms);
    weft_close(trainer);
    bench_child_close(&child);
    bench_model_close(&model);
    close(raw_fd);
    return 0;
}
