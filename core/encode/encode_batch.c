/* encode_batch.c - the pass for backends that take several jobs at once: as many runs as they take are with them. */
#include "base/mem.h"
#include "base/status.h"
#include "encode/encode.h"

/* Jobs of runs, each with room of its own for the frame that it makes at each level. */
typedef struct weft_encode_ring {
    weft_pipeline *window;
    weft_frame_sink *sinks; /* WEFT_LEVEL_COUNT for each place in the window */
    uint8_t *room[WEFT_LEVEL_COUNT];
    uint64_t stride; /* of a room's places */
} weft_encode_ring;

typedef struct weft_encode_batch {
    weft_encode_ring runs;
    weft_encode_ring units; /* of a run that cannot be one frame; only while no other run is with the backend */
    weft_pipeline window;   /* theirs */
} weft_encode_batch;

/* ---- open */

static weft_status ring_open(weft_encode_ring *ring, weft_pipeline *window, uint64_t largest_frame)
{
    bool got = true;
    ring->window = window;
    ring->stride = largest_frame ? largest_frame : 1;
    ring->sinks = weft_mem_take((uint64_t)window->depth * WEFT_LEVEL_COUNT, sizeof *ring->sinks);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        ring->room[level] = weft_mem_map(window->depth * ring->stride); /* pages never touched cost nothing */
        got = got && ring->room[level];
    }
    return got && ring->sinks ? WEFT_OK
                              : weft_fail(WEFT_E_MEMORY, "no memory for the frames of %u runs of units", window->depth);
}

static void ring_close(weft_encode_ring *ring)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (ring->room[level])
            weft_mem_unmap(ring->room[level], ring->window->depth * ring->stride);
    weft_mem_give(ring->sinks);
}

weft_status weft_encode_batch_open(weft_encoder *encoder)
{
    encoder->batch = weft_mem_take(1, sizeof *encoder->batch);
    if (!encoder->batch)
        return weft_fail(WEFT_E_MEMORY, "no memory for an encoder");
    const uint64_t largest = encoder->layout->largest_frame;
    weft_encode_batch *batch = encoder->batch;
    weft_status status = weft_pipeline_open(&batch->window, encoder->backend, encoder->windows->device);
    if (status == WEFT_OK)
        status = ring_open(&batch->runs, encoder->windows, largest);
    return status == WEFT_OK ? ring_open(&batch->units, &batch->window, largest) : status;
}

void weft_encode_batch_close(weft_encoder *encoder)
{
    if (!encoder->batch)
        return;
    ring_close(&encoder->batch->units);
    ring_close(&encoder->batch->runs);
    weft_pipeline_close(&encoder->batch->window);
    weft_mem_give(encoder->batch);
    encoder->batch = NULL;
}

/* ---- a run */

/* Begins one, if there is a place. */
static bool span_begin(const weft_encoder *encoder, weft_encode_ring *ring, uint64_t unit, uint32_t units,
                       uint32_t levels)
{
    const weft_encode_pass *pass = encoder->pass;
    weft_job *job = weft_pipeline_next(ring->window);
    if (!job)
        return false;
    const uint64_t place = (uint64_t)(job - ring->window->jobs);
    weft_frame_sink *sinks = ring->sinks + place * WEFT_LEVEL_COUNT;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        sinks[level] = (weft_frame_sink){.data = ring->room[level] + place * ring->stride, .capacity = ring->stride};
    job->encode = (weft_encode_job){.now = weft_binding_span(pass->now, unit, units),
                                    .shadow = weft_binding_span(pass->shadow, unit, units),
                                    .parameters = pass->parameters,
                                    .largest_frame = encoder->layout->largest_frame,
                                    .levels = levels,
                                    .sinks = sinks,
                                    .tensor_delta = pass->delta, /* a part belongs to one unit: jobs share no word */
                                    .stream = pass->stream};
    weft_pipeline_begin(ring->window, WEFT_JOB_ENCODE);
    return true;
}

static weft_status frames_emit(const weft_encode_pass *pass, const weft_encode_job *job)
{
    weft_status status = WEFT_OK;
    for (int level = 0; status == WEFT_OK && level < WEFT_LEVEL_COUNT; level++)
        if (job->levels >> level & 1)
            status = weft_encode_emit(pass, (weft_level)level, job->sinks[level].data,
                                      job->sinks[level].data + job->sinks[level].used);
    return status;
}

/* Hands on what a job made, and sums up. */
static weft_status job_end(weft_encode_pass *pass, const weft_job *job)
{
    pass->diff_ms += job->encode.diff_ms;
    pass->encode_ms += job->encode.encode_ms;
    if (job->status != WEFT_OK)
        return job->status;
    if (job->encode.alone == 0)
        pass->changed += job->encode.changed;
    return frames_emit(pass, &job->encode);
}

/* The units of a run that cannot be one frame at some levels. The other runs are over, and wait. */
static weft_status units_encode(const weft_encoder *encoder, const weft_encode_job *run)
{
    weft_encode_ring *ring = &encoder->batch->units;
    const uint64_t first = run->now.unit, end = first + run->now.units;
    weft_status status = WEFT_OK;
    weft_pipeline_settle(encoder->batch->runs.window);
    weft_encode_delta_clear(encoder->layout, encoder->pass->delta, first, run->now.units);
    for (uint64_t unit = first, ended = first; status == WEFT_OK && ended < end; ended++) {
        while (unit < end && span_begin(encoder, ring, unit, 1, run->alone))
            unit++;
        status = job_end(encoder->pass, weft_pipeline_end(ring->window));
    }
    weft_pipeline_drop(ring->window);
    return status;
}

/* ---- the pass */

weft_status weft_encode_batch_run(weft_encoder *encoder, weft_encode_pass *pass)
{
    const weft_layout *layout = encoder->layout;
    weft_encode_ring *ring = &encoder->batch->runs;
    weft_status status = WEFT_OK;
    uint64_t unit = 0, end = 0;
    encoder->pass = pass;
    pass->changed = 0;
    pass->diff_ms = pass->encode_ms = 0;
    while (status == WEFT_OK && end < layout->unit_count) {
        for (uint32_t units; unit < layout->unit_count; unit += units) {
            units = weft_layout_run(layout, unit, pass->parameters->run_shift);
            if (!span_begin(encoder, ring, unit, units, pass->levels))
                break;
        }
        const weft_job *job = weft_pipeline_end(ring->window);
        end = job->encode.now.unit + (uint64_t)job->encode.now.units;
        status = job_end(pass, job);
        if (status == WEFT_OK && job->encode.alone)
            status = units_encode(encoder, &job->encode);
        if (status == WEFT_OK && pass->moved)
            status = pass->moved(pass->user, end);
    }
    weft_pipeline_drop(ring->window);
    return status;
}
