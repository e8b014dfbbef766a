/* host_encode.c - frames of a change list. */
#include "backends/host/fast/host_fast.h"
#include "backends/host/tight/host_tight.h"

#include <string.h>

uint8_t *weft_host_sink_take(weft_frame_sink *sink, uint64_t bytes)
{
    if (sink->full || bytes > sink->capacity - sink->used) {
        sink->full = true;
        return NULL;
    }
    uint8_t *data = sink->data + sink->used;
    sink->used += bytes;
    return data;
}

/* Takes room for a frame and writes its header; NULL if it does not fit. Returns where the payload goes. */
static uint8_t *frame_begin(weft_frame_sink *sink, const weft_frame_header *header)
{
    uint8_t *out = weft_host_sink_take(sink, WEFT_FRAME_HEADER_BYTES + (uint64_t)header->payload_bytes);
    if (!out)
        return NULL;
    weft_frame_write_header(out, header);
    return out + WEFT_FRAME_HEADER_BYTES;
}

static uint32_t frame_bytes(const weft_frame_header *header)
{
    return WEFT_FRAME_HEADER_BYTES + header->payload_bytes;
}

static uint32_t full_write(const weft_host_kernels *kernels, const weft_view *now, weft_frame_sink *sink)
{
    uint64_t used = (uint64_t)now->count * now->width;
    weft_frame_header header = {.unit = now->unit, .units = 1, .level = WEFT_LEVEL_FULL, .changed = now->count};
    header.payload_bytes = (uint32_t)weft_frame_pad(used);
    uint8_t *payload = frame_begin(sink, &header);
    if (!payload)
        return 0;
    weft_host_load(kernels, now, payload);
    memset(payload + used, 0, header.payload_bytes - used);
    return frame_bytes(&header);
}

static uint32_t steps_write(const weft_changes *changes, const weft_view *now, weft_frame_sink *sink)
{
    const weft_frame_header header = {.unit = now->unit,
                                      .units = 1,
                                      .level = WEFT_LEVEL_FULL,
                                      .payload_bytes = (uint32_t)weft_frame_full_payload(now->count, now->width),
                                      .changed = now->count,
                                      .parameters = WEFT_FULL_STEPS};
    uint8_t *payload = frame_begin(sink, &header);
    if (!payload)
        return 0;
    weft_host_steps_write(changes, now->width, now->is_float, payload, header.payload_bytes);
    return frame_bytes(&header);
}

static uint32_t pairs_write(const weft_changes *changes, const weft_view *now, weft_frame_sink *sink)
{
    weft_frame_header header = {.unit = now->unit, .units = 1, .level = WEFT_LEVEL_PAIRS, .changed = changes->count};
    header.payload_bytes = (uint32_t)weft_frame_pairs_payload(changes->count, now->width);
    uint8_t *payload = frame_begin(sink, &header);
    if (!payload)
        return 0;
    uint64_t positions = 4 * (uint64_t)changes->count, values = (uint64_t)now->width * changes->count;
    memcpy(payload, changes->position, positions);
    memcpy(payload + positions, changes->after, values);
    memset(payload + positions + values, 0, header.payload_bytes - positions - values);
    return frame_bytes(&header);
}

static weft_frame_header coded_header(const weft_backend_state *state, const weft_view *now, weft_level level,
                                      uint64_t payload_bytes, uint32_t parameters)
{
    return (weft_frame_header){.unit = now->unit,
                               .units = now->units,
                               .level = level,
                               .payload_bytes = (uint32_t)payload_bytes,
                               .changed = state->changes.count,
                               .parameters = parameters};
}

/* These return the frame's bytes, 0 if it did not fit the sink, FULL_INSTEAD if it is none. */
#define FULL_INSTEAD UINT32_MAX

static uint32_t fast_write(weft_backend_state *state, const weft_encode_job *job, weft_frame_sink *sink)
{
    weft_fast_plan plan;
    weft_host_fast_plan_make(state, &job->now, &plan);
    uint64_t payload_bytes = weft_fast_payload(&plan.shape, plan.unary_bits, plan.magnitude_bits);
    if (!weft_encode_fits(job, payload_bytes))
        return FULL_INSTEAD;
    weft_frame_header header =
        coded_header(state, &job->now, WEFT_LEVEL_FAST, payload_bytes, weft_fast_parameters(&plan.shape));
    uint8_t *payload = frame_begin(sink, &header);
    if (!payload)
        return 0;
    weft_host_fast_write(state, &job->now, &plan, payload, payload_bytes);
    return frame_bytes(&header);
}

static uint32_t tight_write(weft_backend_state *state, const weft_encode_job *job, weft_frame_sink *sink)
{
    weft_host_tight_plan plan;
    weft_host_tight_plan_make(state, &job->shadow, &plan);
    uint64_t payload_bytes = weft_tight_payload(&plan.shape, plan.unary_bits, plan.magnitude_bits);
    if (!weft_encode_fits(job, payload_bytes))
        return FULL_INSTEAD;
    weft_frame_header header =
        coded_header(state, &job->now, WEFT_LEVEL_TIGHT, payload_bytes, weft_tight_parameters(&plan.shape));
    uint8_t *payload = frame_begin(sink, &header);
    if (!payload)
        return 0;
    weft_host_tight_write(state, &job->now, &plan, payload, payload_bytes);
    return frame_bytes(&header);
}

static uint32_t coded_write(weft_backend_state *state, const weft_encode_job *job, weft_level level,
                            weft_frame_sink *sink)
{
    uint64_t dense = weft_frame_full_payload(job->now.count, job->now.width);
    switch (level) {
    case WEFT_LEVEL_PAIRS:
        if (job->now.units > 1 || weft_frame_pairs_payload(state->changes.count, job->now.width) >= dense)
            return FULL_INSTEAD;
        return pairs_write(&state->changes, &job->now, sink);
    case WEFT_LEVEL_FAST:
        return fast_write(state, job, sink);
    case WEFT_LEVEL_TIGHT:
        return tight_write(state, job, sink);
    default:
        return FULL_INSTEAD;
    }
}

void weft_host_write_frame(weft_backend_state *state, weft_encode_job *job, weft_level level)
{
    weft_frame_sink *sink = &job->sinks[level];
    const bool steps = level >= WEFT_LEVEL_FAST;
    uint32_t bytes = coded_write(state, job, level, sink);
    if (bytes != FULL_INSTEAD)
        job->frame_bytes[level] = bytes;
    else if (job->now.units > 1 || (!steps && job->now.run_count == 0))
        job->alone |= 1u << level;
    else
        job->frame_bytes[level] =
            steps ? steps_write(&state->changes, &job->now, sink) : full_write(state->kernels, &job->now, sink);
}
