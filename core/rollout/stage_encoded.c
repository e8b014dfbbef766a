/* stage_encoded.c - an update that is larger than staging: proved, kept as its frames, and decoded again at commit.
 *
 * The commit decodes as many frames as staging holds, moves the weights, and goes on. Units of an update are disjoint,
 * so a frame meets its base whatever was moved before. To undo, the frames that were moved are inverted and moved
 * again. The sums of the digests' changes must be those of the proof: other sums say that weights changed meanwhile. */
#include <string.h>

#include "base/status.h"
#include "encode/sizes.h"
#include "layout/part.h"
#include "rollout/rollout.h"

uint64_t weft_stage_encoded_bytes(const weft_layout *layout, uint64_t given, uint64_t staging)
{
    const uint64_t most = layout->elements < WEFT_FRAME_RUN_CHANGES ? layout->elements : WEFT_FRAME_RUN_CHANGES;
    if (staging < weft_staging_need(most, 8) || staging < weft_staging_largest(layout))
        return 0;
    if (given != UINT64_MAX)
        return given / 16 * 16;
    const uint64_t half = staging / 2, all = weft_size_kept(layout, 100);
    return staging >= weft_size_staged(layout, 100) ? 0 : (half < all ? half : all) / 16 * 16;
}

void weft_stage_kept_note(weft_kept *kept, const weft_frame_header *frame)
{
    kept->broken = kept->broken || (frame->level != WEFT_LEVEL_FAST && !weft_frame_has_full_steps(frame));
}

/* A walk over the frames that are kept. */
typedef struct walk {
    weft_rollout *rollout;
    uint64_t at;   /* byte at which the next frame begins */
    uint64_t end;  /* byte at which the walk ends */
    bool back;     /* frames are inverted */
    bool unpacked; /* the frame admitted last stands in the unpacker */
} walk;

/* Puts a frame's opposite into the room for a bucket, which no bucket needs during a commit. */
static weft_status frame_invert(weft_rollout *rollout, weft_frame *frame)
{
    const weft_session *session = rollout->session;
    const weft_kept *kept = &rollout->arriving.kept;
    weft_invert_job job = {rollout->layout, *frame, kept->memory + kept->capacity};
    weft_pipeline_settle(&rollout->session->calls);
    weft_status status =
        weft_backend_wait(session->backend, session->device, session->backend->invert(session->device, &job), &job);
    return status == WEFT_OK ? weft_frame_admit(rollout->layout, job.bytes, rollout->arriving.taken.capacity, frame)
                             : status;
}

static weft_status frame_next(walk *at, weft_frame *frame)
{
    weft_rollout *rollout = at->rollout;
    const uint8_t *bytes = rollout->arriving.kept.memory + at->at;
    uint64_t length;
    if (at->unpacked)
        weft_pipeline_settle(&rollout->session->calls);
    weft_status status =
        weft_planes_admit(&rollout->stage.unpacker, rollout->layout, bytes, at->end - at->at, frame, &length);
    if (status != WEFT_OK)
        return status;
    at->unpacked = frame->payload != bytes + WEFT_FRAME_HEADER_BYTES;
    at->at += length;
    return at->back ? frame_invert(rollout, frame) : WEFT_OK;
}

static void decode_begin(weft_rollout *rollout, const weft_frame *frame, weft_changes *changes)
{
    weft_pipeline *window = &rollout->session->calls;
    weft_pipeline_next(window)->decode =
        (weft_decode_job){.frame = *frame,
                          .base = weft_binding_span(&rollout->current.weights, frame->header.unit, frame->header.units),
                          .parameters = &rollout->arriving.queue[0].header.parameters,
                          .changes = changes,
                          .tensor_delta = rollout->arriving.kept.again};
    weft_pipeline_begin(window, WEFT_JOB_DECODE);
}

/* Decodes frames until staging is full or the walk ends. */
static weft_status batch_decode(walk *at)
{
    weft_rollout *rollout = at->rollout;
    weft_pipeline *window = &rollout->session->calls;
    weft_status status = WEFT_OK;
    bool full = false;
    weft_staging_clear(&rollout->stage.staging);
    while (status == WEFT_OK && at->at < at->end && !full) {
        const uint64_t begin = at->at;
        weft_frame frame;
        if (!weft_pipeline_next(window))
            status = weft_pipeline_end(window)->status;
        if (status == WEFT_OK)
            status = frame_next(at, &frame);
        if (status != WEFT_OK)
            break;
        weft_changes *changes = weft_stage_list(rollout->layout, &rollout->stage, &frame.header);
        full = !changes;
        if (changes)
            decode_begin(rollout, &frame, changes);
        else
            at->at = begin;
    }
    while (status == WEFT_OK && window->ended < window->begun)
        status = weft_pipeline_end(window)->status;
    weft_pipeline_drop(window);
    return status;
}

/* Moves the weights by the frames of a walk. *moved receives the byte up to which all frames are in the weights, and no
 * later frame is. */
static weft_status walk_move(walk *at, uint64_t *moved)
{
    weft_status status = WEFT_OK;
    *moved = at->at;
    while (status == WEFT_OK && at->at < at->end) {
        status = batch_decode(at);
        if (status == WEFT_OK)
            status = weft_stage_apply(at->rollout);
        if (status == WEFT_OK)
            *moved = at->at;
    }
    return status;
}

/* Moves the weights back by the frames before byte `end`. */
static weft_status walk_back(weft_rollout *rollout, uint64_t end)
{
    walk back = {.rollout = rollout, .end = end, .back = true};
    uint64_t left;
    return walk_move(&back, &left) == WEFT_OK ? WEFT_OK : WEFT_E_DEVICE;
}

/* Compares the changes of each part's digest with those of the proof. */
static weft_status sums_check(const weft_rollout *rollout)
{
    const weft_layout *layout = rollout->layout;
    char name[WEFT_PART_TEXT];
    for (uint64_t p = 0; p < layout->part_count; p++) {
        if (rollout->current.digests[p] + rollout->arriving.kept.again[p] == rollout->stage.digests[p])
            continue;
        weft_part_name_range(layout, p, p, name);
        return weft_fail(WEFT_E_BASE, "version %llu: %s: the weights changed since it was staged; undone",
                         (unsigned long long)rollout->arriving.queue[0].trailer.target.number, name);
    }
    return WEFT_OK;
}

weft_status weft_stage_commit_encoded(weft_rollout *rollout)
{
    walk forth = {.rollout = rollout, .end = rollout->arriving.kept.bytes};
    uint64_t moved;
    memset(rollout->arriving.kept.again, 0, rollout->layout->part_count * sizeof(uint64_t));
    weft_status status = walk_move(&forth, &moved);
    if (status == WEFT_OK)
        status = sums_check(rollout);
    if (status != WEFT_OK && status != WEFT_E_DEVICE && walk_back(rollout, moved) != WEFT_OK)
        status = WEFT_E_DEVICE;
    weft_staging_clear(&rollout->stage.staging);
    return status;
}

weft_status weft_stage_undo_encoded(weft_rollout *rollout)
{
    weft_status status = walk_back(rollout, rollout->arriving.kept.bytes);
    weft_staging_clear(&rollout->stage.staging);
    return status;
}
