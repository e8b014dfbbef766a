/* host_invert.c - frames of steps turned round: each step becomes its opposite. */
#include "backends/host/fast/host_fast.h"
#include "backends/host/host_element.h"
#include "base/status.h"

/* ---- level full */

WEFT_ALWAYS_INLINE void words_negate(const uint8_t *from, uint32_t count, uint8_t *to, unsigned width)
{
    for (uint32_t i = 0; i < count; i++)
        weft_element_put(to, i, 0 - weft_element_get(from, i, width), width);
}

static void full_invert(const weft_frame *frame, uint8_t width, uint8_t *payload)
{
    switch (width) {
    case 1:
        words_negate(frame->payload, frame->count, payload, 1);
        return;
    case 2:
        words_negate(frame->payload, frame->count, payload, 2);
        return;
    case 4:
        words_negate(frame->payload, frame->count, payload, 4);
        return;
    default:
        words_negate(frame->payload, frame->count, payload, 8);
    }
}

/* ---- level fast: the first bit of a change's field is its direction */

/* A step of magnitude 2^(8w-1) is its own opposite, and goes down. */
WEFT_ALWAYS_INLINE void directions_flip(const weft_changes *changes, uint32_t field_bits, uint8_t *payload,
                                        unsigned width)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < changes->count; i++, at += field_bits) {
        const bool flips = weft_element_get(changes->after, i, width) != weft_element_top(width);
        payload[at / 8] ^= (uint8_t)(flips << at % 8);
    }
}

static void fast_invert(const weft_changes *changes, uint32_t field_bits, uint8_t width, uint8_t *payload)
{
    switch (width) {
    case 1:
        directions_flip(changes, field_bits, payload, 1);
        return;
    case 2:
        directions_flip(changes, field_bits, payload, 2);
        return;
    case 4:
        directions_flip(changes, field_bits, payload, 4);
        return;
    default:
        directions_flip(changes, field_bits, payload, 8);
    }
}

/* The list is read for the magnitudes, and because a frame that is refused has no opposite. */
static weft_status fast_read(weft_backend_state *state, const weft_invert_job *job, uint8_t *payload)
{
    const weft_frame *frame = &job->frame;
    const weft_unit *unit = &job->layout->units[frame->header.unit];
    const weft_view nowhere = {.count = frame->count,
                               .unit = frame->header.unit,
                               .units = frame->header.units,
                               .width = unit->width,
                               .is_float = unit->is_float};
    weft_fast_shape shape;
    weft_status status = weft_fast_shape_read(&frame->header, frame->count, unit->width, &shape);
    if (status == WEFT_OK)
        status = weft_host_fast_read(state->kernels, frame, &nowhere, &state->changes);
    if (status != WEFT_OK)
        return status;
    memcpy(payload, frame->payload, frame->header.payload_bytes);
    fast_invert(&state->changes, shape.gap_bits + 1, unit->width, payload);
    return WEFT_OK;
}

/* ---- a frame */

weft_status weft_host_invert(weft_backend_state *state, weft_invert_job *job)
{
    const weft_frame_header *header = &job->frame.header;
    const uint8_t width = job->layout->units[header->unit].width;
    uint8_t *payload = job->bytes + WEFT_FRAME_HEADER_BYTES;
    weft_status status = WEFT_OK;
    if (weft_frame_has_full_steps(header)) {
        const uint64_t used = (uint64_t)job->frame.count * width;
        full_invert(&job->frame, width, payload);
        memset(payload + used, 0, header->payload_bytes - used);
    } else if (header->level == WEFT_LEVEL_FAST) {
        pthread_mutex_lock(&state->scratching);
        status = fast_read(state, job, payload);
        pthread_mutex_unlock(&state->scratching);
    } else {
        return weft_fail(WEFT_E_ARGUMENT, "frame of unit %u: level %s has no steps that could be inverted",
                         header->unit, weft_level_name(header->level));
    }
    if (status == WEFT_OK)
        weft_frame_write_header(job->bytes, header);
    return status;
}
