#include "rig.h"

#include <string.h>

#include "model/synth.h"

static void open_trainer(bench_rig *rig)
{
    uint64_t count;
    weft_stats_info stats = {.size = sizeof stats};
    const weft_piece *pieces = weft_model_pieces(rig->model, &count);
    weft_site *site = bench_site(rig->options, NULL, bench_heartbeat(rig->options));
    bench_need(weft_trainer_open(site, weft_model_layout(rig->model), NULL, &rig->trainer), "open the trainer");
    weft_site_free(site);
    bench_need(weft_bind(rig->trainer, pieces, count, NULL, 0, 0), "bind the trainer");
    bench_need(weft_stats(rig->trainer, &stats), "stats");
    memcpy(rig->listen, stats.listen, sizeof rig->listen);
}

void bench_rig_open(bench_rig *rig, bench_options *options)
{
    if (options->peer_count == 0)
        options->peers[options->peer_count++] = "a";
    memset(rig, 0, sizeof *rig);
    rig->options = options;
    bench_need(weft_synth_model(options->mib << 19, 1, &rig->model), "make a model");
    for (int i = 0; i < options->peer_count; i++) {
        bench_peer_open(&rig->peers[i], options->peers[i], options, rig->model);
        rig->names[i] = rig->peers[i].name;
    }
    rig->resident_bytes = bench_resident_bytes();
    open_trainer(rig);
}

void bench_rig_join_all(bench_rig *rig)
{
    for (int i = 0; i < rig->options->peer_count; i++)
        bench_peer_join(&rig->peers[i], rig->listen);
    bench_rig_wait(rig, rig->options->peer_count);
}

void bench_rig_close(bench_rig *rig)
{
    for (int i = 0; i < rig->options->peer_count; i++)
        bench_peer_close(&rig->peers[i]);
    weft_close(rig->trainer);
    weft_model_close(rig->model);
}

void bench_rig_step(bench_rig *rig)
{
    bench_need(weft_synth_step(rig->model, rig->options->changed / 100, rig->version + 1, NULL), "make a step");
}

double bench_rig_publish_ms(bench_rig *rig, weft_update_info *info)
{
    double begun = bench_now_ms();
    bench_need(weft_publish(rig->trainer, ++rig->version, NULL, NULL, info), "publish");
    return bench_now_ms() - begun;
}

void bench_rig_wait(bench_rig *rig, int count)
{
    weft_status status;
    double end_ms = bench_now_ms() + BENCH_DEADLINE_MS;
    while ((status = weft_wait(rig->trainer, rig->version, rig->names, (size_t)count, BENCH_DEADLINE_MS)) ==
               WEFT_E_PEER_LOST &&
           bench_now_ms() < end_ms)
        bench_sleep_ms(1); /* one that left and is about to join again */
    bench_need(status, "wait for the peers");
}
