/* encode.c - lanes that take runs of units in turn, and hand their frames on in turn. */
#include "encode.h"

#include <stdio.h>
#include <string.h>

#include "codec/chooser.h"
#include "log.h"
#include "mem.h"
#include "part.h"
#include "status.h"

/* What one lane works with. */
typedef struct weft_encode_lane {
    weft_backend_state *device;
    bool owned;                      /* the device was opened for this lane */
    uint8_t *room[WEFT_LEVEL_COUNT]; /* frames of one run; pages never touched cost nothing */
    weft_encode_job job;             /* times add up in it */
    uint64_t changed;
} weft_encode_lane;

static uint64_t room_bytes(const weft_layout *layout)
{
    uint64_t most = UINT64_C(1) << WEFT_RUN_SHIFT_MAX, units = layout->unit_count < most ? layout->unit_count : most;
    return (units ? units : 1) * (layout->largest_frame ? layout->largest_frame : 1);
}

/* ---- open */

static weft_status lane_open(weft_encoder *encoder, weft_encode_lane *lane, const weft_backend_options *options)
{
    bool got = true;
    if (!lane->device) {
        weft_status status = encoder->backend->open(options, &lane->device);
        if (status != WEFT_OK)
            return status;
        lane->owned = true;
    }
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        lane->room[level] = weft_mem_map(room_bytes(encoder->layout));
        got = got && lane->room[level];
    }
    return got ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for the frames of one run of units");
}

static void lane_close(weft_encoder *encoder, weft_encode_lane *lane)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (lane->room[level])
            weft_mem_unmap(lane->room[level], room_bytes(encoder->layout));
    if (lane->owned)
        encoder->backend->close(lane->device);
}

weft_status weft_encoder_open(weft_encoder *encoder, const weft_backend *backend, const weft_backend_options *options,
                              weft_backend_state *device, const weft_layout *layout, uint32_t lanes)
{
    memset(encoder, 0, sizeof *encoder);
    encoder->backend = backend;
    encoder->layout = layout;
    weft_status status = weft_crew_open(&encoder->crew, lanes);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_init(&encoder->lock, NULL);
    pthread_cond_init(&encoder->moved, NULL);
    encoder->lanes = weft_mem_take(lanes, sizeof *encoder->lanes);
    encoder->survey = weft_mem_take(1, sizeof *encoder->survey);
    if (!encoder->lanes || !encoder->survey)
        status = weft_fail(WEFT_E_MEMORY, "no memory for %u lanes of encoding", lanes);
    if (status == WEFT_OK)
        encoder->lanes[0].device = device;
    for (uint32_t lane = 0; status == WEFT_OK && lane < lanes; lane++)
        status = lane_open(encoder, &encoder->lanes[lane], options);
    if (status != WEFT_OK)
        weft_encoder_close(encoder);
    return status;
}

void weft_encoder_close(weft_encoder *encoder)
{
    if (!encoder->layout)
        return;
    uint32_t lanes = encoder->crew.lanes;
    weft_crew_close(&encoder->crew);
    for (uint32_t lane = 0; encoder->lanes && lane < lanes; lane++)
        lane_close(encoder, &encoder->lanes[lane]);
    weft_mem_give(encoder->survey);
    weft_mem_give(encoder->lanes);
    pthread_cond_destroy(&encoder->moved);
    pthread_mutex_destroy(&encoder->lock);
    memset(encoder, 0, sizeof *encoder);
}

/* ---- parameters */

weft_status weft_encoder_choose(weft_encoder *encoder, const weft_binding *now, const weft_binding *shadow,
                                uint32_t levels, weft_parameters *parameters)
{
    const weft_backend *backend = encoder->backend;
    weft_survey_plan plan = weft_survey_plan_for(encoder->layout->elements, levels);
    memset(encoder->survey, 0, sizeof *encoder->survey);
    for (uint64_t unit = 0; unit < encoder->layout->unit_count; unit++) {
        weft_survey_job job = {weft_binding_view(now, unit), weft_binding_view(shadow, unit), plan.count, plan.stride,
                               encoder->survey};
        weft_backend_state *device = encoder->lanes[0].device;
        weft_status status = weft_backend_wait(backend, device, backend->survey(device, &job), &job);
        if (status != WEFT_OK)
            return status;
    }
    weft_parameters_choose(encoder->survey, levels, parameters);
    return WEFT_OK;
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
    job->tensor_delta = encoder->pass->delta; /* a part belongs to one unit: lanes share no word */
    return weft_backend_wait(encoder->backend, lane->device, encoder->backend->encode(lane->device, job), job);
}

/* What was counted of the units' digests is counted anew. */
static void delta_clear(const weft_encoder *encoder, uint64_t unit, uint32_t units)
{
    const weft_layout *layout = encoder->layout;
    uint64_t last = unit + units - 1, end = weft_part_of_unit(layout, last) + layout->units[last].tensor_count;
    for (uint64_t part = weft_part_of_unit(layout, unit); part < end; part++)
        encoder->pass->delta[part] = 0;
}

/* The base while it is near: its words are in a cache when they are compared. */
static weft_status base_digest(const weft_encoder *encoder, const weft_encode_lane *lane, uint64_t unit, uint32_t units)
{
    weft_digest_job job = {weft_binding_span(encoder->pass->shadow, unit, units), encoder->pass->digests};
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
    delta_clear(encoder, unit, units);
    for (uint32_t i = 0; status == WEFT_OK && i < units; i++) {
        status = span_encode(encoder, lane, unit + i, 1, alone);
        lane->changed += lane->job.changed;
    }
    return status;
}

static weft_status frames_emit(const weft_encode_pass *pass, const weft_frame_sink *sinks)
{
    weft_status status = WEFT_OK;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        for (uint64_t at = 0; status == WEFT_OK && at < sinks[level].used;) {
            uint64_t bytes = weft_frame_measure(sinks[level].data + at, sinks[level].used - at);
            status = pass->emit(pass->user, (weft_level)level, sinks[level].data + at, (uint32_t)bytes);
            at += bytes;
        }
    }
    return status;
}

/* The next run for a lane and its turn; false at the end or after a failure. */
static bool run_take(weft_encoder *encoder, uint64_t *unit, uint32_t *units, uint64_t *turn)
{
    pthread_mutex_lock(&encoder->lock);
    bool more = encoder->status == WEFT_OK && encoder->next_unit < encoder->layout->unit_count;
    if (more) {
        *unit = encoder->next_unit;
        *units = weft_layout_run(encoder->layout, *unit, encoder->pass->parameters->run_shift);
        *turn = encoder->taken++;
        encoder->next_unit += *units;
    }
    pthread_mutex_unlock(&encoder->lock);
    return more;
}

/* Hands the frames of a run on when it is its turn. */
static void run_emit(weft_encoder *encoder, uint64_t turn, uint64_t end, const weft_frame_sink *sinks,
                     weft_status status)
{
    pthread_mutex_lock(&encoder->lock);
    while (encoder->emitted != turn)
        pthread_cond_wait(&encoder->moved, &encoder->lock);
    if (status == WEFT_OK && encoder->status == WEFT_OK)
        status = frames_emit(encoder->pass, sinks);
    if (status == WEFT_OK && encoder->status == WEFT_OK && encoder->pass->moved)
        status = encoder->pass->moved(encoder->pass->user, end);
    if (encoder->status == WEFT_OK && status != WEFT_OK) {
        encoder->status = status;
        snprintf(encoder->text, sizeof encoder->text, "%s", weft_last_error());
    }
    encoder->emitted++;
    pthread_cond_broadcast(&encoder->moved);
    pthread_mutex_unlock(&encoder->lock);
}

static void mute(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)level;
    (void)line;
}

static void lane_run(void *context, uint32_t number)
{
    weft_encoder *encoder = context;
    weft_encode_lane *lane = &encoder->lanes[number];
    weft_frame_sink sinks[WEFT_LEVEL_COUNT];
    uint64_t unit, turn;
    uint32_t units;
    lane->job = (weft_encode_job){
        .parameters = encoder->pass->parameters, .largest_frame = encoder->layout->largest_frame, .sinks = sinks};
    weft_log_sink quiet = {WEFT_LOG_ERROR, mute}, *before = weft_log_enter(&quiet); /* the caller says it */
    lane->changed = 0;
    while (run_take(encoder, &unit, &units, &turn)) {
        for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
            sinks[level] = (weft_frame_sink){lane->room[level], room_bytes(encoder->layout), 0, false};
        weft_status status = run_encode(encoder, lane, unit, units);
        run_emit(encoder, turn, unit + units, sinks, status);
    }
    weft_log_enter(before);
}

weft_status weft_encoder_one(weft_encoder *encoder, weft_encode_pass *pass, uint64_t unit, uint32_t units)
{
    weft_encode_lane *lane = &encoder->lanes[0];
    weft_frame_sink sinks[WEFT_LEVEL_COUNT];
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        sinks[level] = (weft_frame_sink){lane->room[level], room_bytes(encoder->layout), 0, false};
    lane->job = (weft_encode_job){
        .parameters = pass->parameters, .largest_frame = encoder->layout->largest_frame, .sinks = sinks};
    lane->changed = 0;
    encoder->pass = pass;
    weft_status status = run_encode(encoder, lane, unit, units);
    pass->changed += lane->changed;
    pass->diff_ms += lane->job.diff_ms;
    pass->encode_ms += lane->job.encode_ms;
    return status == WEFT_OK ? frames_emit(pass, sinks) : status;
}

weft_status weft_encoder_run(weft_encoder *encoder, weft_encode_pass *pass)
{
    const uint32_t lanes = encoder->crew.lanes;
    encoder->pass = pass;
    encoder->next_unit = encoder->taken = encoder->emitted = 0;
    encoder->status = WEFT_OK;
    pass->changed = 0;
    pass->diff_ms = pass->encode_ms = 0;
    weft_crew_run(&encoder->crew, lane_run, encoder);
    for (uint32_t i = 0; i < lanes; i++) {
        const weft_encode_lane *lane = &encoder->lanes[i];
        pass->changed += lane->changed;
        pass->diff_ms += lane->job.diff_ms / lanes;
        pass->encode_ms += lane->job.encode_ms / lanes;
    }
    return encoder->status == WEFT_OK ? WEFT_OK : weft_fail(encoder->status, "%s", encoder->text);
}
