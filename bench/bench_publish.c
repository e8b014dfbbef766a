/* bench_publish.c - one publish with a peer gone silent beside one without (bar F1), and how soon a killed (F2) and a
 * silent peer (F3) are reported lost. Silent is stopped by a signal, or cut off by the command --cut until --mend.
 *
 * The trainer and three rollouts are processes of their own on loopback. Blocks with all alive and with one stopped
 * alternate; between publishes everybody that runs holds the version and has been quiet for a moment, so that a
 * publish is timed alone. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fleet.h"

#define PEERS         3
#define BLOCK         3   /* publishes before the other condition's turn */
#define CHANGE_STRIDE 100 /* one element in so many changes */
#define QUIET_MS      20
#define DEADLINE_MS   30000
#define HEARTBEAT_MS  1000 /* of F3 */

static const char *const names[PEERS] = {"a", "b", "c"};

typedef struct fleet {
    const bench_options *options;
    bench_model model;
    weft_session *trainer;
    char listen[64];
    bench_child peers[PEERS];
    uint64_t version;
} fleet;

typedef struct order {
    char name[8], place[64], listen[64];
} order;

/* ---- rollout */

static void run_rollout(int in, int out, const void *user)
{
    const bench_options *options = user;
    bench_model model;
    order order;
    weft_session *rollout;
    (void)out;
    if (!bench_receive(in, &order, sizeof order))
        return;
    bench_netns_enter(order.place);
    bench_model_open(&model, options->mib);
    weft_site *site = bench_site(options, order.listen, "30s");
    bench_need(weft_rollout_open(site, order.name, model.layout, NULL, &rollout), "open a rollout");
    bench_need(weft_bind(rollout, model.pieces, model.count, NULL, 0, 0), "bind a rollout");
    for (;;) {
        weft_staged_info staged = {.size = sizeof staged};
        weft_status status = weft_staged(rollout, DEADLINE_MS, &staged);
        if (status != WEFT_AGAIN)
            bench_need(status, "wait for a version");
        if (status == WEFT_OK)
            weft_commit(rollout, staged.target.number, NULL, 0, NULL); /* a failure joins again */
    }
}

/* ---- trainer */

static void start_peer(fleet *fleet, int at)
{
    order order = {0};
    snprintf(order.name, sizeof order.name, "%s", names[at]);
    if (fleet->options->peers[at])
        snprintf(order.place, sizeof order.place, "%s", fleet->options->peers[at]);
    memcpy(order.listen, fleet->listen, sizeof order.listen);
    bench_send(fleet->peers[at].to, &order, sizeof order);
}

static void wait_all(fleet *fleet, int count)
{
    bench_need(weft_wait(fleet->trainer, fleet->version, names, (size_t)count, DEADLINE_MS), "wait for the peers");
}

/* Children are forked before the trainer opens: a process with threads must not fork and go on. */
static void open_fleet(fleet *fleet, const bench_options *options, const char *heartbeat)
{
    memset(fleet, 0, sizeof *fleet);
    fleet->options = options;
    for (int i = 0; i < PEERS; i++)
        bench_child_open(&fleet->peers[i], run_rollout, options);
    bench_model_open(&fleet->model, options->mib);
    fleet->trainer = bench_trainer_open(options, heartbeat, &fleet->model, fleet->listen);
    for (int i = 0; i < PEERS; i++)
        start_peer(fleet, i);
    wait_all(fleet, PEERS);
}

static void close_fleet(fleet *fleet)
{
    for (int i = 0; i < PEERS; i++)
        bench_child_close(&fleet->peers[i]);
    weft_close(fleet->trainer);
    bench_model_close(&fleet->model);
}

/* CPU time of the calling thread: what a publish costs whoever else wants the cores. */
static double thread_cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

typedef struct figures {
    double publish_ms[BENCH_ROUNDS_MAX]; /* the call */
    double cpu_ms[BENCH_ROUNDS_MAX];     /* of the calling thread in it */
    double held_ms[BENCH_ROUNDS_MAX];    /* from the call until the peers hold it */
    int count;
} figures;

static void publish(fleet *fleet, int live, figures *into)
{
    int at = into->count++;
    bench_model_step(&fleet->model, CHANGE_STRIDE, ++fleet->version);
    bench_sleep_ms(QUIET_MS);
    double begun = bench_now_ms(), begun_cpu = thread_cpu_ms();
    bench_need(weft_publish(fleet->trainer, fleet->version, NULL, NULL, NULL), "publish");
    into->publish_ms[at] = bench_now_ms() - begun;
    into->cpu_ms[at] = thread_cpu_ms() - begun_cpu;
    wait_all(fleet, live);
    into->held_ms[at] = bench_now_ms() - begun;
}

static void print(const char *what, const figures *figures)
{
    printf("%-12s %8.2f ms publish (%.2f ms CPU)  %8.2f ms until two peers hold it\n", what,
           bench_median(figures->publish_ms, figures->count), bench_median(figures->cpu_ms, figures->count),
           bench_median(figures->held_ms, figures->count));
}

static double ratio(const double *with, const double *without, int count)
{
    return bench_median(with, count) / bench_median(without, count);
}

static void run(const char *command)
{
    if (system(command) != 0)
        bench_die(command);
}

/* The last peer says nothing more, or speaks again. */
static void silence(const fleet *fleet)
{
    if (fleet->options->cut)
        run(fleet->options->cut);
    else
        kill(fleet->peers[PEERS - 1].pid, SIGSTOP);
}

static void wake(const fleet *fleet)
{
    if (fleet->options->cut)
        run(fleet->options->mend);
    else
        kill(fleet->peers[PEERS - 1].pid, SIGCONT);
}

static void measure_publish(fleet *fleet)
{
    static figures alive, stopped, warm;
    int rounds = fleet->options->rounds;
    publish(fleet, PEERS, &warm);
    while (stopped.count < rounds) {
        for (int i = 0; i < BLOCK && alive.count < rounds; i++) {
            publish(fleet, PEERS - 1, &alive);
            wait_all(fleet, PEERS);
        }
        silence(fleet);
        for (int i = 0; i < BLOCK && stopped.count < rounds; i++)
            publish(fleet, PEERS - 1, &stopped);
        wake(fleet);
        wait_all(fleet, PEERS);
    }
    printf("publish of %llu MiB of bf16 at 1 %%, provider %s, three rollouts, median of %d\n",
           (unsigned long long)fleet->options->mib, fleet->options->provider, rounds);
    print("all alive", &alive);
    print(fleet->options->cut ? "one cut off" : "one stopped", &stopped);
    printf("F1: publish %.3f (CPU %.3f), until held %.3f of all alive (bar 1.1)\n",
           ratio(stopped.publish_ms, alive.publish_ms, rounds), ratio(stopped.cpu_ms, alive.cpu_ms, rounds),
           ratio(stopped.held_ms, alive.held_ms, rounds));
    printf(
        "{\"what\": \"publish\", \"silent\": \"%s\", \"alive_ms\": %.3f, \"silent_ms\": %.3f, \"alive_cpu_ms\": %.3f, "
        "\"silent_cpu_ms\": %.3f, \"alive_held_ms\": %.3f, \"silent_held_ms\": %.3f}\n",
        fleet->options->cut ? "cut" : "stopped", bench_median(alive.publish_ms, rounds),
        bench_median(stopped.publish_ms, rounds), bench_median(alive.cpu_ms, rounds),
        bench_median(stopped.cpu_ms, rounds), bench_median(alive.held_ms, rounds),
        bench_median(stopped.held_ms, rounds));
}

/* From the last peer's death or silence until the trainer's event. */
static double time_loss(fleet *fleet, bool killed)
{
    weft_event event = {.size = sizeof event};
    while (weft_events(fleet->trainer, &event) == WEFT_OK)
        ;
    double begun = bench_now_ms();
    if (killed)
        kill(fleet->peers[PEERS - 1].pid, SIGKILL);
    else
        silence(fleet);
    while (bench_now_ms() < begun + DEADLINE_MS) {
        if (weft_events(fleet->trainer, &event) == WEFT_OK && event.kind == WEFT_EVENT_LOST &&
            strcmp(event.peer, names[PEERS - 1]) == 0)
            return bench_now_ms() - begun;
        bench_sleep_ms(0.1);
    }
    bench_die("the loss of a peer was never reported");
}

static double measure_loss(const bench_options *options, const char *heartbeat, bool killed)
{
    double ms[BENCH_ROUNDS_MAX];
    for (int i = 0; i < options->rounds; i++) {
        fleet fleet;
        open_fleet(&fleet, options, heartbeat);
        bench_sleep_ms(QUIET_MS * (1 + i)); /* not always at one phase of the heartbeat */
        ms[i] = time_loss(&fleet, killed);
        if (!killed)
            wake(&fleet);
        close_fleet(&fleet);
    }
    return bench_median(ms, options->rounds);
}

int main(int argc, char **argv)
{
    bench_options options = {.provider = "tcp", .mib = 64, .rounds = 9, .seconds = 1};
    char heartbeat[16];
    fleet fleet;
    bench_options_read(argc, argv, &options);
    open_fleet(&fleet, &options, "30s");
    measure_publish(&fleet);
    close_fleet(&fleet);
    bench_options brief = options;
    brief.mib = 4;
    brief.rounds = options.rounds < 5 ? options.rounds : 5;
    double killed_ms = measure_loss(&brief, "30s", true);
    printf("F2: a killed peer is reported lost after %.2f ms (bar 1000), median of %d\n", killed_ms, brief.rounds);
    snprintf(heartbeat, sizeof heartbeat, "%dms", HEARTBEAT_MS);
    double stopped_ms = measure_loss(&brief, heartbeat, false);
    printf("F3: a silent peer is reported lost %.1f ms after its last word could be heard, heartbeat %d ms: %+.1f ms "
           "(bar +500), median of "
           "%d\n",
           stopped_ms, HEARTBEAT_MS, stopped_ms - HEARTBEAT_MS, brief.rounds);
    printf("{\"what\": \"loss\", \"silent\": \"%s\", \"killed_ms\": %.3f, \"silent_ms\": %.3f, \"heartbeat_ms\": %d}\n",
           options.cut ? "cut" : "stopped", killed_ms, stopped_ms, HEARTBEAT_MS);
    return 0;
}
