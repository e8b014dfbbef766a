/* bench_publish.c - one publish with a peer gone silent beside one without (bar F1), and the time until a killed (F2)
 * and a silent peer (F3) are reported lost. A signal stops the silent peer, or the command --cut cuts it off until
 * --mend.
 *
 * The trainer and three rollouts are processes of their own on loopback. Blocks with all alive and with one stopped
 * alternate. Between publishes everybody that runs holds the version and has been quiet for a moment, so that a publish
 * is timed alone. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define PEERS        3
#define BLOCK        3 /* publishes before the other condition's turn */
#define QUIET_MS     20
#define DEADLINE_MS  30000
#define HEARTBEAT_MS 1000 /* of F3 */

static pid_t silent_pid(const bench_rig *rig)
{
    return rig->peers[PEERS - 1].process.pid;
}

typedef struct figures {
    double publish_ms[BENCH_ROUNDS_MAX]; /* the call */
    double cpu_ms[BENCH_ROUNDS_MAX];     /* of the calling thread in it */
    double held_ms[BENCH_ROUNDS_MAX];    /* from the call until the peers hold it */
    int count;
} figures;

static void publish(bench_rig *rig, int live, figures *into)
{
    int at = into->count++;
    bench_rig_step(rig);
    bench_sleep_ms(QUIET_MS);
    double begun = bench_now_ms(), begun_cpu = bench_thread_ms();
    into->publish_ms[at] = bench_rig_publish_ms(rig, NULL);
    into->cpu_ms[at] = bench_thread_ms() - begun_cpu;
    bench_rig_wait(rig, live);
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
        fleet_fail("%s failed", command);
}

/* The last peer says nothing more, or speaks again. */
static void silence(const bench_rig *rig)
{
    if (rig->options->cut)
        run(rig->options->cut);
    else
        kill(silent_pid(rig), SIGSTOP);
}

static void wake(const bench_rig *rig)
{
    if (rig->options->cut)
        run(rig->options->mend);
    else
        kill(silent_pid(rig), SIGCONT);
}

static void measure_publish(bench_rig *rig)
{
    static figures alive, stopped, warm;
    int rounds = rig->options->rounds;
    publish(rig, PEERS, &warm);
    while (stopped.count < rounds) {
        for (int i = 0; i < BLOCK && alive.count < rounds; i++) {
            publish(rig, PEERS - 1, &alive);
            bench_rig_wait(rig, PEERS);
        }
        silence(rig);
        for (int i = 0; i < BLOCK && stopped.count < rounds; i++)
            publish(rig, PEERS - 1, &stopped);
        wake(rig);
        bench_rig_wait(rig, PEERS);
    }
    printf("publish of %llu MiB of bf16 at 1 %%, provider %s, three rollouts, median of %d\n",
           (unsigned long long)rig->options->mib, rig->options->provider, rounds);
    print("all alive", &alive);
    print(rig->options->cut ? "one cut off" : "one stopped", &stopped);
    printf("F1: publish %.3f (CPU %.3f), until held %.3f of all alive (bar 1.1)\n",
           ratio(stopped.publish_ms, alive.publish_ms, rounds), ratio(stopped.cpu_ms, alive.cpu_ms, rounds),
           ratio(stopped.held_ms, alive.held_ms, rounds));
    printf(
        "{\"what\": \"publish\", \"silent\": \"%s\", \"alive_ms\": %.3f, \"silent_ms\": %.3f, \"alive_cpu_ms\": %.3f, "
        "\"silent_cpu_ms\": %.3f, \"alive_held_ms\": %.3f, \"silent_held_ms\": %.3f}\n",
        rig->options->cut ? "cut" : "stopped", bench_median(alive.publish_ms, rounds),
        bench_median(stopped.publish_ms, rounds), bench_median(alive.cpu_ms, rounds),
        bench_median(stopped.cpu_ms, rounds), bench_median(alive.held_ms, rounds),
        bench_median(stopped.held_ms, rounds));
}

/* From the last peer's death or silence until the trainer's event. */
static double time_loss(bench_rig *rig, bool killed)
{
    weft_event event = {.size = sizeof event};
    while (weft_events(rig->trainer, &event) == WEFT_OK)
        ;
    double begun = bench_now_ms();
    if (killed)
        kill(silent_pid(rig), SIGKILL);
    else
        silence(rig);
    while (bench_now_ms() < begun + DEADLINE_MS) {
        if (weft_events(rig->trainer, &event) == WEFT_OK && event.kind == WEFT_EVENT_LOST &&
            strcmp(event.peer, rig->names[PEERS - 1]) == 0)
            return bench_now_ms() - begun;
        bench_sleep_ms(0.1);
    }
    fleet_fail("the loss of a peer was never reported");
}

static double measure_loss(bench_options *options, bool killed)
{
    double ms[BENCH_ROUNDS_MAX];
    for (int i = 0; i < options->rounds; i++) {
        bench_rig rig;
        bench_rig_open(&rig, options);
        bench_rig_join_all(&rig);
        bench_sleep_ms(QUIET_MS * (1 + i)); /* not always at one phase of the heartbeat */
        ms[i] = time_loss(&rig, killed);
        if (!killed)
            wake(&rig);
        bench_rig_close(&rig);
    }
    return bench_median(ms, options->rounds);
}

int main(int argc, char **argv)
{
    static const char *const names[PEERS] = {"a", "b", "c"};
    bench_options options = {.provider = "tcp", .mib = 64, .rounds = 9, .seconds = 1, .changed = 1, .heartbeat = "30s"};
    char heartbeat[16];
    bench_rig rig;
    bench_options_read(argc, argv, &options);
    while (options.peer_count < PEERS) {
        options.peers[options.peer_count] = names[options.peer_count];
        options.peer_count++;
    }
    options.peer_count = PEERS;
    bench_rig_open(&rig, &options);
    bench_rig_join_all(&rig);
    measure_publish(&rig);
    bench_rig_close(&rig);
    bench_options brief = options;
    brief.mib = 4;
    brief.rounds = options.rounds < 5 ? options.rounds : 5;
    double killed_ms = measure_loss(&brief, true);
    printf("F2: a killed peer is reported lost after %.2f ms (bar 1000), median of %d\n", killed_ms, brief.rounds);
    snprintf(heartbeat, sizeof heartbeat, "%dms", HEARTBEAT_MS);
    brief.heartbeat = heartbeat;
    double stopped_ms = measure_loss(&brief, false);
    printf("F3: a silent peer is reported lost %.1f ms after its last word could be heard, heartbeat %d ms: %+.1f ms "
           "(bar +500), median of "
           "%d\n",
           stopped_ms, HEARTBEAT_MS, stopped_ms - HEARTBEAT_MS, brief.rounds);
    printf("{\"what\": \"loss\", \"silent\": \"%s\", \"killed_ms\": %.3f, \"silent_ms\": %.3f, \"heartbeat_ms\": %d}\n",
           options.cut ? "cut" : "stopped", killed_ms, stopped_ms, HEARTBEAT_MS);
    return 0;
}
