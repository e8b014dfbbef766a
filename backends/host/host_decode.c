/* host_decode.c - frames into change lists against a base that is read and not written. */
#include "backends/host/fast/host_fast.h"
#include "backends/host/host_element.h"
#include "backends/host/tight/host_tight.h"
#include "base/status.h"

void weft_host_gather(const weft_host_kernels *kernels, const weft_view *base, weft_changes *changes)
{
    const unsigned slot = weft_host_slot(base->width);
    uint32_t from = 0;
    for (uint32_t r = 0; r < base->run_count && from < changes->count; r++) {
        const weft_run *run = &base->runs[r];
        uint32_t end = weft_host_run_end(base, run, changes, from);
        if (!run->data)
            weft_host_boxes_gather(&(weft_host_spots){base, run, changes->position + from, end - from},
                                   (uint8_t *)changes->before + ((uint64_t)from << slot));
        else
            kernels->gather[slot](run->data, changes->position + from, weft_run_position(base, run), end - from,
                                  (uint8_t *)changes->before + ((uint64_t)from << slot));
        from = end;
    }
}

/* Drops the changes that change nothing. */
WEFT_ALWAYS_INLINE void compact(weft_changes *changes, unsigned width)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < changes->count; i++) {
        uint64_t before = weft_element_get(changes->before, i, width);
        uint64_t after = weft_element_get(changes->after, i, width);
        changes->position[kept] = changes->position[i];
        weft_element_put(changes->before, kept, before, width);
        weft_element_put(changes->after, kept, after, width);
        kept += before != after;
    }
    changes->count = kept;
}

static void changes_compact(weft_changes *changes, uint8_t width)
{
    switch (width) {
    case 1:
        compact(changes, 1);
        return;
    case 2:
        compact(changes, 2);
        return;
    case 4:
        compact(changes, 4);
        return;
    default:
        compact(changes, 8);
    }
}

weft_status weft_host_pairs_read(const weft_frame *frame, uint8_t width, weft_changes *changes)
{
    const uint32_t count = frame->header.changed;
    memcpy(changes->position, frame->payload, 4 * (uint64_t)count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t position = changes->position[i];
        if (position >= frame->count)
            return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: position %u of %u elements", frame->header.unit,
                             position, frame->count);
        if (i > 0 && position <= changes->position[i - 1])
            return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: position %u after %u", frame->header.unit, position,
                             changes->position[i - 1]);
    }
    memcpy(changes->after, frame->payload + 4 * (uint64_t)count, (uint64_t)width * count);
    changes->count = count;
    return WEFT_OK;
}

/* The payload of a full frame, which lies in one piece, as the other view of the unit. */
static void full_decode(weft_backend_state *state, const weft_decode_job *job)
{
    weft_run run = {.data = (uint8_t *)(uintptr_t)job->frame.payload, .count = job->base.count};
    weft_view now = job->base;
    now.runs = &run;
    now.run_count = 1;
    now.first = 0;
    now.boxes = NULL;
    weft_host_tile_lock(state, &job->base);
    if (weft_frame_has_full_steps(&job->frame.header))
        weft_host_steps_read(state->kernels, job->frame.payload, &job->base, weft_host_tile(state, 0), job->changes);
    else
        weft_host_diff(state, &now, &job->base, job->changes,
                       NULL); /* the list holds every element: the caller checked */
    weft_host_tile_unlock(state, &job->base);
}

static weft_status pairs_decode(weft_backend_state *state, const weft_decode_job *job)
{
    weft_status status = weft_host_pairs_read(&job->frame, job->base.width, job->changes);
    if (status != WEFT_OK)
        return status;
    weft_host_gather(state->kernels, &job->base, job->changes);
    changes_compact(job->changes, job->base.width);
    return WEFT_OK;
}

/* The list of a coded frame holds steps, until they become bits. */
static weft_status coded_decode(weft_backend_state *state, const weft_decode_job *job)
{
    weft_changes *changes = job->changes;
    weft_status status;
    if (job->frame.header.level == WEFT_LEVEL_FAST) {
        status = weft_host_fast_read(state->kernels, &job->frame, &job->base, changes);
    } else {
        pthread_mutex_lock(&state->scratching);
        status = weft_host_tight_read(state, job);
        pthread_mutex_unlock(&state->scratching);
    }
    if (status == WEFT_OK)
        state->kernels->step[weft_host_slot(job->base.width)](changes->before, changes->after, changes->count,
                                                              job->base.is_float);
    return status;
}

weft_status weft_host_decode(weft_backend_state *state, weft_decode_job *job)
{
    const weft_frame *frame = &job->frame;
    weft_status status = WEFT_OK;
    job->changes->unit = frame->header.unit;
    job->changes->units = frame->header.units;
    job->changes->count = 0;
    if (frame->header.changed > job->changes->capacity)
        return weft_fail(WEFT_E_BUDGET, "frame of unit %u codes %u elements, the change list holds %u",
                         frame->header.unit, frame->header.changed, job->changes->capacity);
    if (frame->header.level == WEFT_LEVEL_FULL)
        full_decode(state, job);
    else if (frame->header.level == WEFT_LEVEL_PAIRS)
        status = pairs_decode(state, job);
    else
        status = coded_decode(state, job);
    if (status != WEFT_OK)
        job->changes->count = 0;
    if (job->limit > 0)
        job->changes->count = weft_host_changes_below(job->changes, 0, job->limit);
    weft_host_delta(state->kernels, &job->base, job->changes, job->tensor_delta);
    return status;
}
