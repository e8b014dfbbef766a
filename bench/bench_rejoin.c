/* bench_rejoin.c - what a rollout receives that comes back after some versions, beside the one update that leads from
 * what it holds to the newest version (bar F4).
 *
 * Each round: it leaves, versions go by, it joins again with the weights it had. The update beside it is what weft_diff
 * makes of both ends, at the level that the peer was served with and at the densest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define MISSED_MOST 16

typedef struct image {
    uint8_t *memory;
    weft_piece *pieces;
    uint64_t count, bytes;
} image;

static image image_open(const weft_model *model)
{
    image image = {.bytes = weft_layout_bytes(weft_model_layout(model))};
    const weft_piece *from = weft_model_pieces(model, &image.count);
    image.memory = aligned_alloc(64, (image.bytes + 64 * image.count + 63) / 64 * 64);
    image.pieces = calloc(image.count, sizeof *image.pieces);
    if (!image.memory || !image.pieces)
        bench_die("no memory for a copy of the weights");
    uint8_t *at = image.memory;
    for (uint64_t i = 0; i < image.count; i++) {
        image.pieces[i] = from[i];
        image.pieces[i].data = at;
        at += (weft_layout_tensor_bytes(weft_model_layout(model), from[i].tensor) + 63) / 64 * 64;
    }
    return image;
}

static void image_fill(const image *image, const weft_model *model)
{
    uint64_t count;
    const weft_piece *from = weft_model_pieces(model, &count);
    for (uint64_t i = 0; i < count; i++)
        memcpy(image->pieces[i].data, from[i].data, weft_layout_tensor_bytes(weft_model_layout(model), from[i].tensor));
}

static weft_status count_bytes(void *user, const void *data, uint64_t bytes)
{
    (void)data;
    *(uint64_t *)user += bytes;
    return WEFT_OK;
}

static uint64_t merged_bytes(const image *base, const weft_model *model, const char *level)
{
    uint64_t bytes = 0, count;
    const weft_piece *target = weft_model_pieces(model, &count);
    weft_diff_options options = {.size = sizeof options, .level = level, .target = {0, 1, 0}};
    weft_sink sink = {&bytes, count_bytes};
    bench_need(
        weft_diff(weft_model_layout(model), base->pieces, base->count, target, count, &options, NULL, &sink, NULL),
        "diff both ends");
    return bytes;
}

static const char *level_of(bench_rig *rig)
{
    weft_peer_info infos[BENCH_PEERS_MAX] = {{.size = sizeof infos[0]}};
    size_t count = 0;
    bench_need(weft_peers(rig->trainer, infos, BENCH_PEERS_MAX, &count), "peers");
    for (size_t i = 0; i < count && i < BENCH_PEERS_MAX; i++)
        if (strcmp(infos[i].name, rig->names[0]) == 0)
            return infos[i].level;
    return "fast";
}

static void run_round(bench_rig *rig, const image *base, int round, int missed)
{
    uint64_t single = 0;
    weft_update_info info = {.size = sizeof info};
    image_fill(base, rig->model);
    bench_peer_leave(&rig->peers[0]);
    for (int i = 0; i < missed; i++) {
        bench_rig_step(rig);
        bench_rig_publish_ms(rig, &info);
        single += info.bytes;
    }
    double begun = bench_now_ms();
    bench_peer_join(&rig->peers[0], rig->listen);
    bench_rig_wait(rig, 1);
    double held_ms = bench_now_ms() - begun;
    bench_report report = bench_peer_ask(&rig->peers[0]);
    const char *level = level_of(rig);
    printf("{\"what\": \"rejoin\", \"round\": %d, \"missed\": %d, \"level\": \"%s\", \"received_bytes\": %llu, "
           "\"updates\": %llu, \"merged_bytes\": %llu, \"densest_bytes\": %llu, \"single_bytes\": %llu, \"held_ms\": "
           "%.3f}\n",
           round, missed, level, (unsigned long long)report.bytes, (unsigned long long)report.updates,
           (unsigned long long)merged_bytes(base, rig->model, level),
           (unsigned long long)merged_bytes(base, rig->model, "tight"), (unsigned long long)single, held_ms);
}

int main(int argc, char **argv)
{
    bench_rig rig;
    bench_options options = {.provider = "tcp", .mib = 64, .rounds = 1, .seconds = 1, .changed = 1.17};
    bench_options_read(argc, argv, &options);
    bench_rig_open(&rig, &options);
    bench_rig_join_all(&rig);
    image base = image_open(rig.model);
    for (int round = 0; round < options.rounds; round++)
        for (int missed = 1; missed <= MISSED_MOST; missed *= 4)
            run_round(&rig, &base, round, missed);
    bench_rig_close(&rig);
    free(base.pieces);
    free(base.memory);
    return 0;
}
