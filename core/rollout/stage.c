/* stage.c - from checked buckets to a proved version, and from there into the weights. */
#include <string.h>

#include "base/status.h"
#include "layout/digest.h"
#include "rollout/rollout.h"

void weft_stage_clear(weft_rollout *rollout)
{
    uint64_t parts = rollout->layout->part_count;
    bool snapshot = rollout->arriving.queued && rollout->arriving.queue[0].header.snapshot;
    rollout->intake.moved_ns = weft_clock_ns();
    weft_staging_clear(&rollout->stage.staging);
    weft_proof_begin(&rollout->stage.proof, weft_stage_target(&rollout->current, &rollout->stage));
    memset(&rollout->arriving.book, 0, sizeof rollout->arriving.book);
    rollout->arriving.taken.bytes = rollout->arriving.taken.used = 0;
    rollout->arriving.kept.bytes = 0;
    rollout->arriving.kept.broken = rollout->arriving.kept.encoded = false;
    weft_blob_drop(rollout->arriving.attachment);
    rollout->arriving.attachment = NULL;
    if (snapshot)
        memset(rollout->stage.digests, 0, parts * sizeof *rollout->stage.digests);
    else
        memcpy(rollout->stage.digests, rollout->current.digests, parts * sizeof *rollout->stage.digests);
}

void weft_stage_give_up(weft_rollout *rollout)
{
    if (rollout->course.state != WEFT_COURSE_STAGED)
        return;
    weft_course_move(&rollout->course, WEFT_COURSE_ON_COMMIT); /* as if a commit were undone */
    weft_course_move(&rollout->course, WEFT_COURSE_ON_UNDONE);
    rollout->arriving.given_up = rollout->arriving.queue[0].trailer.target;
    rollout->arriving.queued = 0;
    weft_stage_clear(rollout);
    weft_session_changed(rollout->session);
}

/* ---- the whole of it */

static weft_status check_totals(const weft_arriving *arriving, const weft_layout *layout)
{
    const weft_incoming *incoming = &arriving->queue[0];
    const weft_receipt_book *book = &arriving->book;
    uint64_t units = layout->unit_count;
    if (book->frames != incoming->trailer.frames || book->frame_bytes != incoming->trailer.frame_bytes)
        return weft_fail(WEFT_E_PROTOCOL, "version %llu: %llu frames of %llu bytes came, the trailer says %llu of %llu",
                         (unsigned long long)incoming->trailer.target.number, (unsigned long long)book->frames,
                         (unsigned long long)book->frame_bytes, (unsigned long long)incoming->trailer.frames,
                         (unsigned long long)incoming->trailer.frame_bytes);
    if (incoming->header.snapshot && book->next_unit != units)
        return weft_fail(WEFT_E_PROTOCOL, "snapshot of version %llu: %llu of %llu units came",
                         (unsigned long long)incoming->trailer.target.number, (unsigned long long)book->next_unit,
                         (unsigned long long)units);
    if (book->attachment_got != incoming->header.attachment_bytes ||
        (arriving->attachment &&
         weft_blob_hash(arriving->attachment->data, arriving->attachment->bytes) != incoming->header.attachment))
        return weft_fail(WEFT_E_CHECK, "version %llu: the attachment is not what was announced",
                         (unsigned long long)incoming->trailer.target.number);
    return WEFT_OK;
}

/* Proves the version: the digest of base and changes is the digest that the trainer published. If not, asks the trainer
 * in which tile they differ. */
static weft_status prove(weft_rollout *rollout)
{
    const weft_version *target = &rollout->arriving.queue[0].trailer.target;
    uint64_t root = weft_digest_parts_root(rollout->layout, rollout->stage.digests);
    rollout->arriving.book.proved = root == target->root;
    return rollout->arriving.book.proved ? WEFT_OK : weft_search_target(rollout);
}

static weft_status tell_staged(weft_arriving *arriving, weft_joining *joining)
{
    uint8_t body[32];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_version(&out, &arriving->queue[0].trailer.target);
    return weft_rollout_send(joining, WEFT_MESSAGE_STAGED, &out);
}

static weft_status check_whole(weft_rollout *rollout)
{
    weft_status status = check_totals(&rollout->arriving, rollout->layout);
    if (status == WEFT_OK)
        status = weft_proof_settle(&rollout->stage.proof, rollout->stage.digests);
    return status == WEFT_OK ? prove(rollout) : status;
}

/* Whether weights that the update does not touch are digested too. Not after a snapshot, because its proof has seen all
 * weights. */
static bool verifies(const weft_rollout *rollout)
{
    const weft_arriving *arriving = &rollout->arriving;
    return rollout->session->site->commit.verify == WEFT_VERIFY_FULL && !arriving->queue[0].header.snapshot &&
           arriving->book.verified < rollout->layout->unit_count;
}

static weft_status finish(weft_rollout *rollout)
{
    weft_incoming *incoming = &rollout->arriving.queue[0];
    weft_status status = rollout->arriving.book.proved ? WEFT_OK : check_whole(rollout);
    if (status != WEFT_OK)
        return status;
    if (verifies(rollout))
        return weft_verify_step(rollout);
    rollout->arriving.book.whole_ns = weft_clock_ns();
    if (rollout->arriving.book.begun_ns == 0)
        rollout->arriving.book.begun_ns = rollout->arriving.book.whole_ns;
    rollout->arriving.book.bytes += WEFT_UPDATE_HEADER_BYTES + WEFT_UPDATE_TRAILER_BYTES + 2 * WEFT_MESSAGE_PREFIX;
    if (rollout->arriving.attachment)
        rollout->arriving.attachment->hash = incoming->header.attachment;
    status = weft_course_move(&rollout->course, WEFT_COURSE_ON_WHOLE);
    if (status != WEFT_OK)
        return status;
    if (!rollout->joining.route.source) /* of several, the event is raised when all have the version */
        weft_session_event(rollout->session, WEFT_EVENT_STAGED, WEFT_OK, rollout->site.name, &incoming->trailer.target,
                           "");
    weft_session_changed(rollout->session);
    return tell_staged(&rollout->arriving, &rollout->joining);
}

static void tell_held(weft_rollout *rollout, uint64_t decode_ns, uint64_t commit_ns)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_held held = {.version = rollout->current.version, .decode_ns = decode_ns, .commit_ns = commit_ns};
    memcpy(held.layout, rollout->layout->hash, sizeof held.layout);
    held.attachment = rollout->current.attachment ? rollout->current.attachment->hash : 0;
    weft_wire_put_held(&out, &held);
    weft_rollout_send(&rollout->joining, WEFT_MESSAGE_HELD, &out);
}

/* On to the next queued update. */
static void advance(weft_rollout *rollout)
{
    rollout->arriving.queued--;
    memmove(&rollout->arriving.queue[0], &rollout->arriving.queue[1],
            rollout->arriving.queued * sizeof rollout->arriving.queue[0]);
    weft_stage_clear(rollout);
}

/* Drops an update that was withdrawn. The version held stays, and the trainer is told so. */
static weft_status drop(weft_rollout *rollout)
{
    const weft_version target = rollout->arriving.queue[0].header.target;
    weft_log(WEFT_LOG_INFO, "version %llu was withdrawn while it came; version %llu is held",
             (unsigned long long)target.number, (unsigned long long)rollout->current.version.number);
    rollout->arriving.over = target;
    advance(rollout);
    tell_held(rollout, 0, 0);
    return WEFT_OK;
}

weft_stage_state weft_stage_at(const weft_rollout *rollout)
{
    const weft_arriving *arriving = &rollout->arriving;
    const weft_incoming *incoming = &arriving->queue[0];
    if (weft_course_is_proved(&rollout->course) || arriving->queued == 0)
        return WEFT_STAGE_IDLE;
    if (arriving->taken.used < arriving->taken.bytes)
        return WEFT_STAGE_DECODING;
    const bool whole = incoming->has_trailer && arriving->book.buckets == incoming->trailer.buckets;
    return whole ? WEFT_STAGE_WHOLE : WEFT_STAGE_HUNGRY;
}

static weft_status decode(weft_rollout *rollout)
{
    const uint64_t begun_ns = weft_clock_ns();
    const weft_status status = weft_stage_frames(rollout);
    if (atomic_load(&rollout->session->parked) && rollout->arriving.taken.used == rollout->arriving.taken.bytes)
        weft_session_wake(rollout->session); /* tiles to digest */
    rollout->arriving.book.decode_ns += weft_clock_ns() - begun_ns;
    return status;
}

weft_status weft_stage_step(weft_rollout *rollout)
{
    const weft_stage_state state = weft_stage_at(rollout);
    if (state == WEFT_STAGE_DECODING)
        return decode(rollout);
    if (state == WEFT_STAGE_WHOLE)
        return rollout->arriving.queue[0].withdrawn ? drop(rollout) : finish(rollout);
    return WEFT_AGAIN;
}

/* ---- after the commit */

static void move_attachment(weft_arriving *arriving, weft_current *current)
{
    if (!arriving->attachment)
        return;
    weft_blob_drop(current->attachment);
    current->attachment = arriving->attachment;
    arriving->attachment = NULL;
}

void weft_stage_settle(weft_rollout *rollout, uint64_t commit_ns)
{
    uint64_t *digests = rollout->current.digests, decode_ns = rollout->arriving.book.decode_ns;
    rollout->current.digests = rollout->stage.digests;
    rollout->stage.digests = digests;
    rollout->current.known = true;
    rollout->searching.told = rollout->searching.done = false;
    rollout->current.version = rollout->arriving.queue[0].trailer.target;
    weft_wishing_settle(&rollout->wishing, rollout->current.version.number);
    rollout->joining.faults = 0;
    rollout->stage.last = rollout->arriving.book;
    const bool measured = !rollout->arriving.kept.encoded && !rollout->stage.queued;
    if (!rollout->arriving.queue[0].header.snapshot && measured && rollout->stage.last.changed)
        rollout->stage.change_ns = (double)commit_ns / (double)rollout->stage.last.changed;
    rollout->stage.level = weft_level_name(rollout->arriving.queue[0].header.level);
    if (!rollout->joining.route.source) /* of several, one version is counted when all have it */
        rollout->session->stats.versions++;
    move_attachment(&rollout->arriving, &rollout->current);
    weft_course_move(&rollout->course, WEFT_COURSE_ON_SETTLED); /* from committing, which only this call ends */
    advance(rollout);
    if (rollout->joining.state == WEFT_JOIN_JOINED)
        tell_held(rollout, decode_ns, commit_ns);
}
