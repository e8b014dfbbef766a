/* host_encode.c - frames of a change list. */
#include "backends/host_fast.h"

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

static uint32_t full_write(const weft_view *now, weft_frame_sink *sink)
{
    uint64_t used = (uint64_t)now->count * now->width;
    weft_frame_header header = {.unit = now->unit, .units = 1, .level = WEFT_LEVEL_FULL, .changed = now->count};
    header.payload_bytes = (uint32_t)weft_frame_pad(used);
    uint8_t *payload = frame_begin(sink, &header);
    if (!payload)
        return 0;
    weft_host_load(now, payload);
    memset(payload + used, 0, header.payload_bytes - used);
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

static uint32_t fast_write(const weft_backend_state *state, const weft_view *now, const weft_host_fast_plan *plan,
                           uint64_t payload_bytes, weft_frame_sink *sink)
{
    weft_frame_header header = {
        .unit = now->unit, .units = 1, .level = WEFT_LEVEL_FAST, .changed = state->changes.count};
    header.payload_bytes = (uint32_t)payload_bytes;
    header.parameters = weft_fast_parameters(&plan->shape);
    uint8_t *payload = frame_begin(sink, &header);
    if (!payload)
        return 0;
    weft_host_fast_write(state, now, plan, payload, payload_bytes);
    return frame_bytes(&header);
}

uint32_t weft_host_write_frame(weft_backend_state *state, const weft_view *now, weft_level level, weft_frame_sink *sink)
{
    uint64_t dense = weft_frame_full_payload(now->count, now->width);
    if (level == WEFT_LEVEL_PAIRS && weft_frame_pairs_payload(state->changes.count, now->width) < dense)
        return pairs_write(&state->changes, now, sink);
    if (level == WEFT_LEVEL_FAST) {
        weft_host_fast_plan plan;
        weft_host_fast_plan_make(state, now, &plan);
        uint64_t payload = weft_fast_payload(&plan.shape, plan.unary_bits, plan.magnitude_bits);
        if (payload < dense)
            return fast_write(state, now, &plan, payload, sink);
    }
    return full_write(now, sink);
}
