/* shadow_update.c - brings the shadow from version to version.
 *
 * A backend that still has the changes of a frame moves the shadow on while publish encodes (weft_shadow_takes). The
 * frames that stay, and all where the backend cannot, are decoded and applied. A publish that fails takes back what
 * moved: by the frames of its chain turned round, which are of level fast. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "layout/part.h"
#include "trainer/publish.h"

/* Tries of the way back, each as long as a job waits for other work on the device. */
#define RETURNS 3

/* ---- what moved while it was encoded */

static bool has_moved(const weft_shadow *shadow, uint64_t unit)
{
    return shadow->moved[unit / 64] >> unit % 64 & 1;
}

static void moved_clear(weft_publisher *publisher)
{
    memset(publisher->shadow.moved, 0, weft_shadow_words(publisher->session->layout) * sizeof(uint64_t));
    publisher->shadow.moves = 0;
}

static void busy_set(weft_publisher *publisher, bool busy)
{
    weft_session *session = publisher->session;
    weft_log_sink *before = weft_session_enter(session);
    publisher->shadow.busy = busy;
    if (!busy) {
        weft_session_wake(session);
        weft_session_changed(session);
    }
    weft_session_leave(session, before);
}

void weft_shadow_takes(weft_publisher *publisher, uint64_t unit)
{
    weft_shadow *shadow = &publisher->shadow;
    if (!shadow->busy) /* this thread alone sets it */
        busy_set(publisher, true);
    shadow->moved[unit / 64] |= UINT64_C(1) << unit % 64;
    shadow->moves++;
}

/* Counts for a frame that moved what the encoder counted, because the shadow has the very bits that the frame has. */
static void moved_count(weft_publisher *publisher, const weft_frame_header *header)
{
    const weft_layout *layout = publisher->session->layout;
    const uint64_t last = header->unit + (uint64_t)header->units - 1;
    const uint64_t first = weft_part_of_unit(layout, header->unit);
    const uint64_t end = weft_part_of_unit(layout, last) + layout->units[last].tensor_count;
    memcpy(publisher->encoding.discard + first, publisher->encoding.delta + first, (end - first) * sizeof(uint64_t));
}

/* ---- frames */

static void apply_fill(void *user, uint64_t list, weft_job *job)
{
    weft_shadow *shadow = user;
    weft_changes *changes = weft_staging_at(&shadow->scratch, list);
    job->apply = (weft_apply_job){.target = weft_binding_span(&shadow->binding, changes->unit, changes->units),
                                  .changes = changes};
}

static weft_status apply_done(void *user, uint64_t list, const weft_job *job)
{
    (void)user;
    (void)list;
    return job->status == WEFT_OK && job->apply.mismatch ? WEFT_E_BASE : job->status;
}

/* Puts the frames that are under way into the shadow. */
static weft_status frames_end(weft_shadow *shadow)
{
    const weft_chore apply = {WEFT_JOB_APPLY, apply_fill, apply_done, shadow};
    weft_pipeline *window = &shadow->jobs;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && window->ended < window->begun)
        status = weft_pipeline_end(window)->status;
    if (status == WEFT_OK)
        status = weft_pipeline_run(window, &apply, 0, shadow->scratch.count);
    weft_staging_clear(&shadow->scratch);
    return status;
}

/* Begins to bring the units of one frame to the target, from the frame itself: O(changes). */
static weft_status frame_begin(weft_publisher *publisher, const weft_frame *frame)
{
    const weft_frame_header *header = &frame->header;
    weft_pipeline *window = &publisher->shadow.jobs;
    const uint8_t width = publisher->session->layout->units[header->unit].width;
    weft_changes *changes = weft_staging_take(&publisher->shadow.scratch, header->unit, header->changed, width);
    if (!changes) {
        weft_status status = frames_end(&publisher->shadow);
        if (status != WEFT_OK)
            return status;
        changes = weft_staging_take(&publisher->shadow.scratch, header->unit, header->changed, width);
    }
    weft_pipeline_next(window)->decode = (weft_decode_job){
        .frame = *frame,
        .base = weft_binding_span(&publisher->shadow.binding, header->unit, header->units),
        .changes = changes, /* there is room for the largest frame, and for as many frames as the window takes */
        .tensor_delta = publisher->encoding.discard};
    weft_pipeline_begin(window, WEFT_JOB_DECODE);
    return WEFT_OK;
}

/* An act on an admitted frame of a chain. */
typedef weft_status frame_act(weft_publisher *publisher, const weft_frame *frame);

static weft_status frame_forward(weft_publisher *publisher, const weft_frame *frame)
{
    if (!has_moved(&publisher->shadow, frame->header.unit))
        return frame_begin(publisher, frame);
    moved_count(publisher, &frame->header);
    return WEFT_OK;
}

/* Takes a frame back alone, because there is memory for one that is turned round. */
static weft_status frame_back(weft_publisher *publisher, const weft_frame *frame)
{
    const weft_session *session = publisher->session;
    const uint64_t unit = frame->header.unit;
    weft_invert_job job = {
        .layout = session->layout, .frame = *frame, .bytes = weft_encoder_scratch(&publisher->encoding.encoder)};
    if (!has_moved(&publisher->shadow, unit))
        return WEFT_OK;
    weft_status status = session->backend->invert(session->device, &job);
    if (status == WEFT_OK)
        status = weft_frame_admit(session->layout, job.bytes, WEFT_FRAME_HEADER_BYTES + frame->header.payload_bytes,
                                  &job.frame);
    if (status == WEFT_OK)
        status = frame_begin(publisher, &job.frame);
    if (status == WEFT_OK)
        status = frames_end(&publisher->shadow);
    if (status == WEFT_OK)
        publisher->shadow.moved[unit / 64] &= ~(UINT64_C(1) << unit % 64);
    return status;
}

static weft_status chain_frames(weft_publisher *publisher, const weft_chain *chain, frame_act *act)
{
    const weft_arena *arena = &publisher->journal.arena;
    weft_cursor cursor = weft_cursor_begin(chain);
    weft_status status = WEFT_OK;
    const uint8_t *bytes;
    uint32_t length;
    while (status == WEFT_OK && (bytes = weft_cursor_next(arena, &cursor, &length)) != NULL) {
        weft_frame frame;
        status = weft_frame_admit(publisher->session->layout, bytes, length, &frame);
        if (status == WEFT_OK)
            status = act(publisher, &frame);
    }
    return status == WEFT_OK ? frames_end(&publisher->shadow) : status;
}

static weft_status shadow_chain(weft_publisher *publisher, const weft_chain *chain, frame_act *act)
{
    weft_status status = chain_frames(publisher, chain, act);
    weft_pipeline_drop(&publisher->shadow.jobs);
    weft_staging_clear(&publisher->shadow.scratch);
    return status;
}

weft_status weft_shadow_return(weft_publisher *publisher, const weft_update *update, weft_status why)
{
    weft_status status = why == WEFT_E_DEVICE ? why : WEFT_E_TIMEOUT;
    char text[512];
    if (publisher->shadow.moves == 0)
        return why;
    snprintf(text, sizeof text, "%s", weft_last_error());
    for (int tries = 0; status == WEFT_E_TIMEOUT && tries < RETURNS; tries++)
        status = shadow_chain(publisher, &update->chain[WEFT_JOURNAL_LEVEL], frame_back);
    moved_clear(publisher);
    publisher->shadow.lost = status != WEFT_OK;
    busy_set(publisher, false);
    if (status != WEFT_OK && why != WEFT_E_DEVICE)
        return weft_fail(WEFT_E_DEVICE, "the copy of version %llu is lost, because it does not come back: %s",
                         (unsigned long long)publisher->newest.version.number, weft_last_error());
    return weft_fail_quiet(why, "%s", text);
}

weft_status weft_shadow_follow(weft_publisher *publisher, const weft_chain *chain)
{
    memset(publisher->encoding.discard, 0,
           publisher->session->layout->part_count * sizeof *publisher->encoding.discard);
    return shadow_chain(publisher, chain, frame_forward);
}

/* Counts how far the shadow's digests are from those of the version before. newest.digests are the announced ones
 * already. */
static weft_status count_whole(weft_publisher *publisher)
{
    uint64_t root;
    weft_status status =
        weft_session_digest(&publisher->shadow.jobs, &publisher->shadow.binding, publisher->encoding.discard, &root);
    for (uint64_t part = 0; part < publisher->session->layout->part_count; part++)
        publisher->encoding.discard[part] -= publisher->newest.digests[part] - publisher->encoding.delta[part];
    return status;
}

/* Brings the shadow on by what did not move yet. */
static weft_status update_rest(weft_publisher *publisher, const weft_chain *chain)
{
    const uint64_t bytes = publisher->session->layout->part_count * sizeof *publisher->encoding.discard;
    if (chain->frames > publisher->shadow.moves)
        return shadow_chain(publisher, chain, frame_forward);
    memcpy(publisher->encoding.discard, publisher->encoding.delta, bytes);
    return WEFT_OK;
}

/* Frames and digests come from several looks at the weights. If the weights change in between, these are of different
 * bits, or the frames do not decode. The next version starts from what the shadow has then. */
weft_status weft_shadow_update(weft_publisher *publisher, const weft_update *update, bool free, bool *torn)
{
    const uint64_t bytes = publisher->session->layout->part_count * sizeof *publisher->encoding.discard;
    memset(publisher->encoding.discard, 0, bytes);
    weft_status status =
        update->snapshot_only ? WEFT_E_BUDGET : update_rest(publisher, &update->chain[WEFT_JOURNAL_LEVEL]);
    const bool framed = status == WEFT_OK, broken = !framed && !update->snapshot_only && status != WEFT_E_DEVICE;
    if (broken && !free)
        weft_log(WEFT_LOG_WARN,
                 "version %llu: own frames do not decode (%s): shadow copied whole; report this if nothing "
                 "changed the weights meanwhile",
                 (unsigned long long)update->target.number, weft_last_error());
    moved_clear(publisher);
    if (!framed && !free)
        status = weft_shadow_copy(publisher);
    if (!framed && status == WEFT_OK)
        status = count_whole(publisher);
    *torn = status == WEFT_OK && (broken || memcmp(publisher->encoding.discard, publisher->encoding.delta, bytes) != 0);
    if (status == WEFT_OK)
        return WEFT_OK;
    return weft_fail(WEFT_E_DEVICE, "version %llu is out, and the copy of it is lost: %s; close the session",
                     (unsigned long long)update->target.number, weft_last_error());
}
