/* stage_frames.c - the frames of a bucket that was taken: decoded or stored, as many at once as the backend takes. */
#include <string.h>

#include "base/status.h"
#include "rollout/rollout.h"

const weft_binding *weft_stage_target(const weft_current *current, const weft_stage *stage)
{
    return stage->into_image ? &stage->image_binding : &current->weights;
}

/* So many windows full of frames are done in one step. */
#define FRAMES_MOST(window) ((window)->depth == 1 ? 1u : 4u * (window)->depth)

static bool has_frames(const weft_arriving *arriving)
{
    return arriving->taken.used < arriving->taken.bytes;
}

/* Puts the number that a unit has in the layout of a view in place of the trainer's. The bytes are this end's copy, and
 * were checked as they came. */
static weft_status to_own_unit(const weft_excerpt *excerpt, uint8_t *frame, uint64_t bytes)
{
    uint64_t own;
    if (excerpt->keys.count == 0 || bytes < WEFT_FRAME_HEADER_BYTES)
        return WEFT_OK;
    const uint64_t unit = weft_bytes_get(frame, 4);
    if (!weft_number_to_own(&excerpt->units, unit, &own))
        return weft_fail(WEFT_E_PROTOCOL, "a frame of unit %llu, which is not in the keys of this rollout",
                         (unsigned long long)unit);
    weft_bytes_put(frame, own, 4);
    return WEFT_OK;
}

/* Admits the next frame. One that was unpacked stands in the unpacker until the next is: jobs on it end before that. */
static weft_status next_frame(weft_rollout *rollout, weft_frame *frame)
{
    weft_taken *taken = &rollout->arriving.taken;
    uint8_t *at = taken->memory + taken->used;
    const uint64_t left = taken->bytes - taken->used;
    uint64_t length;
    if (taken->unpacked)
        weft_pipeline_settle(&rollout->stage.window);
    weft_status status = to_own_unit(&rollout->division->excerpt, at, left);
    if (status == WEFT_OK)
        status = weft_planes_admit(&rollout->stage.unpacker, rollout->layout, at, left, frame, &length);
    if (status != WEFT_OK)
        return status;
    taken->unpacked = frame->payload != at + WEFT_FRAME_HEADER_BYTES;
    taken->used += length;
    return WEFT_OK;
}

/* Begins to decode a frame against `base` into a list. */
static void decode_begin(weft_rollout *rollout, const weft_frame *frame, const weft_binding *base, uint32_t limit,
                         weft_changes *changes)
{
    weft_pipeline *window = &rollout->stage.window;
    weft_pipeline_next(window)->decode =
        (weft_decode_job){.frame = *frame,
                          .base = weft_binding_span(base, frame->header.unit, frame->header.units),
                          .parameters = &rollout->arriving.queue[0].header.parameters,
                          .limit = limit,
                          .changes = changes,
                          .tensor_delta = rollout->stage.digests};
    weft_pipeline_begin(window, WEFT_JOB_DECODE);
}

weft_changes *weft_stage_list(const weft_layout *layout, weft_stage *stage, const weft_frame_header *frame)
{
    weft_changes *changes =
        weft_staging_take(&stage->staging, frame->unit, frame->changed, layout->units[frame->unit].width);
    if (changes)
        changes->units = frame->units;
    return changes;
}

static weft_status over_budget(const weft_arriving *arriving, const weft_stage *stage)
{
    return weft_fail(WEFT_E_BUDGET, "version %llu needs more than staging = %llu bytes; raise it in the site file",
                     (unsigned long long)arriving->queue[0].header.target.number,
                     (unsigned long long)stage->staging.bytes);
}

/* ---- of an update */

/* Ends the oldest frame under way. */
static weft_status update_frame_end(weft_rollout *rollout)
{
    const weft_job *job = weft_pipeline_end(&rollout->stage.window);
    const weft_status status = job->status;
    if (status == WEFT_OK)
        rollout->arriving.book.changed += job->decode.changes->count;
    if (status != WEFT_E_CORRUPT && status != WEFT_E_BASE)
        return status;
    const weft_frame_header frame = job->decode.frame.header;
    weft_pipeline_drop(&rollout->stage.window);
    return weft_verify_frame(rollout, &frame, status);
}

static weft_status update_frames_end(weft_rollout *rollout)
{
    const weft_pipeline *window = &rollout->stage.window;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && window->ended < window->begun)
        status = update_frame_end(rollout);
    return status;
}

/* Takes a list for a frame's changes. If staging is full and all frames are kept, the lists so far are dropped, because
 * the commit can decode their frames again. */
static weft_status list_take(weft_rollout *rollout, const weft_frame_header *frame, weft_changes **changes)
{
    weft_kept *kept = &rollout->arriving.kept;
    *changes = weft_stage_list(rollout->layout, &rollout->stage, frame);
    if (*changes || kept->broken)
        return *changes ? WEFT_OK : over_budget(&rollout->arriving, &rollout->stage);
    weft_status status = update_frames_end(rollout);
    if (status != WEFT_OK)
        return status;
    kept->encoded = true;
    weft_staging_clear(&rollout->stage.staging);
    *changes = weft_stage_list(rollout->layout, &rollout->stage, frame);
    return *changes ? WEFT_OK : over_budget(&rollout->arriving, &rollout->stage);
}

/* Frames come in the order of their units: no two of an update touch one element. */
static weft_status update_frame_begin(weft_rollout *rollout)
{
    weft_frame frame;
    weft_status status = next_frame(rollout, &frame);
    if (status != WEFT_OK)
        return status;
    if (frame.header.unit < rollout->arriving.book.next_unit)
        return weft_fail(WEFT_E_PROTOCOL, "version %llu: a frame of unit %u after that of unit %llu",
                         (unsigned long long)rollout->arriving.queue[0].header.target.number, frame.header.unit,
                         (unsigned long long)rollout->arriving.book.next_unit - 1);
    rollout->arriving.book.next_unit = frame.header.unit + (uint64_t)frame.header.units;
    weft_changes *changes;
    weft_stage_kept_note(&rollout->arriving.kept, &frame.header);
    status = list_take(rollout, &frame.header, &changes);
    if (status == WEFT_OK)
        decode_begin(rollout, &frame, &rollout->current.weights, 0, changes);
    return status;
}

static weft_status update_frames(weft_rollout *rollout)
{
    weft_pipeline *window = &rollout->stage.window;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < FRAMES_MOST(window) && has_frames(&rollout->arriving); i++) {
        if (!weft_pipeline_next(window))
            status = update_frame_end(rollout);
        if (status == WEFT_OK)
            status = update_frame_begin(rollout);
    }
    return status == WEFT_OK ? update_frames_end(rollout) : status;
}

/* ---- tiles of a snapshot: stored, and digested where they lie when the proof comes to them */

/* Ends the oldest tiles until at most `left` are under way; `*stored` is how many are whole. */
static weft_status tiles_end(weft_pipeline *window, uint64_t left, uint64_t *stored)
{
    weft_status status = WEFT_OK;
    for (; status == WEFT_OK && window->begun - window->ended > left; ++*stored)
        status = weft_pipeline_end(window)->status;
    return status;
}

/* The trainer has lost what was published since the first tiles were read: all that came is void. */
static void start_over(weft_rollout *rollout)
{
    weft_proof_begin(&rollout->stage.proof, weft_stage_target(&rollout->current, &rollout->stage));
    memset(rollout->stage.digests, 0, rollout->layout->part_count * sizeof *rollout->stage.digests);
    rollout->arriving.book.next_unit = 0;
}

static weft_status tile_begin(weft_rollout *rollout, const weft_frame *frame)
{
    weft_pipeline *window = &rollout->stage.window;
    const bool steps = weft_frame_has_full_steps(&frame->header);
    if (frame->header.level != WEFT_LEVEL_FULL || steps || frame->header.unit != rollout->arriving.book.next_unit)
        return weft_fail(WEFT_E_PROTOCOL, "snapshot: unit %u as %s%s, expected unit %llu as full", frame->header.unit,
                         weft_level_name(frame->header.level), steps ? " of steps" : "",
                         (unsigned long long)rollout->arriving.book.next_unit);
    weft_pipeline_next(window)->store = (weft_store_job){
        .view = weft_binding_view(weft_stage_target(&rollout->current, &rollout->stage), frame->header.unit),
        .bytes = frame->payload,
        .stream = rollout->stage.stream};
    weft_pipeline_begin(window, WEFT_JOB_STORE);
    rollout->arriving.book.next_unit++;
    return WEFT_OK;
}

static weft_status tile_frames(weft_rollout *rollout)
{
    weft_pipeline *window = &rollout->stage.window;
    weft_status status = WEFT_OK;
    uint64_t stored = 0;
    for (uint32_t i = 0; status == WEFT_OK && i < FRAMES_MOST(window) && has_frames(&rollout->arriving); i++) {
        weft_frame frame;
        status = tiles_end(window, window->depth - 1, &stored);
        if (status == WEFT_OK)
            status = next_frame(rollout, &frame);
        if (status == WEFT_OK && frame.header.level == WEFT_LEVEL_FULL && !weft_frame_has_full_steps(&frame.header) &&
            frame.header.unit == 0 && rollout->arriving.book.next_unit > 0) {
            status = tiles_end(window, 0, &stored);
            stored = 0;
            start_over(rollout);
        }
        if (status == WEFT_OK)
            status = tile_begin(rollout, &frame);
    }
    if (status == WEFT_OK)
        status = tiles_end(window, 0, &stored);
    return status == WEFT_OK ? weft_proof_stored(&rollout->stage.proof, stored, rollout->stage.digests) : status;
}

/* ---- catch-up: updates that were published after a tile was read */

static void list_fill(void *user, uint64_t list, weft_job *job)
{
    weft_rollout *rollout = user;
    weft_changes *changes = weft_staging_at(&rollout->stage.staging, list);
    job->apply = (weft_apply_job){.target = weft_binding_span(weft_stage_target(&rollout->current, &rollout->stage),
                                                              changes->unit, changes->units),
                                  .changes = changes,
                                  .stream = rollout->stage.stream};
}

/* Puts what was decoded so far into the tiles. */
static weft_status deltas_end(weft_rollout *rollout)
{
    const weft_chore apply = {WEFT_JOB_APPLY, list_fill, NULL, rollout};
    weft_pipeline *window = &rollout->stage.window;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && window->ended < window->begun)
        status = weft_pipeline_end(window)->status;
    if (status == WEFT_OK)
        status = weft_pipeline_run(window, &apply, 0, rollout->stage.staging.count);
    weft_staging_clear(&rollout->stage.staging);
    return status;
}

/* Begins a frame with a base. If the frame reaches beyond the tiles that are there, only changes of these tiles count,
 * because the tiles that follow have the others. */
static weft_status delta_begin(weft_rollout *rollout, const weft_frame *frame)
{
    const uint64_t next = rollout->arriving.book.next_unit, end = frame->header.unit + (uint64_t)frame->header.units;
    const weft_staging *staging = &rollout->stage.staging;
    weft_status status = WEFT_OK;
    if (frame->header.unit >= next)
        return weft_fail(WEFT_E_PROTOCOL, "snapshot: a delta for unit %u before its tile", frame->header.unit);
    const weft_changes *last = staging->count > 0 ? weft_staging_at(&rollout->stage.staging, staging->count - 1) : NULL;
    bool again = last && frame->header.unit < last->unit + (uint64_t)last->units; /* of a version further on */
    if (again || !weft_pipeline_next(&rollout->stage.window))
        status = deltas_end(rollout);
    weft_changes *changes =
        status == WEFT_OK ? weft_stage_list(rollout->layout, &rollout->stage, &frame->header) : NULL;
    if (status == WEFT_OK && !changes && staging->count > 0) {
        status = deltas_end(rollout);
        changes = status == WEFT_OK ? weft_stage_list(rollout->layout, &rollout->stage, &frame->header) : NULL;
    }
    if (status != WEFT_OK || !changes)
        return status != WEFT_OK ? status : over_budget(&rollout->arriving, &rollout->stage);
    const weft_layout *layout = rollout->layout;
    uint32_t limit =
        end > next ? weft_layout_count_units(layout, frame->header.unit, (uint32_t)(next - frame->header.unit)) : 0;
    decode_begin(rollout, frame, weft_stage_target(&rollout->current, &rollout->stage), limit, changes);
    return WEFT_OK;
}

static weft_status delta_frames(weft_rollout *rollout)
{
    weft_pipeline *window = &rollout->stage.window;
    weft_status status =
        weft_proof_settle(&rollout->stage.proof, rollout->stage.digests); /* what changes was digested before */
    for (uint32_t i = 0; status == WEFT_OK && i < FRAMES_MOST(window) && has_frames(&rollout->arriving); i++) {
        weft_frame frame;
        status = next_frame(rollout, &frame);
        if (status == WEFT_OK)
            status = delta_begin(rollout, &frame);
    }
    return status == WEFT_OK ? deltas_end(rollout) : status;
}

weft_status weft_stage_frames(weft_rollout *rollout)
{
    weft_status status = !rollout->arriving.queue[0].header.snapshot ? update_frames(rollout)
                         : rollout->arriving.taken.delta             ? delta_frames(rollout)
                                                                     : tile_frames(rollout);
    weft_pipeline_drop(&rollout->stage.window);
    return status;
}
