/* bench_memory.c - memory of both ends beyond the weights (bars M1, M2), and allocations per update (M3).
 *
 * Resident memory of each process, anonymous and shared pages, after a run of updates less the same before its session
 * was opened; the weights are in both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static uint64_t size_of(const weft_site *site, const char *peer, const char *key)
{
    char text[64];
    char *end;
    fleet_need(weft_site_get(site, peer, key, text, sizeof text), key);
    uint64_t number = strtoull(text, &end, 10);
    return strcmp(end, "KiB") == 0   ? number << 10
           : strcmp(end, "MiB") == 0 ? number << 20
           : strcmp(end, "GiB") == 0 ? number << 30
                                     : number;
}

static void publish(bench_rig *rig, int count)
{
    for (int i = 0; i < count; i++) {
        bench_rig_step(rig);
        bench_rig_publish_ms(rig, NULL);
        bench_rig_wait(rig, 1);
    }
}

int main(int argc, char **argv)
{
    bench_rig rig;
    bench_options options = {.provider = "tcp", .mib = 256, .rounds = 10, .seconds = 1, .changed = 1.17};
    options.sets[options.set_count++] = "trainer.journal=256MiB"; /* the bars are bounds by what the site says */
    options.sets[options.set_count++] = "peers.staging=256MiB";
    options.sets[options.set_count++] = "peers.bucket_max=4MiB";
    bench_options_read(argc, argv, &options);
    bench_rig_open(&rig, &options);
    weft_site *site = bench_site(&options, NULL, "60s");
    const char *peer = rig.names[0];
    bench_report before = bench_peer_do(&rig.peers[0], BENCH_ASK, NULL, 0);
    bench_rig_join_all(&rig);
    publish(&rig, 2);
    uint64_t own = fleet_stats(rig.trainer).allocations;
    bench_report first = bench_peer_do(&rig.peers[0], BENCH_ASK, NULL, 0);
    publish(&rig, options.rounds);
    bench_report after = bench_peer_do(&rig.peers[0], BENCH_ASK, NULL, 0);
    const weft_stats_info stats = fleet_stats(rig.trainer);
    printf("{\"what\": \"memory\", \"model_bytes\": %llu, \"trainer_bytes\": %llu, \"trainer_said_bytes\": %llu, "
           "\"journal_limit_bytes\": %llu, \"journal_bytes\": %llu, \"trainer_allocations\": %llu, ",
           (unsigned long long)weft_layout_bytes(weft_model_layout(rig.model)),
           (unsigned long long)(bench_resident_bytes() - rig.resident_bytes), (unsigned long long)stats.memory_bytes,
           (unsigned long long)size_of(site, NULL, "trainer.journal"), (unsigned long long)stats.journal_bytes,
           (unsigned long long)(stats.allocations - own));
    printf("\"rollout_bytes\": %llu, \"rollout_said_bytes\": %llu, \"slots_bytes\": %llu, \"staging_bytes\": %llu, "
           "\"rollout_allocations\": %llu, \"updates\": %d}\n",
           (unsigned long long)(after.resident_bytes - before.resident_bytes), (unsigned long long)after.bound_bytes,
           (unsigned long long)(size_of(site, peer, "peer.window") * size_of(site, peer, "peer.bucket_max")),
           (unsigned long long)size_of(site, peer, "peer.staging"),
           (unsigned long long)(after.allocations - first.allocations), options.rounds);
    weft_site_free(site);
    bench_rig_close(&rig);
    return 0;
}
