/* stage.c - from checked buckets to a proved version, and from there into the weights. */
#include <string.h>

#include "base/status.h"
#include "layout/digest.h"
#include "rollout/rollout.h"

void weft_stage_clear(weft_rollout *rollout)
{
    uint64_t parts = rollout->session->layout->part_count;
    bool snapshot = rollout->queued && rollout->queue[0].header.snapshot;
    rollout->moved_ns = weft_clock_ns();
    weft_staging_clear(&rollout->staging);
    weft_proof_begin(&rollout->proof, weft_stage_target(rollout));
    memset(&rollout->book, 0, sizeof rollout->book);
    rollout->phase = WEFT_PHASE_RECEIVING;
    rollout->taken.bytes = rollout->taken.used = 0;
    weft_blob_drop(rollout->incoming_attachment);
    rollout->incoming_attachment = NULL;
    if (snapshot)
        memset(rollout->staged, 0, parts * sizeof *rollout->staged);
    else
        memcpy(rollout->staged, rollout->digests, parts * sizeof *rollout->staged);
}

/* ---- the whole of it */

static weft_status check_totals(const weft_rollout *rollout)
{
    const weft_incoming *incoming = &rollout->queue[0];
    const weft_receipt_book *book = &rollout->book;
    uint64_t units = rollout->session->layout->unit_count;
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
        (rollout->incoming_attachment &&
         weft_blob_hash(rollout->incoming_attachment->data, rollout->incoming_attachment->bytes) !=
             incoming->header.attachment))
        return weft_fail(WEFT_E_CHECK, "version %llu: the attachment is not what was announced",
                         (unsigned long long)incoming->trailer.target.number);
    return WEFT_OK;
}

/* Proves the version: the digest of base and changes is the digest that the trainer published. If not, asks the trainer
 * in which tile they differ. */
static weft_status prove(weft_rollout *rollout)
{
    const weft_version *target = &rollout->queue[0].trailer.target;
    uint64_t root = weft_digest_parts_root(rollout->session->layout, rollout->staged);
    rollout->book.proved = root == target->root;
    return rollout->book.proved ? WEFT_OK : weft_search_target(rollout);
}

static weft_status tell_staged(weft_rollout *rollout)
{
    uint8_t body[32];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_version(&out, &rollout->queue[0].trailer.target);
    return weft_rollout_send(rollout, WEFT_MESSAGE_STAGED, &out);
}

static weft_status check_whole(weft_rollout *rollout)
{
    weft_status status = check_totals(rollout);
    if (status == WEFT_OK)
        status = weft_proof_settle(&rollout->proof, rollout->staged);
    return status == WEFT_OK ? prove(rollout) : status;
}

/* Whether weights that the update does not touch are digested too. Not after a snapshot, because its proof has seen all
 * weights. */
static bool verifies(const weft_rollout *rollout)
{
    return rollout->session->site->commit.verify == WEFT_VERIFY_FULL && !rollout->queue[0].header.snapshot &&
           rollout->book.verified < rollout->session->layout->unit_count;
}

static weft_status finish(weft_rollout *rollout)
{
    weft_incoming *incoming = &rollout->queue[0];
    weft_status status = rollout->book.proved ? WEFT_OK : check_whole(rollout);
    if (status != WEFT_OK)
        return status;
    if (verifies(rollout))
        return weft_verify_step(rollout);
    rollout->book.whole_ns = weft_clock_ns();
    if (rollout->book.begun_ns == 0)
        rollout->book.begun_ns = rollout->book.whole_ns;
    rollout->book.bytes += WEFT_UPDATE_HEADER_BYTES + WEFT_UPDATE_TRAILER_BYTES + 2 * WEFT_MESSAGE_PREFIX;
    if (rollout->incoming_attachment)
        rollout->incoming_attachment->hash = incoming->header.attachment;
    rollout->phase = WEFT_PHASE_STAGED;
    rollout->snapshot_runs = false;
    weft_session_event(rollout->session, WEFT_EVENT_STAGED, WEFT_OK, rollout->site.name, &incoming->trailer.target, "");
    weft_session_changed(rollout->session);
    return tell_staged(rollout);
}

static void tell_held(weft_rollout *rollout, uint64_t decode_ns, uint64_t commit_ns)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_held held = {.version = rollout->held, .decode_ns = decode_ns, .commit_ns = commit_ns};
    memcpy(held.layout, rollout->session->layout->hash, sizeof held.layout);
    held.attachment = rollout->attachment ? rollout->attachment->hash : 0;
    weft_wire_put_held(&out, &held);
    weft_rollout_send(rollout, WEFT_MESSAGE_HELD, &out);
}

/* On to the next queued update. */
static void advance(weft_rollout *rollout)
{
    rollout->queued--;
    memmove(&rollout->queue[0], &rollout->queue[1], rollout->queued * sizeof rollout->queue[0]);
    weft_stage_clear(rollout);
}

/* Drops an update that was withdrawn. The version held stays, and the trainer is told so. */
static weft_status drop(weft_rollout *rollout)
{
    const weft_version target = rollout->queue[0].header.target;
    weft_log(WEFT_LOG_INFO, "version %llu was withdrawn while it came; version %llu is held",
             (unsigned long long)target.number, (unsigned long long)rollout->held.number);
    rollout->over = target;
    advance(rollout);
    tell_held(rollout, 0, 0);
    return WEFT_OK;
}

weft_status weft_stage_step(weft_rollout *rollout)
{
    if (rollout->phase != WEFT_PHASE_RECEIVING || rollout->queued == 0)
        return WEFT_AGAIN;
    uint64_t begun_ns = weft_clock_ns();
    weft_status status;
    if (rollout->taken.used < rollout->taken.bytes) {
        status = weft_stage_frames(rollout);
        if (atomic_load(&rollout->session->parked) && rollout->taken.used == rollout->taken.bytes)
            weft_session_wake(rollout->session); /* tiles to digest */
        rollout->book.decode_ns += weft_clock_ns() - begun_ns;
        return status;
    }
    const weft_incoming *incoming = &rollout->queue[0];
    if (incoming->has_trailer && rollout->book.buckets == incoming->trailer.buckets)
        return incoming->withdrawn ? drop(rollout) : finish(rollout);
    return weft_receive_take(rollout);
}

/* ---- after the commit */

static void move_attachment(weft_rollout *rollout)
{
    if (!rollout->incoming_attachment)
        return;
    weft_blob_drop(rollout->attachment);
    rollout->attachment = rollout->incoming_attachment;
    rollout->incoming_attachment = NULL;
}

void weft_stage_settle(weft_rollout *rollout, uint64_t commit_ns)
{
    uint64_t *digests = rollout->digests, decode_ns = rollout->book.decode_ns;
    rollout->digests = rollout->staged;
    rollout->staged = digests;
    rollout->holds = true;
    rollout->told = rollout->searched = false;
    rollout->held = rollout->queue[0].trailer.target;
    rollout->faults = 0;
    rollout->last = rollout->book;
    rollout->level = weft_level_name(rollout->queue[0].header.level);
    rollout->session->stats.versions++;
    move_attachment(rollout);
    advance(rollout);
    if (rollout->join == WEFT_JOIN_JOINED)
        tell_held(rollout, decode_ns, commit_ns);
}
