/* bench_updates.c - updates over given links: from the call of weft_publish until each peer has proved that it holds
 * the version, beside a raw TCP stream of the same bytes over the same link (bars T3 to T6).
 *
 * One made-up model (its weights and steps obey the law of the exponents), one process a peer. In each round every peer
 * first takes the raw stream, alone; then one version is published and all take it at once. The first two rounds are
 * not counted. Every line printed is a JSON object: one a round, with all figures of that round. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"

#define SETTLE_MS     20
#define POLL_MS       0.5
#define BULK_MS_LEAST 400.0 /* the link's own rate is taken from a stream of at least so long */

typedef struct work {
    bench_rig rig;
    double bulk_bytes_s[BENCH_PEERS_MAX];
    double raw_ms[BENCH_PEERS_MAX]; /* of as many bytes as the last update took */
    double held_ms[BENCH_PEERS_MAX];
    weft_peer_info infos[BENCH_PEERS_MAX];
    uint64_t version; /* being published */
    double begun;     /* when that began */
} work;

static double raw_ms(bench_rig *rig, int peer, uint64_t bytes)
{
    uint64_t count;
    const void *data = weft_model_pieces(rig->model, &count)[0].data;
    return bench_peer_raw(&rig->peers[peer], rig->listen, data, bytes).ms;
}

/* The link's rate when nothing but the link matters: a stream that is made longer until it takes a while. */
static void measure_bulk(work *work)
{
    for (int i = 0; i < work->rig.options->peer_count; i++)
        for (uint64_t bytes = 1u << 20;; bytes *= 4) {
            double ms = raw_ms(&work->rig, i, bytes);
            work->bulk_bytes_s[i] = (double)bytes / ms * 1e3;
            if (ms >= BULK_MS_LEAST)
                break;
        }
}

/* Bytes that left this process's network namespace by its wires so far, headers of the network included. */
static uint64_t wire_bytes(void)
{
    char line[512], name[64];
    unsigned long long sent;
    uint64_t bytes = 0;
    FILE *file = fopen("/proc/self/net/dev", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, " %63[^:]: %*u %*u %*u %*u %*u %*u %*u %*u %llu", name, &sent) == 2 && strcmp(name, "lo") != 0)
            bytes += sent;
    if (file)
        fclose(file);
    return bytes;
}

/* A thread that waits for one peer. */
typedef struct watcher {
    pthread_t thread;
    work *work;
    int peer;
} watcher;

/* Until the peer holds the version, and when it did: on a thread of its own, since that may be before weft_publish
 * returns. What is encoded still is no version yet, which is found out without disturbing the session. */
static void *watch(void *argument)
{
    const watcher *watcher = argument;
    work *work = watcher->work;
    const char *name = work->rig.peers[watcher->peer].name;
    weft_status status;
    while ((status = weft_wait(work->rig.trainer, work->version, &name, 1, BENCH_DEADLINE_MS)) == WEFT_E_STATE &&
           bench_now_ms() < work->begun + BENCH_DEADLINE_MS)
        bench_sleep_ms(POLL_MS);
    work->held_ms[watcher->peer] = bench_now_ms() - work->begun;
    fleet_need(status, "hold a version");
    return NULL;
}

/* Publishes the next version and waits until all hold it; how long the call took. */
static double publish(work *work, weft_update_info *info)
{
    watcher watchers[BENCH_PEERS_MAX];
    const int count = work->rig.options->peer_count;
    work->version = work->rig.version + 1;
    work->begun = bench_now_ms();
    for (int i = 0; i < count; i++) {
        watchers[i] = (watcher){.work = work, .peer = i};
        if (pthread_create(&watchers[i].thread, NULL, watch, &watchers[i]) != 0)
            fleet_fail("no thread");
    }
    double ms = bench_rig_publish_ms(&work->rig, info);
    for (int i = 0; i < count; i++)
        pthread_join(watchers[i].thread, NULL);
    return ms;
}

static void print_peer(const work *work, int at)
{
    const weft_peer_info *info = &work->infos[at];
    printf("%s{\"name\": \"%s\", \"level\": \"%s\", \"held_ms\": %.3f, \"raw_ms\": %.3f, \"bulk_bytes_s\": %.0f, "
           "\"send_ms\": %.3f, \"apply_ms\": %.3f, \"commit_ms\": %.3f, \"bytes\": %llu, \"bucket_bytes\": %llu, "
           "\"rate_bytes_s\": %.0f, \"rtt_ms\": %.4f}",
           at ? ", " : "", info->name, info->level, work->held_ms[at], work->raw_ms[at], work->bulk_bytes_s[at],
           info->send_ms, info->apply_ms, info->commit_ms, (unsigned long long)info->update_bytes,
           (unsigned long long)info->bucket_bytes, info->rate_bytes_s, info->rtt_ms);
}

static void print_round(const work *work, int round, const weft_update_info *info, double publish_ms, uint64_t wire,
                        uint64_t sent)
{
    printf("{\"what\": \"update\", \"round\": %d, \"elements\": %llu, \"changed\": %llu, \"dense_bytes\": %llu, "
           "\"bytes\": %llu, \"wire_bytes\": %llu, \"sent_bytes\": %llu, \"publish_ms\": %.3f, \"diff_ms\": %.3f, "
           "\"encode_ms\": %.3f, "
           "\"peers\": [",
           round, (unsigned long long)info->elements, (unsigned long long)info->changed,
           (unsigned long long)info->dense_bytes, (unsigned long long)info->bytes, (unsigned long long)wire,
           (unsigned long long)sent, publish_ms, info->diff_ms, info->encode_ms);
    for (int i = 0; i < work->rig.options->peer_count; i++)
        print_peer(work, i);
    printf("]}\n");
}

static void run_round(work *work, int round)
{
    weft_update_info info = {.size = sizeof info};
    for (int i = 0; round > 1 && i < work->rig.options->peer_count; i++)
        work->raw_ms[i] = raw_ms(&work->rig, i, work->infos[i].update_bytes);
    bench_rig_step(&work->rig);
    bench_sleep_ms(SETTLE_MS);
    uint64_t wire = wire_bytes(), sent = fleet_stats(work->rig.trainer).bytes_sent;
    double publish_ms = publish(work, &info);
    wire = wire_bytes() - wire;
    bench_sleep_ms(SETTLE_MS);
    for (int i = 0; i < work->rig.options->peer_count; i++)
        fleet_find(work->rig.trainer, work->rig.peers[i].name, &work->infos[i]);
    if (round > 1)
        print_round(work, round - 1, &info, publish_ms, wire, fleet_stats(work->rig.trainer).bytes_sent - sent);
}

int main(int argc, char **argv)
{
    static work work;
    bench_options options = {.provider = "tcp", .mib = 128, .rounds = 5, .seconds = 1, .changed = 1.17};
    bench_options_read(argc, argv, &options);
    bench_rig_open(&work.rig, &options);
    bench_rig_join_all(&work.rig);
    measure_bulk(&work);
    for (int round = 0; round <= options.rounds + 1; round++)
        run_round(&work, round);
    bench_rig_close(&work.rig);
    return 0;
}
