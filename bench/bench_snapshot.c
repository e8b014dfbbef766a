/* bench_snapshot.c - a snapshot through weft beside a raw TCP stream of the same bytes (bar T1).
 *
 * Two processes on loopback; the rollout's clock runs from the call of weft_commit, which accepts the offer, to its
 * return, proof included. The raw stream is one connection, 1 MiB writes, 1 MiB reads into one buffer, no pass over the
 * bytes. Rounds alternate. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet.h"

#define WRITE_BYTES (1u << 20)

typedef struct order {
    char what; /* 's': a snapshot from `listen`; 'r': the raw stream from `port` */
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
    weft_site *site = bench_site(options->provider, order->listen, "30s");
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
    static char buffer[WRITE_BYTES];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(order->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to))
        bench_die("no raw connection");
    bench_cpu before = bench_cpu_now();
    double begun = bench_now_ms();
    bench_send(fd, "g", 1);
    for (uint64_t left = model->bytes; left;) {
        ssize_t got = read(fd, buffer, left < sizeof buffer ? left : sizeof buffer);
        if (got <= 0)
            bench_die("the raw stream broke");
        left -= (uint64_t)got;
    }
    answer->ms = bench_now_ms() - begun;
    answer->cpu = bench_cpu_since(before);
    close(fd);
}

static void run_rollout(int in, int out, const void *user)
{
    const bench_options *options = user;
    bench_model model;
    order order;
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

static int listen_raw(uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t length = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 1) ||
        getsockname(fd, (struct sockaddr *)&at, &length))
        bench_die("no raw socket");
    *port = ntohs(at.sin_port);
    return fd;
}

static void give_raw(int listen_fd, const bench_model *model)
{
    char go;
    int fd = accept(listen_fd, NULL, NULL);
    if (fd < 0 || !bench_receive(fd, &go, 1))
        bench_die("no raw connection");
    const char *at = (const char *)model->weights;
    for (uint64_t sent = 0; sent < model->bytes; sent += WRITE_BYTES)
        bench_send(fd, at + sent, model->bytes - sent < WRITE_BYTES ? model->bytes - sent : WRITE_BYTES);
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
    bench_options options = {"tcp", 256, 7, 1};
    bench_model model;
    bench_child child;
    static figures weft, raw, warm;
    order snapshot = {.what = 's'}, stream = {.what = 'r'};
    weft_version newest;
    bench_options_read(argc, argv, &options);
    bench_child_open(&child, run_rollout, &options);
    bench_model_open(&model, options.mib);
    int raw_fd = listen_raw(&stream.port);
    weft_session *trainer = bench_trainer_open(&options, "30s", &model, snapshot.listen);
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
    printf("T1: %.3f of the raw stream (bar 0.90)\n",
           bench_median(raw.ms, options.rounds) / bench_median(weft.ms, options.rounds));
    weft_close(trainer);
    bench_child_close(&child);
    bench_model_close(&model);
    close(raw_fd);
    return 0;
}
