#include "tools/bench/gpu/rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "tools/bench/gpu/inside.h"

/* ---- frames */

weft_status weft_bench_frames_open(weft_bench_frames *frames, const weft_layout *layout)
{
    frames->capacity = layout->unit_count * (layout->largest_frame + UINT64_C(64));
    frames->most = layout->unit_count;
    frames->data = weft_mem_map(frames->capacity + 1);
    frames->at = weft_mem_map((frames->most + 1) * sizeof *frames->at);
    if (frames->data && frames->at)
        return WEFT_OK;
    return weft_fail(WEFT_E_MEMORY, "no memory for the frames of %" PRIu64 " bytes of weights", layout->bytes);
}

void weft_bench_frames_close(weft_bench_frames *frames)
{
    weft_mem_unmap(frames->data, frames->capacity + 1);
    if (frames->at)
        weft_mem_unmap(frames->at, (frames->most + 1) * sizeof *frames->at);
}

weft_status weft_bench_frames_put(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    weft_bench_frames *frames = user;
    (void)level;
    if (bytes > frames->capacity - frames->used || frames->count == frames->most)
        return weft_fail(WEFT_E_BUDGET, "more frames than the layout can have");
    memcpy(frames->data + frames->used, frame, bytes);
    frames->at[frames->count++] = frames->used;
    frames->used += bytes;
    frames->at[frames->count] = frames->used;
    return WEFT_OK;
}

/* ---- the device */

/* Asks without a pause: a pass is timed by it. */
weft_status weft_bench_gpu_settle(weft_bench_gpu *rig)
{
    const weft_gpu_driver *driver = rig->gpu->driver;
    const uint64_t until_ns = weft_clock_ns() + rig->gpu->patience_ns;
    weft_status status = driver->mark(rig->gpu->device, rig->stream, rig->mark);
    if (status == WEFT_OK)
        do
            status = driver->reached(rig->gpu->device, rig->mark);
        while (status == WEFT_AGAIN && weft_clock_ns() < until_ns);
    if (status != WEFT_AGAIN)
        return status;
    atomic_store(&rig->gpu->hung, true);
    return weft_fail(WEFT_E_DEVICE, "%s device %d: work does not end for %.0f s", driver->name,
                     driver->number(rig->gpu->device), (double)rig->gpu->patience_ns / 1e9);
}

weft_status weft_bench_gpu_copy(weft_bench_gpu *rig, uint64_t to, uint64_t from)
{
    weft_status status = rig->gpu->driver->copy(rig->gpu->device, rig->stream, to, from, rig->layout->bytes);
    return status == WEFT_OK ? weft_bench_gpu_settle(rig) : status;
}

/* ---- open */

static weft_status device_open(weft_bench_gpu *rig, const char *backend, uint64_t budget)
{
    const weft_backend_options options = {-1, "auto", budget, 0};
    rig->backend = weft_backend_find(backend);
    if (!rig->backend || !(rig->backend->caps & WEFT_BACKEND_DEVICE))
        return weft_fail(WEFT_E_ARGUMENT, "backend %s has no devices", backend);
    weft_status status = rig->backend->open(&options, &rig->state);
    if (status != WEFT_OK)
        return status;
    rig->gpu = (weft_gpu *)(void *)rig->state;
    const weft_gpu_driver *driver = rig->gpu->driver;
    snprintf(rig->facts.image, sizeof rig->facts.image, "%s", driver->image(rig->gpu->device));
    rig->facts.device = driver->number(rig->gpu->device);
    status = driver->stream_take(rig->gpu->device, false, &rig->stream);
    return status == WEFT_OK ? driver->mark_take(rig->gpu->device, &rig->mark) : status;
}

/* Weights are a framework's and not in weft's budget. */
static weft_status images_open(weft_bench_gpu *rig)
{
    const weft_gpu_driver *driver = rig->gpu->driver;
    uint64_t *const images[] = {&rig->now, &rig->shadow, &rig->work}, bytes = rig->layout->bytes;
    void *pinned = NULL;
    weft_status status = WEFT_OK;
    for (int i = 0; i < 3 && status == WEFT_OK; i++)
        status = driver->memory_take(rig->gpu->device, bytes, images[i]);
    if (status == WEFT_OK)
        status = rig->backend->memory_take(rig->state, bytes, WEFT_MEMORY_HOST, &pinned);
    rig->host_shadow = pinned;
    return status;
}

static weft_status image_fill(weft_bench_gpu *rig, const weft_piece *pieces, uint64_t image)
{
    for (uint64_t t = 0; t < rig->layout->count; t++)
        memcpy(rig->host_shadow + rig->layout->entries[t].offset, pieces[t].data, rig->layout->entries[t].bytes);
    return weft_bench_gpu_copy(rig, image, (uintptr_t)rig->host_shadow);
}

static weft_status bindings_open(weft_bench_gpu *rig)
{
    const struct {
        uint64_t image;
        weft_binding *binding;
    } rows[] = {{rig->now, &rig->now_binding},
                {rig->shadow, &rig->shadow_binding},
                {rig->work, &rig->work_binding},
                {(uintptr_t)rig->host_shadow, &rig->host_binding}};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == WEFT_OK; i++)
        status = weft_binding_open_image(rig->layout, (void *)(uintptr_t)rows[i].image, rows[i].binding);
    return status;
}

static weft_status memory_open(weft_bench_gpu *rig)
{
    rig->delta = weft_mem_take(rig->layout->part_count + 1, sizeof *rig->delta);
    rig->wanted_delta = weft_mem_take(rig->layout->part_count + 1, sizeof *rig->delta);
    if (!rig->delta || !rig->wanted_delta)
        return weft_fail(WEFT_E_MEMORY, "no memory for digests");
    weft_bench_frames *const all[] = {&rig->frames, &rig->wanted_fast, &rig->wanted_tight};
    weft_status status = WEFT_OK;
    for (int i = 0; i < 3 && status == WEFT_OK; i++)
        status = weft_bench_frames_open(all[i], rig->layout);
    return status;
}

/* Room for the changes of all frames. */
static weft_status lists_open(weft_bench_gpu *rig)
{
    const uint64_t frames = rig->layout->unit_count;
    uint8_t width = 1;
    for (uint64_t unit = 0; unit < frames; unit++)
        width = rig->layout->units[unit].width > width ? rig->layout->units[unit].width : width;
    const uint64_t bytes = weft_staging_need(rig->facts.changed, width) + frames * (sizeof(weft_changes) + 64);
    weft_status status = weft_staging_open(&rig->staging, rig->backend, rig->state, bytes, frames, "of all frames");
    return status == WEFT_OK ? weft_pipeline_open(&rig->window, rig->backend, rig->state) : status;
}

static weft_status rig_open(weft_bench_gpu *rig, const char *backend, uint64_t budget)
{
    const weft_backend_options options = {-1, "auto", budget, 0};
    weft_status status = device_open(rig, backend, budget);
    if (status == WEFT_OK)
        status = memory_open(rig);
    if (status == WEFT_OK)
        status = weft_bench_gpu_expect(rig);
    if (status == WEFT_OK)
        status = images_open(rig);
    if (status == WEFT_OK)
        status = image_fill(rig, rig->weights->after, rig->now);
    if (status == WEFT_OK)
        status = image_fill(rig, rig->weights->before, rig->shadow);
    if (status == WEFT_OK)
        status = bindings_open(rig);
    if (status == WEFT_OK)
        status = lists_open(rig);
    if (status == WEFT_OK)
        status = weft_bench_diff_open(rig, rig->parameters.run_shift);
    if (status == WEFT_OK)
        status = weft_encoder_open(&rig->encoder, rig->backend, &options, rig->state, rig->layout, 1);
    return status == WEFT_OK ? weft_bench_gpu_prove(rig) : status;
}

weft_status weft_bench_gpu_open(const weft_bench_gpu_weights *weights, const char *backend, uint64_t budget,
                                weft_bench_gpu **rig)
{
    weft_bench_gpu *made = weft_mem_take(1, sizeof *made);
    *rig = made;
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory for a rig");
    made->weights = weights;
    made->layout = weights->layout;
    weft_status status = rig_open(made, backend, budget);
    if (status != WEFT_OK) {
        weft_bench_gpu_close(made);
        *rig = NULL;
    }
    return status;
}

const weft_bench_gpu_facts *weft_bench_gpu_facts_of(const weft_bench_gpu *rig)
{
    return &rig->facts;
}

/* ---- close */

static void memory_close(weft_bench_gpu *rig)
{
    const weft_gpu_driver *driver = rig->gpu->driver;
    const uint64_t images[] = {rig->now, rig->shadow, rig->work};
    weft_bench_diff_close(rig);
    if (rig->host_shadow)
        rig->backend->memory_give(rig->state, rig->host_shadow, rig->layout->bytes, WEFT_MEMORY_HOST);
    for (int i = 0; i < 3; i++)
        driver->memory_give(rig->gpu->device, images[i]);
    driver->mark_give(rig->gpu->device, rig->mark);
    driver->stream_give(rig->gpu->device, rig->stream);
}

static void device_close(weft_bench_gpu *rig)
{
    weft_encoder_close(&rig->encoder);
    weft_pipeline_close(&rig->window);
    if (rig->staging.backend)
        weft_staging_close(&rig->staging);
    if (!atomic_load(&rig->gpu->hung)) /* else giving back would wait for what does not end */
        memory_close(rig);
    rig->backend->close(rig->state);
}

void weft_bench_gpu_close(weft_bench_gpu *rig)
{
    if (!rig)
        return;
    weft_binding *const bindings[] = {&rig->now_binding, &rig->shadow_binding, &rig->work_binding, &rig->host_binding};
    if (rig->state)
        device_close(rig);
    for (int i = 0; i < 4; i++)
        weft_binding_close(bindings[i]);
    weft_bench_frames_close(&rig->wanted_tight);
    weft_bench_frames_close(&rig->wanted_fast);
    weft_bench_frames_close(&rig->frames);
    weft_mem_give(rig->wanted_delta);
    weft_mem_give(rig->delta);
    weft_mem_give(rig);
}
