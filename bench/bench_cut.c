/* bench_cut.c - a peer with several rails, one of which is cut in the middle of an update and mended after the next
 * one: the rate by all rails, by what is left, and by all again; what was sent again, and when the peer holds the
 * update that was under way.
 *
 * --cut and --mend are shell commands that take the cable of one rail out and put it in again. The first round is not
 * counted. Every line printed is a JSON object: one a round, with all figures of that round. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define SETTLE_MS 20
#define POLL_MS   0.25

typedef struct work {
    bench_rig rig;
    uint64_t bytes; /* of the last update, as it was sent */
    weft_peer_info before;
    double cut_ms, failed_ms; /* when the cable was taken out; when the trainer gave the rail up */
} work;

static weft_peer_info look(const work *work)
{
    weft_peer_info info = {.size = sizeof info};
    size_t count = 0;
    bench_need(weft_peers(work->rig.trainer, &info, 1, &count), "peers");
    if (count != 1 || info.state == WEFT_PEER_LOST)
        bench_die("the peer was lost, though a rail was left");
    return info;
}

typedef struct sums {
    uint64_t bytes, resent, failures;
    uint32_t up;
} sums;

static sums all_rails(const weft_peer_info *info)
{
    sums all = {0};
    for (uint32_t at = 0; at < info->rail_count; at++) {
        all.bytes += info->rails[at].bytes;
        all.resent += info->rails[at].resent_bytes;
        all.failures += info->rails[at].failures;
        all.up += info->rails[at].up;
    }
    return all;
}

static void run(const char *command)
{
    if (system(command) != 0)
        bench_die(command);
}

/* Publishes the next version: until it is held, from the call. */
static double publish(work *work)
{
    weft_update_info info = {.size = sizeof info};
    bench_rig_step(&work->rig);
    bench_sleep_ms(SETTLE_MS);
    double begun = bench_now_ms();
    bench_rig_publish_ms(&work->rig, &info);
    bench_rig_wait(&work->rig, 1);
    const double ms = bench_now_ms() - begun;
    bench_sleep_ms(SETTLE_MS);
    work->bytes = look(work).update_bytes;
    return ms;
}

/* Cuts when half of as much as the last update was sent, and waits until the rail is given up. */
static void *cut(void *argument)
{
    work *work = argument;
    const sums before = all_rails(&work->before);
    double end_ms = bench_now_ms() + BENCH_DEADLINE_MS;
    weft_peer_info info = look(work);
    while (all_rails(&info).bytes < before.bytes + work->bytes / 2 && bench_now_ms() < end_ms) {
        bench_sleep_ms(POLL_MS);
        info = look(work);
    }
    run(work->rig.options->cut);
    work->cut_ms = bench_now_ms();
    while (all_rails(&info).failures == before.failures && bench_now_ms() < end_ms) {
        bench_sleep_ms(POLL_MS);
        info = look(work);
    }
    work->failed_ms = bench_now_ms();
    if (all_rails(&info).failures == before.failures)
        bench_die("the rail that was cut was never given up");
    return NULL;
}

static double publish_cut(work *work)
{
    pthread_t cutter;
    work->before = look(work);
    if (pthread_create(&cutter, NULL, cut, work) != 0)
        bench_die("no thread");
    double ms = publish(work);
    pthread_join(cutter, NULL);
    return ms;
}

/* Puts the cable in again: until all rails carry. */
static double mend(const work *work, uint32_t rails)
{
    double begun = bench_now_ms();
    run(work->rig.options->mend);
    for (;;) {
        const weft_peer_info info = look(work);
        if (all_rails(&info).up == rails)
            return bench_now_ms() - begun;
        if (bench_now_ms() > begun + BENCH_DEADLINE_MS)
            bench_die("the rail that was mended never carried again");
        bench_sleep_ms(POLL_MS);
    }
}

/* A rail that failed before is tried ever more seldom: each round is the first of a connection. */
static void rejoin(work *work)
{
    bench_peer_leave(&work->rig.peers[0]);
    bench_peer_join(&work->rig.peers[0], work->rig.listen);
    bench_rig_wait(&work->rig, 1);
    publish(work);
}

static void run_round(work *work, int round)
{
    rejoin(work);
    const double whole_ms = publish(work);
    const uint64_t bytes = work->bytes;
    const double cut_held_ms = publish_cut(work);
    const weft_peer_info after = look(work);
    const sums was = all_rails(&work->before), is = all_rails(&after);
    const double left_ms = publish(work), back_ms = mend(work, was.up), again_ms = publish(work);
    if (round == 0)
        return;
    printf("{\"what\": \"cut\", \"round\": %d, \"bytes\": %llu, \"whole_ms\": %.3f, \"held_ms\": %.3f, "
           "\"failed_ms\": %.3f, \"resent_bytes\": %llu, \"failures\": %llu, \"left_ms\": %.3f, \"back_ms\": %.3f, "
           "\"again_ms\": %.3f}\n",
           round, (unsigned long long)bytes, whole_ms, cut_held_ms, work->failed_ms - work->cut_ms,
           (unsigned long long)(is.resent - was.resent), (unsigned long long)(is.failures - was.failures), left_ms,
           back_ms, again_ms);
}

int main(int argc, char **argv)
{
    static work work;
    bench_options options = {.provider = "tcp", .mib = 64, .rounds = 5, .seconds = 1, .changed = 12};
    bench_options_read(argc, argv, &options);
    if (!options.cut || !options.mend || options.peer_count != 1)
        bench_die("this needs --peer, --cut and --mend: see bench/links/cut.sh");
    bench_rig_open(&work.rig, &options);
    bench_rig_join_all(&work.rig);
    for (int round = 0; round <= options.rounds; round++)
        run_round(&work, round);
    bench_rig_close(&work.rig);
    return 0;
}
