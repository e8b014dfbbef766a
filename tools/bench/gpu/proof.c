/* proof.c - what the host backend makes of the weights, and that the device makes the same. */
#include <string.h>

#include "backends/host/host.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/part.h"
#include "tools/bench/gpu/inside.h"

#define SECTOR 32u /* bytes that device memory is read in */

/* ---- the host's frames */

typedef struct host {
    weft_binding before, after;
    weft_backend_state *state;
    weft_encoder encoder;
    uint64_t *delta;
} host;

static weft_status host_open(const weft_bench_gpu *rig, host *h)
{
    const weft_bench_gpu_weights *w = rig->weights;
    const weft_backend_options options = {-1, "auto", 0, 0};
    h->delta = weft_mem_take(rig->layout->part_count + 1, sizeof *h->delta);
    weft_status status = h->delta ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for digests");
    if (status == WEFT_OK)
        status = weft_binding_open(rig->layout, w->before, w->count, &h->before);
    if (status == WEFT_OK)
        status = weft_binding_open(rig->layout, w->after, w->count, &h->after);
    if (status == WEFT_OK)
        status = weft_backend_host.open(&options, &h->state);
    if (status == WEFT_OK)
        status =
            weft_encoder_open(&h->encoder, &weft_backend_host, &options, h->state, rig->layout, weft_team_workers(0));
    return status;
}

static void host_close(host *h)
{
    weft_encoder_close(&h->encoder);
    if (h->state)
        weft_backend_host.close(h->state);
    weft_binding_close(&h->after);
    weft_binding_close(&h->before);
    weft_mem_give(h->delta);
}

static weft_status host_encode(weft_bench_gpu *rig, host *h, weft_level level, weft_bench_frames *frames)
{
    weft_encode_pass pass = {.now = &h->after,
                             .shadow = &h->before,
                             .parameters = &rig->parameters,
                             .levels = 1u << level,
                             .delta = h->delta,
                             .emit = weft_bench_frames_put,
                             .user = frames};
    weft_status status = weft_encoder_choose(&h->encoder, &h->after, &h->before, pass.levels, &rig->parameters);
    if (status == WEFT_OK)
        status = weft_encoder_run(&h->encoder, &pass);
    rig->facts.changed = pass.changed;
    return status;
}

/* ---- sectors */

/* Counts the changed places of tensor `t` in the image of the weights that were not counted before. */
static uint64_t sectors_of(const weft_bench_gpu *rig, uint64_t t, uint64_t *last)
{
    const weft_layout_entry *entry = &rig->layout->entries[t];
    const uint8_t *before = rig->weights->before[t].data, *after = rig->weights->after[t].data;
    uint64_t count = 0;
    for (uint64_t at = entry->offset; at < entry->offset + entry->bytes;) {
        const uint64_t sector = at / SECTOR, left = entry->offset + entry->bytes - at;
        const uint64_t bytes = (sector + 1) * SECTOR - at < left ? (sector + 1) * SECTOR - at : left;
        const bool counted = sector + 1 == *last;
        if (!counted && memcmp(before + (at - entry->offset), after + (at - entry->offset), bytes) != 0) {
            count++;
            *last = sector + 1;
        }
        at += bytes;
    }
    return count;
}

static void sectors_count(weft_bench_gpu *rig)
{
    uint64_t last = 0;
    rig->facts.sectors = 0;
    for (uint64_t t = 0; t < rig->layout->count; t++)
        rig->facts.sectors += sectors_of(rig, t, &last);
}

weft_status weft_bench_gpu_expect(weft_bench_gpu *rig)
{
    host h = {0};
    weft_status status = host_open(rig, &h);
    if (status == WEFT_OK)
        status = host_encode(rig, &h, WEFT_LEVEL_TIGHT, &rig->wanted_tight);
    if (status == WEFT_OK) {
        memset(h.delta, 0, rig->layout->part_count * sizeof *h.delta);
        status = host_encode(rig, &h, WEFT_LEVEL_FAST, &rig->wanted_fast);
    }
    if (status == WEFT_OK)
        memcpy(rig->wanted_delta, h.delta, rig->layout->part_count * sizeof *h.delta);
    host_close(&h);
    sectors_count(rig);
    rig->facts.fast = (weft_bench_gpu_size){rig->wanted_fast.count, rig->wanted_fast.used};
    rig->facts.tight = (weft_bench_gpu_size){rig->wanted_tight.count, rig->wanted_tight.used};
    return status;
}

/* ---- the device's */

static weft_status other(const char *what)
{
    return weft_fail(WEFT_E_TARGET, "%s of the device are not those of the host", what);
}

static bool frames_equal(const weft_bench_frames *a, const weft_bench_frames *b)
{
    return a->count == b->count && a->used == b->used && memcmp(a->data, b->data, a->used) == 0;
}

/* The weights of the device that were worked on, by way of the pinned image, which holds the old ones again at the
 * end. */
static weft_status applied_prove(weft_bench_gpu *rig)
{
    weft_status status = weft_bench_gpu_copy(rig, (uintptr_t)rig->host_shadow, rig->work);
    for (uint64_t t = 0; t < rig->layout->count && status == WEFT_OK; t++) {
        const weft_layout_entry *entry = &rig->layout->entries[t];
        if (memcmp(rig->host_shadow + entry->offset, rig->weights->after[t].data, entry->bytes) != 0)
            status = other("applied weights");
    }
    return status == WEFT_OK ? weft_bench_gpu_copy(rig, (uintptr_t)rig->host_shadow, rig->shadow) : status;
}

static weft_status level_prove(weft_bench_gpu *rig, weft_level level, const weft_bench_frames *wanted)
{
    double ms;
    memset(rig->delta, 0, rig->layout->part_count * sizeof *rig->delta);
    weft_status status = weft_bench_gpu_encode(rig, level, &ms);
    if (status == WEFT_OK && !frames_equal(&rig->frames, wanted))
        status = other("frames");
    if (status == WEFT_OK && memcmp(rig->delta, rig->wanted_delta, rig->layout->part_count * sizeof *rig->delta) != 0)
        status = other("digests");
    if (status == WEFT_OK)
        status = weft_bench_gpu_copy(rig, rig->work, rig->shadow);
    if (status == WEFT_OK)
        status = weft_bench_gpu_apply(rig, &ms, &ms);
    return status == WEFT_OK ? applied_prove(rig) : status;
}

weft_status weft_bench_gpu_prove(weft_bench_gpu *rig)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        double ms;
        uint64_t changed = 0;
        status = weft_bench_diff_run(rig, i == 1, &ms);
        if (status == WEFT_OK)
            status = weft_bench_diff_count(rig, &changed);
        if (status == WEFT_OK && changed != rig->facts.changed)
            status = weft_fail(WEFT_E_TARGET, "the device found %llu changes, the host %llu",
                               (unsigned long long)changed, (unsigned long long)rig->facts.changed);
    }
    if (status == WEFT_OK)
        status = level_prove(rig, WEFT_LEVEL_FAST, &rig->wanted_fast);
    return status == WEFT_OK ? level_prove(rig, WEFT_LEVEL_TIGHT, &rig->wanted_tight) : status;
}
