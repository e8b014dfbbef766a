#include "rig.h"

#include <string.h>

#include "model/synth.h"

/* The model's memory holds bits without a law. */
static void fill_noise(const weft_model *model)
{
    uint64_t count;
    const weft_piece *pieces = weft_model_pieces(model, &count);
    for (uint64_t i = 0; i < count; i++)
        bench_noise(pieces[i].data, weft_layout_tensor_bytes(weft_model_layout(model), pieces[i].tensor));
}

static void open_trainer(bench_rig *rig)
{
    uint64_t count;
    const weft_piece *pieces = weft_model_pieces(rig->model, &count);
    weft_site *site = bench_site(rig->options, NULL, bench_heartbeat(rig->options));
    rig->trainer = fleet_trainer_open(site, weft_model_layout(rig->model), NULL, rig->listen);
    weft_site_free(site);
    fleet_need(weft_bind(rig->trainer, pieces, count, NULL, 0, 0), "bind the trainer");
}

void bench_rig_open(bench_rig *rig, bench_options *options)
{
    if (options->peer_count == 0)
        options->peers[options->peer_count++] = "a";
    memset(rig, 0, sizeof *rig);
    rig->options = options;
    fleet_need(weft_synth_model(options->mib << 19, 1, &rig->model), "make a model");
    if (options->noise)
        fill_noise(rig->model);
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
        bench_peer_do(&rig->peers[i], BENCH_JOIN, rig->listen, 0);
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
    fleet_need(weft_synth_step(rig->model, rig->options->changed / 100, rig->version + 1, NULL), "make a step");
}

double bench_rig_publish_ms(bench_rig *rig, weft_update_info *info)
{
    double begun = bench_now_ms();
    fleet_need(weft_publish(rig->trainer, ++rig->version, NULL, NULL, info), "publish");
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
    fleet_need(status, "wait for the peers");
}
