/* encode.c - lanes that encode runs of units; their frames are handed on in order. */
#include "encode/encode.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/part.h"

/* State of one lane. */
typedef struct weft_encode_lane {
    weft_backend_state *device;
    bool owned;                              /* the device was opened for this lane */
    weft_frame_sink sinks[WEFT_LEVEL_COUNT]; /* frames of its runs; pages never touched cost nothing */
    weft_encode_job job;                     /* times add up in it */
    uint64_t changed;
} weft_encode_lane;

/* Where the frames of a run lie in the lane's sinks. */
typedef struct weft_encode_frames {
    uint64_t from[WEFT_LEVEL_COUNT], to[WEFT_LEVEL_COUNT];
} weft_encode_frames;

static uint64_t room_bytes(const weft_layout *layout)
{
    uint64_t most = UINT64_C(1) << WEFT_RUN_SHIFT_MAX, units = layout->unit_count < most ? layout->unit_count : most;
    return (units ? units : 1) * (layout->largest_frame ? layout->largest_frame : 1);
}

static weft_mem_list memory_of(weft_encoder *encoder, uint32_t lanes)
{
    return (weft_mem_list){{WEFT_MEM_TAKEN(encoder->own, lanes),
                            WEFT_MEM_TAKEN(encoder->frames, lanes * WEFT_LANE_AHEAD),
                            WEFT_MEM_TAKEN(encoder->windows, lanes),
                            WEFT_MEM_TAKEN(encoder->surveys, lanes)}}; /* pages never touched cost nothing */
}

static weft_mem_list sinks_of(weft_encode_lane *lane, const weft_layout *layout)
{
    weft_mem_list list = {0};
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        lane->sinks[level].capacity = room_bytes(layout);
        list.blocks[level] = (weft_mem_block)WEFT_MEM_PAGES(lane->sinks[level].data, room_bytes(layout));
    }
    return list;
}

uint64_t weft_encoder_need(const weft_layout *layout, uint32_t workers, uint32_t depth)
{
    const uint32_t lanes = depth > 1 ? 1 : workers;
    return lanes * weft_mem_list_bytes(sinks_of(&(weft_encode_lane){0}, layout)) +
           weft_mem_list_bytes(memory_of(&(weft_encoder){0}, lanes)) + weft_lanes_need(lanes) +
           (depth > 1 ? weft_encode_batch_need(layout, depth) : 0);
}

/* ---- open */

static weft_status lane_open(weft_encoder *encoder, uint32_t number, const weft_backend_options *options)
{
    weft_encode_lane *lane = &encoder->own[number];
    if (!lane->device) {
        weft_status status = encoder->backend->open(options, &lane->device);
        if (status != WEFT_OK)
            return status;
        lane->owned = true;
    }
    weft_status status = weft_mem_list_take(
        sinks_of(lane, encoder->layout),
        "for each of %u threads, for the frames of one run of units; fewer ([trainer] threads) take less",
        encoder->lanes.count);
    return status == WEFT_OK ? weft_pipeline_open(&encoder->windows[number], encoder->backend, lane->device) : status;
}

static void lane_close(weft_encoder *encoder, uint32_t number)
{
    weft_encode_lane *lane = &encoder->own[number];
    weft_pipeline_close(&encoder->windows[number]);
    weft_mem_list_give(sinks_of(lane, encoder->layout));
    if (lane->owned)
        encoder->backend->close(lane->device);
}

weft_status weft_encoder_open(weft_encoder *encoder, const weft_backend *backend, const weft_backend_options *options,
                              weft_backend_state *device, const weft_layout *layout, uint32_t workers)
{
    memset(encoder, 0, sizeof *encoder);
    encoder->backend = backend;
    encoder->layout = layout;
    workers = backend->depth == 1 ? workers : 1;
    weft_status status = weft_lanes_open(&encoder->lanes, workers);
    if (status != WEFT_OK)
        return status;
    status = weft_mem_list_take(memory_of(encoder, workers), "for %u workers of encoding", workers);
    if (status == WEFT_OK)
        encoder->own[0].device = device;
    for (uint32_t i = 0; status == WEFT_OK && i < workers; i++)
        status = lane_open(encoder, i, options);
    if (status == WEFT_OK && backend->depth > 1)
        status = weft_encode_batch_open(encoder);
    if (status != WEFT_OK)
        weft_encoder_close(encoder);
    return status;
}

void weft_encoder_close(weft_encoder *encoder)
{
    if (!encoder->layout)
        return;
    const uint32_t workers = encoder->lanes.count;
    weft_lanes_close(&encoder->lanes);
    weft_encode_batch_close(encoder);
    for (uint32_t i = 0; encoder->own && encoder->windows && i < workers; i++)
        lane_close(encoder, i);
    weft_mem_list_give(memory_of(encoder, workers));
    memset(encoder, 0, sizeof *encoder);
}

/* ---- a pass */

/* Encodes `units` units as one view; `levels` that cannot be one frame come back in job.alone. */
static weft_status span_encode(weft_encoder *encoder, weft_encode_lane *lane, uint64_t unit, uint32_t units,
                               uint32_t levels)
{
    weft_encode_job *job = &lane->job;
    job->now = weft_binding_span(encoder->pass->now, unit, units);
    job->shadow = weft_binding_span(encoder->pass->shadow, unit, units);
    job->levels = levels;
    job->tensor_delta = encoder->pass->delta; /* a part belongs to one unit: workers share no word */
    job->stream = encoder->pass->stream;
    return weft_backend_wait(encoder->backend, lane->device, encoder->backend->encode(lane->device, job), job);
}

void weft_encode_delta_clear(const weft_layout *layout, uint64_t *delta, uint64_t unit, uint32_t units)
{
    uint64_t last = unit + units - 1, end = weft_part_of_unit(layout, last) + layout->units[last].tensor_count;
    for (uint64_t part = weft_part_of_unit(layout, unit); part < end; part++)
        delta[part] = 0;
}

/* The base while it is near: its words are in a cache when they are compared. */
static weft_status base_digest(const weft_encoder *encoder, const weft_encode_lane *lane, uint64_t unit, uint32_t units)
{
    weft_digest_job job = {.view = weft_binding_span(encoder->pass->shadow, unit, units),
                           .tensor_delta = encoder->pass->digests};
    if (!encoder->pass->digests)
        return WEFT_OK;
    return weft_backend_wait(encoder->backend, lane->device, encoder->backend->digest(lane->device, &job), &job);
}

/* Encodes a run; what cannot be one frame unit by unit. */
static weft_status run_encode(weft_encoder *encoder, weft_encode_lane *lane, uint64_t unit, uint32_t units)
{
    weft_status status = base_digest(encoder, lane, unit, units);
    if (status == WEFT_OK)
        status = span_encode(encoder, lane, unit, units, encoder->pass->levels);
    const uint32_t alone = lane->job.alone;
    if (status != WEFT_OK || alone == 0) {
        lane->changed += lane->job.changed;
        return status;
    }
    weft_encode_delta_clear(encoder->layout, encoder->pass->delta, unit, units);
    for (uint32_t i = 0; status == WEFT_OK && i < units; i++) {
        status = span_encode(encoder, lane, unit + i, 1, alone);
        lane->changed += lane->job.changed;
    }
    return status;
}

/* Hands the frames from `from` to `to` of one level on. */
static weft_status level_emit(const weft_encode_pass *pass, weft_level level, const uint8_t *from, const uint8_t *to)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && from < to) {
        uint64_t bytes = weft_frame_measure(from, (uint64_t)(to - from));
        status = pass->emit(pass->user, level, from, (uint32_t)bytes);
        from += bytes;
    }
    return status;
}

static weft_status frames_emit(const weft_encoder *encoder, const weft_lane_turn *turn)
{
    const weft_encode_frames *frames = &encoder->frames[turn->place];
    weft_status status = WEFT_OK;
    for (int level = 0; status == WEFT_OK && level < WEFT_LEVEL_COUNT; level++) {
        const uint8_t *data = encoder->own[turn->lane].sinks[level].data;
        status = level_emit(encoder->pass, (weft_level)level, data + frames->from[level], data + frames->to[level]);
    }
    return status;
}

/* ---- turns */

static void sinks_empty(weft_encode_lane *lane)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        lane->sinks[level].used = 0;
}

static uint64_t run_end(void *user, uint64_t unit)
{
    const weft_encoder *encoder = user;
    return unit + weft_layout_run(encoder->layout, unit, encoder->pass->parameters->run_shift);
}

/* The frames of a turn lie after those that wait to be handed on. */
static bool turn_fits(void *user, const weft_lane_turn *turn)
{
    weft_encoder *encoder = user;
    weft_encode_lane *lane = &encoder->own[turn->lane];
    const uint64_t need = (turn->end - turn->from) * encoder->layout->largest_frame;
    bool fits = true;
    if (turn->waiting == 0)
        sinks_empty(lane);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        fits = fits && lane->sinks[level].capacity - lane->sinks[level].used >= need;
    return fits;
}

/* Encodes a run after what the lane's sinks hold. */
static weft_status turn_encode(void *user, const weft_lane_turn *turn)
{
    weft_encoder *encoder = user;
    weft_encode_lane *lane = &encoder->own[turn->lane];
    weft_encode_frames *frames = &encoder->frames[turn->place];
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        frames->from[level] = lane->sinks[level].used;
    const weft_status status = run_encode(encoder, lane, turn->from, (uint32_t)(turn->end - turn->from));
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        frames->to[level] = lane->sinks[level].used;
    return status;
}

static weft_status turn_hand(void *user, const weft_lane_turn *turn)
{
    const weft_encoder *encoder = user;
    const weft_status status = frames_emit(encoder, turn);
    return status == WEFT_OK && encoder->pass->moved ? encoder->pass->moved(encoder->pass->user, turn->end) : status;
}

static void pass_begin(weft_encoder *encoder, weft_encode_pass *pass)
{
    encoder->pass = pass;
    for (uint32_t i = 0; i < encoder->lanes.count; i++) {
        weft_encode_lane *lane = &encoder->own[i];
        lane->job = (weft_encode_job){
            .parameters = pass->parameters, .largest_frame = encoder->layout->largest_frame, .sinks = lane->sinks};
        lane->changed = 0;
        sinks_empty(lane);
    }
}

static void pass_sum(const weft_encoder *encoder, weft_encode_pass *pass)
{
    const uint32_t lanes = encoder->lanes.count;
    for (uint32_t i = 0; i < lanes; i++) {
        const weft_encode_lane *lane = &encoder->own[i];
        pass->changed += lane->changed;
        pass->diff_ms += lane->job.diff_ms / lanes;
        pass->encode_ms += lane->job.encode_ms / lanes;
    }
}

weft_status weft_encoder_one(weft_encoder *encoder, weft_encode_pass *pass, uint64_t unit, uint32_t units)
{
    const weft_lane_turn turn = {.from = unit, .end = unit + units};
    pass_begin(encoder, pass);
    const weft_status status = turn_encode(encoder, &turn);
    pass_sum(encoder, pass);
    return status == WEFT_OK ? frames_emit(encoder, &turn) : status;
}

uint8_t *weft_encoder_scratch(const weft_encoder *encoder)
{
    return encoder->own[0].sinks[0].data;
}

weft_status weft_encoder_run(weft_encoder *encoder, weft_encode_pass *pass)
{
    const weft_lane_work work = {.count = encoder->layout->unit_count,
                                 .stretch = run_end,
                                 .fits = turn_fits,
                                 .work = turn_encode,
                                 .hand = turn_hand,
                                 .user = encoder};
    if (encoder->batch)
        return weft_encode_batch_run(encoder, pass);
    pass_begin(encoder, pass);
    pass->changed = 0;
    pass->diff_ms = pass->encode_ms = 0;
    const weft_status status = weft_lanes_run(&encoder->lanes, &work);
    pass_sum(encoder, pass);
    if (status == WEFT_OK && pass->read)
        pass->read(pass->user, false);
    return status;
}
