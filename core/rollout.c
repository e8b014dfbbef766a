/* rollout.c - the rollout's session: opens and closes it, and knows the order of the stages. */
#include "rollout.h"

#include <stdio.h>
#include <string.h>

#include "digest.h"
#include "mem.h"
#include "part.h"
#include "status.h"

/* Decoding goes on for so long before the lock is let go of. */
#define SLICE_NS (2 * WEFT_NS_PER_MS)

/* Descriptors a relay's step may wait for: two connections and two ports per rollout behind it. */
#define RELAY_FDS (16 + WEFT_PORTS_MAX + 4 * 64)

/* ---- one step */

/* A chunk that the fabric lost but reported as delivered leaves nothing to wait for at the trainer: only this end can
 * see that an update stands still. A commit in place has a deadline of its own. */
static weft_status check_stall(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    uint64_t patience_ms = rollout->session->site->session.io_deadline_ms;
    uint64_t until_ns = rollout->moved_ns + patience_ms * WEFT_NS_PER_MS;
    if (rollout->queued == 0 || rollout->phase != WEFT_PHASE_RECEIVING ||
        (rollout->snapshot_runs && !rollout->into_image))
        return WEFT_OK;
    if (now_ns > until_ns)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "version %llu stands still for %llu ms (io_deadline) at bucket %llu",
                               (unsigned long long)rollout->queue[0].header.target.number,
                               (unsigned long long)patience_ms, (unsigned long long)rollout->next_sequence);
    weft_waits_until(waits, until_ns + WEFT_NS_PER_MS);
    return WEFT_OK;
}

static weft_status serve_data(weft_rollout *rollout, bool work, uint64_t now_ns, weft_waits *waits)
{
    bool any = false;
    weft_status status = weft_receive_poll(rollout, &any);
    if (status == WEFT_OK && rollout->search.reason != WEFT_SEARCH_NONE) {
        waits->busy = waits->busy || any;
        return weft_search_check(rollout, now_ns, waits);
    }
    while (status == WEFT_OK && work && rollout->join == WEFT_JOIN_JOINED) {
        status = weft_stage_step(rollout);
        any = any || status == WEFT_OK;
        if (weft_clock_ns() > now_ns + SLICE_NS)
            break;
    }
    if (status == WEFT_AGAIN)
        status = work && !any ? check_stall(rollout, now_ns, waits) : WEFT_OK;
    waits->busy = waits->busy || any;
    return status;
}

static void step(weft_session *session, bool work, weft_waits *waits)
{
    weft_rollout *rollout = session->rollout;
    uint64_t now_ns = weft_clock_ns();
    if (!rollout->bound || rollout->digesting || session->ended != WEFT_OK)
        return;
    weft_join_step(rollout, now_ns, waits);
    if (rollout->join == WEFT_JOIN_JOINED) {
        weft_status status = serve_data(rollout, work, now_ns, waits);
        weft_rollout_end(rollout, status);
        if (status != WEFT_OK && weft_status_scope(status) == WEFT_SCOPE_PEER)
            weft_join_lose(rollout, status, weft_last_error());
        else if (status != WEFT_OK)
            weft_join_fault(rollout, status, status == WEFT_E_TARGET || status == WEFT_E_BASE);
    }
    if (rollout->relay)
        weft_relay_step(rollout->relay, waits);
    if (rollout->join == WEFT_JOIN_AWAY || rollout->join == WEFT_JOIN_REFUSED)
        return;
    if (weft_control_flush(&rollout->control) != WEFT_OK) {
        weft_join_lose(rollout, WEFT_E_PEER_LOST, weft_last_error());
        return;
    }
    bool writes = weft_control_wants_write(&rollout->control);
    weft_waits_fd(waits, rollout->control.fd, (short)(writes ? POLLIN | POLLOUT : POLLIN));
    if (rollout->join == WEFT_JOIN_JOINED)
        weft_inlet_wait(rollout, waits);
    if (rollout->relay)
        weft_relay_wait(rollout->relay, waits);
}

static bool help(weft_session *session)
{
    return weft_proof_help(&session->rollout->proof);
}

static void figures(const weft_session *session, weft_stats_info *stats)
{
    stats->rail_count = weft_inlet_rails(session->rollout, stats->rails);
}

/* ---- open and close */

static weft_status open_image(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    uint64_t bytes = session->layout->bytes ? session->layout->bytes : 1;
    rollout->into_image = session->site->commit.snapshot == WEFT_SNAPSHOT_STAGED;
    if (!rollout->into_image)
        return WEFT_OK;
    void *image = NULL;
    weft_status status = session->backend->memory_take(session->device, bytes, WEFT_MEMORY_HOST, &image);
    if (status != WEFT_OK)
        return weft_fail(status, "no memory for [commit] snapshot = staged: %s; use in_place", weft_last_error());
    rollout->image = image;
    return weft_binding_open_image(session->layout, rollout->image, &rollout->image_binding);
}

static weft_status check_staging(const weft_rollout *rollout)
{
    uint64_t need = weft_staging_largest(rollout->session->layout);
    if (rollout->site.staging >= need)
        return WEFT_OK;
    return weft_fail(WEFT_E_CONFIG, "[peer.%s] staging = %llu bytes: this layout's largest unit may need %llu",
                     rollout->site.name, (unsigned long long)rollout->site.staging, (unsigned long long)need);
}

static weft_status open_parts(weft_rollout *rollout)
{
    uint64_t parts = rollout->session->layout->part_count ? rollout->session->layout->part_count : 1;
    rollout->digests = weft_mem_take(parts, sizeof *rollout->digests);
    rollout->staged = weft_mem_take(parts, sizeof *rollout->staged);
    rollout->fresh = weft_mem_take(parts, sizeof *rollout->fresh);
    if (!rollout->digests || !rollout->staged || !rollout->fresh)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu digests", (unsigned long long)parts);
    weft_status status = check_staging(rollout);
    if (status == WEFT_OK)
        status = weft_search_open(rollout);
    if (status == WEFT_OK)
        status = weft_receive_open(rollout);
    if (status == WEFT_OK)
        status = weft_unpacker_open(&rollout->unpacker);
    if (status == WEFT_OK)
        status = weft_staging_open(&rollout->staging, rollout->session->backend, rollout->session->device,
                                   rollout->site.staging, rollout->session->layout->unit_count + 1);
    if (status == WEFT_OK)
        status = weft_proof_open(&rollout->proof, rollout->session->backend, rollout->session->device, parts);
    if (status == WEFT_OK)
        status = open_image(rollout);
    if (status == WEFT_OK)
        status = weft_join_open(rollout);
    return status == WEFT_OK ? weft_relay_open(rollout) : status;
}

static void give_back(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    uint64_t bytes = session->layout->bytes ? session->layout->bytes : 1;
    weft_relay_close(rollout);
    weft_join_close(rollout);
    weft_binding_close(&rollout->image_binding);
    if (rollout->image)
        session->backend->memory_give(session->device, rollout->image, bytes, WEFT_MEMORY_HOST);
    weft_proof_close(&rollout->proof);
    weft_unpacker_close(&rollout->unpacker);
    weft_staging_close(&rollout->staging);
    weft_receive_close(rollout);
    weft_search_close(rollout);
    weft_blob_drop(rollout->incoming_attachment);
    weft_blob_drop(rollout->attachment);
    weft_binding_close(&rollout->weights);
    weft_mem_give(rollout->fresh);
    weft_mem_give(rollout->staged);
    weft_mem_give(rollout->digests);
    weft_session_unmake(session);
    weft_mem_give(rollout);
}

/* Those behind a relay that leaves in good order get what is on its way to them first. */
static void let_pass(weft_session *session, uint64_t deadline_ns)
{
    const weft_rollout *rollout = session->rollout;
    pthread_mutex_lock(&session->lock);
    while (rollout->relay && rollout->bound && rollout->join == WEFT_JOIN_JOINED && weft_relay_busy(rollout->relay) &&
           weft_clock_ns() < deadline_ns) {
        pthread_mutex_unlock(&session->lock);
        weft_clock_pass(WEFT_NS_PER_MS);
        pthread_mutex_lock(&session->lock);
    }
    pthread_mutex_unlock(&session->lock);
}

static void close_rollout(weft_session *session)
{
    weft_rollout *rollout = session->rollout;
    uint64_t deadline_ns = weft_clock_ns() + session->site->session.close_deadline_ms * WEFT_NS_PER_MS;
    uint8_t body[64];
    weft_out out = {body, sizeof body, 0, false};
    let_pass(session, deadline_ns);
    weft_session_stop(session);
    weft_wire_notice notice = {.version = rollout->held.number, .text = "the rollout closes"};
    weft_log_sink *before = weft_log_enter(&session->sink);
    if (rollout->join == WEFT_JOIN_JOINED) {
        weft_wire_put_notice(&out, &notice);
        weft_join_send(rollout, WEFT_MESSAGE_BYE, &out);
        while (weft_control_flush(&rollout->control) == WEFT_OK && weft_control_wants_write(&rollout->control) &&
               weft_clock_ns() < deadline_ns)
            weft_clock_pass(WEFT_NS_PER_MS);
    }
    weft_log_enter(before);
    give_back(rollout);
}

static void print_memory(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    uint64_t image = rollout->image ? session->layout->bytes : 0,
             slots = rollout->slots.bytes + rollout->taken.capacity + rollout->unpacker.bytes;
    session->stats.memory_bytes = slots + rollout->staging.bytes + image + weft_relay_bytes(rollout);
    snprintf(session->stats.provider, sizeof session->stats.provider, "%s", rollout->provider->name);
    weft_log(WEFT_LOG_INFO, "rollout %s: %.1f MB: slots %.1f, staging %.1f, image %.1f; backend %s, provider %s (%s)",
             rollout->site.name, (double)session->stats.memory_bytes / 1e6, (double)slots / 1e6,
             (double)rollout->staging.bytes / 1e6, (double)image / 1e6, session->backend_name, rollout->provider->name,
             rollout->facts.fabric);
}

weft_status weft_rollout_open(const weft_site *site, const char *peer, const weft_layout *layout,
                              const weft_options *options, weft_session **session)
{
    weft_site_peer row;
    weft_session *made = NULL;
    weft_status status = weft_site_resolve(site, peer, &row);
    if (status != WEFT_OK)
        return status;
    const weft_backend_options work = {(int)row.device, row.kernels, row.device_memory};
    status = weft_session_make(site, layout, options, row.backend, &work, row.relay[0] ? RELAY_FDS : 8 + WEFT_PORTS_MAX,
                               &made);
    if (status != WEFT_OK)
        return status;
    weft_rollout *rollout = weft_mem_take(1, sizeof *rollout);
    if (!rollout) {
        weft_session_unmake(made);
        return weft_fail(WEFT_E_MEMORY, "no memory for a rollout");
    }
    made->rollout = rollout;
    made->step = step;
    made->figures = figures;
    made->help = help;
    made->close = close_rollout;
    rollout->session = made;
    rollout->site = row;
    rollout->level = "";
    weft_log_sink *before = weft_log_enter(&made->sink);
    status = open_parts(rollout);
    if (status == WEFT_OK)
        print_memory(rollout);
    weft_log_enter(before);
    if (status != WEFT_OK)
        give_back(rollout);
    else
        *session = made;
    return status;
}

/* ---- bind */

static weft_status bind_first(weft_rollout *rollout, bool empty, const void *attachment, uint64_t attachment_bytes)
{
    weft_session *session = rollout->session;
    weft_status status = WEFT_OK;
    if (attachment_bytes && !(rollout->attachment = weft_blob_make(attachment, attachment_bytes)))
        return weft_fail(WEFT_E_MEMORY, "no memory for the attachment");
    if (!empty)
        status = weft_session_digest(&session->calls, &rollout->weights, rollout->digests, &rollout->held.root);
    if (status == WEFT_OK) {
        rollout->holds = !empty;
        rollout->bound = true;
        rollout->away_since_ns = weft_clock_ns();
        status = weft_session_start(session);
    }
    if (status != WEFT_OK) {
        rollout->holds = rollout->bound = false;
        weft_blob_drop(rollout->attachment);
        rollout->attachment = NULL;
    }
    return status;
}

/* Digests a binding on the caller's thread, outside the lock: a pass over the weights must not silence heartbeats.
 * Gives the caller the parts' digests, to be given back. */
static weft_status digest_unlocked(weft_rollout *rollout, const weft_binding *binding, uint64_t **digests,
                                   uint64_t *root)
{
    weft_session *session = rollout->session;
    *digests = weft_mem_take(session->layout->part_count + 1, sizeof **digests);
    if (!*digests)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu digests", (unsigned long long)session->layout->part_count);
    pthread_mutex_unlock(&session->lock);
    weft_status status = weft_session_digest(&session->calls, binding, *digests, root);
    pthread_mutex_lock(&session->lock);
    while (rollout->digesting) /* the thread makes a pass of its own and ends it */
        pthread_cond_wait(&session->changed, &session->lock);
    weft_rollout_end(rollout, status);
    return status;
}

static weft_status rebind(weft_rollout *rollout, weft_binding *fresh)
{
    const weft_layout *layout = rollout->session->layout;
    char name[WEFT_PART_TEXT];
    uint64_t *digests = NULL, root = 0;
    weft_status status = digest_unlocked(rollout, fresh, &digests, &root);
    if (status == WEFT_OK && rollout->phase != WEFT_PHASE_RECEIVING)
        status = weft_fail(WEFT_E_STATE, "rebind: version %llu is staged; commit it first",
                           (unsigned long long)rollout->queue[0].trailer.target.number);
    if (status == WEFT_OK && rollout->holds && root != rollout->held.root) {
        weft_part_differs(layout, 0, layout->part_count, digests, rollout->digests, name);
        status = weft_fail(WEFT_E_BASE, "rebind: %s: the weights are not those of version %llu", name,
                           (unsigned long long)rollout->held.number);
    }
    weft_mem_give(digests);
    if (status != WEFT_OK)
        return status;
    weft_binding_close(&rollout->weights);
    rollout->weights = *fresh;
    return WEFT_OK;
}

weft_status weft_rollout_bind(weft_rollout *rollout, const weft_piece *pieces, uint64_t count, const void *attachment,
                              uint64_t attachment_bytes, bool empty)
{
    weft_binding fresh;
    weft_status status = weft_binding_open(rollout->session->layout, pieces, count, &fresh);
    if (status != WEFT_OK)
        return status;
    status = weft_session_check(rollout->session, &fresh);
    if (status != WEFT_OK) {
        weft_binding_close(&fresh);
        return status;
    }
    if (rollout->bound) {
        status = rebind(rollout, &fresh);
    } else {
        rollout->weights = fresh;
        status = bind_first(rollout, empty, attachment, attachment_bytes);
        if (status != WEFT_OK)
            memset(&rollout->weights, 0, sizeof rollout->weights);
    }
    if (status != WEFT_OK)
        weft_binding_close(&fresh);
    return status;
}

/* ---- the end of the device */

static weft_status ended(const weft_rollout *rollout)
{
    return weft_fail_quiet(rollout->session->ended, "%s", rollout->session->ended_text);
}

void weft_rollout_end(weft_rollout *rollout, weft_status status)
{
    weft_session *session = rollout->session;
    if (status != WEFT_E_DEVICE || session->ended != WEFT_OK)
        return;
    snprintf(session->ended_text, sizeof session->ended_text,
             "the device failed: %.160s; the weights %s %llu; close the session", weft_last_error(),
             rollout->holds ? "were not touched: they are those of version" : "are those of no version, last",
             (unsigned long long)rollout->held.number);
    session->ended = status;
    weft_log(WEFT_LOG_ERROR, "%s", session->ended_text);
    weft_session_changed(session);
}

/* ---- staged */

static bool describe_staged(const weft_rollout *rollout, weft_staged_info *info)
{
    const weft_incoming *incoming = &rollout->queue[0];
    const weft_receipt_book *book = &rollout->book;
    weft_staged_info all = {0};
    if (rollout->phase == WEFT_PHASE_STAGED) {
        all.kind = incoming->header.snapshot ? WEFT_STAGED_SNAPSHOT : WEFT_STAGED_UPDATE;
        all.base = incoming->header.base;
        all.target = incoming->trailer.target;
        all.changed = book->changed;
        all.bytes = book->bytes;
        all.receive_ms = weft_clock_ms(book->begun_ns, book->whole_ns);
        all.decode_ms = (double)book->decode_ns / 1e6;
    } else if (rollout->offered && !rollout->into_image && rollout->phase == WEFT_PHASE_RECEIVING &&
               rollout->queued == 0) {
        all.kind = WEFT_STAGED_SNAPSHOT;
        all.target = rollout->offer;
    } else {
        return false;
    }
    size_t size = info->size < sizeof all ? info->size : sizeof all;
    all.size = size;
    memcpy(info, &all, size);
    return true;
}

/* Why nothing will come, if nothing will. */
static weft_status hopeless(const weft_rollout *rollout)
{
    uint64_t deadline_ms = rollout->session->site->session.connect_deadline_ms;
    if (!rollout->bound)
        return weft_fail(WEFT_E_STATE, "staged: no weights are bound");
    if (rollout->session->ended != WEFT_OK)
        return ended(rollout);
    if (rollout->join == WEFT_JOIN_REFUSED)
        return weft_fail_quiet(WEFT_E_REFUSED, "the trainer refuses %s (%s): %s", rollout->site.name,
                               weft_status_name(rollout->refusal), rollout->refusal_text);
    if (rollout->join == WEFT_JOIN_JOINED)
        return WEFT_OK;
    if (rollout->said_goodbye)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "the trainer said goodbye");
    if (weft_clock_ns() > rollout->away_since_ns + deadline_ms * WEFT_NS_PER_MS)
        return weft_fail_quiet(
            WEFT_E_UNREACHABLE, "no trainer at %s for %llu ms (connect_deadline): %s; is it running there?",
            rollout->session->site->trainer.listen, (unsigned long long)deadline_ms, rollout->away_text);
    return WEFT_OK;
}

weft_status weft_rollout_staged(weft_rollout *rollout, uint32_t deadline_ms, weft_staged_info *info)
{
    uint64_t deadline_ns = weft_clock_ns() + deadline_ms * WEFT_NS_PER_MS;
    while (!describe_staged(rollout, info)) {
        weft_status status = hopeless(rollout);
        if (status != WEFT_OK)
            return status;
        if (weft_session_interrupted(rollout->session))
            return weft_fail_quiet(WEFT_E_TIMEOUT, "interrupted");
        if (!weft_session_wait(rollout->session, deadline_ns))
            return WEFT_AGAIN;
    }
    return WEFT_OK;
}

/* ---- commit */

/* Receives a snapshot in place: the caller's thread makes the steps, so that weft's own never writes weights. */
static weft_status receive_in_place(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    uint64_t patience_ns = session->site->commit.deadline_ms * WEFT_NS_PER_MS;
    bool interrupted = false;
    session->parked = true;
    rollout->holds = false;
    rollout->held = (weft_version){0, 0, 0};
    rollout->offered = false;
    rollout->snapshot_runs = true;
    rollout->snapshot_failed = WEFT_OK;
    rollout->moved_ns = weft_clock_ns();
    weft_session_event(session, WEFT_EVENT_NOTHING, WEFT_OK, rollout->site.name, NULL, "until the snapshot is whole");
    weft_join_send(rollout, WEFT_MESSAGE_ACCEPT, NULL);
    while (rollout->snapshot_runs && !interrupted && weft_clock_ns() < rollout->moved_ns + patience_ns) {
        weft_session_step_once(session, rollout->moved_ns + patience_ns);
        interrupted = weft_session_interrupted(session);
    }
    session->parked = false;
    weft_session_wake(session);
    if (rollout->snapshot_failed != WEFT_OK)
        return weft_fail(rollout->snapshot_failed,
                         "the snapshot broke off; this rollout holds nothing and joins again: %s", rollout->away_text);
    if (!rollout->snapshot_runs)
        return WEFT_OK;
    weft_join_lose(rollout, WEFT_E_TIMEOUT, interrupted ? "a snapshot was interrupted" : "a snapshot stood still");
    if (interrupted)
        return weft_fail_quiet(WEFT_E_TIMEOUT, "interrupted: the snapshot is not whole, this rollout holds nothing");
    return weft_fail(
        WEFT_E_TIMEOUT,
        "the snapshot stood still for %llu ms ([commit] deadline); this rollout holds nothing and joins again",
        (unsigned long long)session->site->commit.deadline_ms);
}

static weft_status commit_staged(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    uint64_t begun_ns = weft_clock_ns();
    rollout->phase = WEFT_PHASE_COMMITTING;
    pthread_mutex_unlock(&session->lock);
    weft_status status = weft_stage_commit(rollout);
    pthread_mutex_lock(&session->lock);
    if (status == WEFT_OK) {
        weft_stage_settle(rollout, weft_clock_ns() - begun_ns);
    } else {
        rollout->phase = WEFT_PHASE_RECEIVING;
        session->stats.undone += status != WEFT_E_DEVICE;
        rollout->holds = rollout->holds && status != WEFT_E_DEVICE;
        rollout->doubt = rollout->doubt || status == WEFT_E_BASE;
        weft_rollout_end(rollout, status);
        if (rollout->join == WEFT_JOIN_JOINED)
            weft_join_fault(rollout, status, false);
        else
            weft_stage_clear(rollout);
    }
    weft_session_wake(session);
    return status;
}

weft_status weft_rollout_commit(weft_rollout *rollout, uint64_t version, void *stream, weft_version *held)
{
    weft_staged_info info = {.size = sizeof info};
    if (rollout->session->ended != WEFT_OK)
        return ended(rollout);
    if (!describe_staged(rollout, &info) || info.target.number != version)
        return weft_fail(WEFT_E_STATE, "commit %llu: %s", (unsigned long long)version,
                         info.kind ? "another version is staged" : "nothing is staged");
    rollout->stream = stream;
    weft_status status = rollout->phase == WEFT_PHASE_STAGED ? WEFT_OK : receive_in_place(rollout);
    if (status == WEFT_OK)
        status = commit_staged(rollout);
    if (status == WEFT_OK && held)
        *held = rollout->held;
    return status;
}

/* Joins anew with what the weights really are, so that the trainer repairs them. */
static void mend(weft_rollout *rollout, weft_status status)
{
    rollout->doubt = true;
    if (rollout->join == WEFT_JOIN_JOINED)
        weft_join_fault(rollout, status, true);
    weft_session_wake(rollout->session);
}

weft_status weft_rollout_scrub(weft_rollout *rollout)
{
    const weft_layout *layout = rollout->session->layout;
    uint64_t *digests = NULL, root = 0;
    char name[WEFT_PART_TEXT];
    if (rollout->session->ended != WEFT_OK)
        return ended(rollout);
    if (!rollout->holds)
        return weft_fail(WEFT_E_STATE, "scrub: nothing is held");
    weft_status status = digest_unlocked(rollout, &rollout->weights, &digests, &root);
    if (status == WEFT_OK && weft_part_differs(layout, 0, layout->part_count, digests, rollout->digests, name))
        status = weft_fail(WEFT_E_BASE, "scrub: %s: not what version %llu has", name,
                           (unsigned long long)rollout->held.number);
    weft_mem_give(digests);
    if (status == WEFT_E_BASE && rollout->phase == WEFT_PHASE_RECEIVING && !rollout->doubt)
        mend(rollout, status);
    return status;
}
