/* bench_rejoin.c - what a rollout receives that comes back after some versions, beside the one update that leads from
 * what it holds to the newest version (bar F4).
 *
 * Each round: it leaves, versions go by, it joins again with the weights it had. The update beside it is what weft_diff
 * makes of both ends, at the level that the peer was served with and at the densest. */
#include <stdio.h>
#include <stdlib.h>

#include "harness/share.h"
#include "rig.h"

#define MISSED_MOST 16

static weft_status count_bytes(void *user, const void *data, uint64_t bytes)
{
    (void)data;
    *(uint64_t *)user += bytes;
    return WEFT_OK;
}

static uint64_t merged_bytes(const fleet_share *base, const weft_model *model, const char *level)
{
    uint64_t bytes = 0, count;
    const weft_piece *target = weft_model_pieces(model, &count);
    weft_piece *from = calloc(count, sizeof *from);
    weft_diff_options options = {.size = sizeof options, .level = level, .target = {0, 1, 0}};
    weft_sink sink = {&bytes, count_bytes};
    for (uint64_t i = 0; from && i < count; i++) {
        from[i] = target[i];
        from[i].data = base->blocks[i].data;
    }
    fleet_need(weft_diff(weft_model_layout(model), from, count, target, count, &options, NULL, &sink, NULL),
               "diff both ends");
    free(from);
    return bytes;
}

static void run_round(bench_rig *rig, const fleet_share *base, int round, int missed)
{
    uint64_t single = 0;
    weft_peer_info peer = {.level = "fast"};
    weft_update_info info = {.size = sizeof info};
    fleet_share_fill(base, rig->model);
    bench_peer_do(&rig->peers[0], BENCH_LEAVE, NULL, 0);
    for (int i = 0; i < missed; i++) {
        bench_rig_step(rig);
        bench_rig_publish_ms(rig, &info);
        single += info.bytes;
    }
    double begun = bench_now_ms();
    bench_peer_do(&rig->peers[0], BENCH_JOIN, rig->listen, 0);
    bench_rig_wait(rig, 1);
    double held_ms = bench_now_ms() - begun;
    bench_report report = bench_peer_do(&rig->peers[0], BENCH_ASK, NULL, 0);
    fleet_find(rig->trainer, rig->names[0], &peer);
    printf("{\"what\": \"rejoin\", \"round\": %d, \"missed\": %d, \"level\": \"%s\", \"received_bytes\": %llu, "
           "\"updates\": %llu, \"merged_bytes\": %llu, \"densest_bytes\": %llu, \"single_bytes\": %llu, \"held_ms\": "
           "%.3f}\n",
           round, missed, peer.level, (unsigned long long)report.bytes, (unsigned long long)report.updates,
           (unsigned long long)merged_bytes(base, rig->model, peer.level),
           (unsigned long long)merged_bytes(base, rig->model, "tight"), (unsigned long long)single, held_ms);
}

int main(int argc, char **argv)
{
    bench_rig rig;
    fleet_share base;
    bench_options options = {.provider = "tcp", .mib = 64, .rounds = 1, .seconds = 1, .changed = 1.17};
    bench_options_read(argc, argv, &options);
    bench_rig_open(&rig, &options);
    bench_rig_join_all(&rig);
    fleet_share_open(&base, rig.model, FLEET_WHOLE, true);
    for (int round = 0; round < options.rounds; round++)
        for (int missed = 1; missed <= MISSED_MOST; missed *= 4)
            run_round(&rig, &base, round, missed);
    bench_rig_close(&rig);
    fleet_share_close(&base);
    return 0;
}
