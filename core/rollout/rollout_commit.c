/* rollout_commit.c - what is staged, and its way into the weights. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "rollout/rollout.h"

/* ---- staged */

/* Estimates the time in ms of the commit of an update. 0: nothing was measured yet. */
static double pause_of(const weft_arriving *arriving, const weft_stage *stage)
{
    const double moving = stage->change_ns * (double)arriving->book.changed / 1e6;
    return moving > 0 && arriving->kept.encoded ? moving + (double)arriving->book.decode_ns / 1e6 : moving;
}

bool weft_rollout_describe(const weft_rollout *rollout, weft_staged_info *info)
{
    const weft_arriving *arriving = &rollout->arriving;
    const weft_stage *stage = &rollout->stage;
    const weft_course *course = &rollout->course;
    const weft_incoming *incoming = &arriving->queue[0];
    const weft_receipt_book *book = &arriving->book;
    weft_staged_info all = {0};
    if (course->state == WEFT_COURSE_STAGED) {
        all.kind = incoming->header.snapshot ? WEFT_STAGED_SNAPSHOT : WEFT_STAGED_UPDATE;
        all.base = incoming->header.base;
        all.target = incoming->trailer.target;
        all.changed = book->changed;
        all.bytes = book->bytes;
        all.receive_ms = weft_clock_ms(book->begun_ns, book->whole_ns);
        all.decode_ms = (double)book->decode_ns / 1e6;
        all.encoded = arriving->kept.encoded;
        all.pause_ms = incoming->header.snapshot ? 0 : pause_of(arriving, stage);
    } else if (course->state == WEFT_COURSE_OFFERED) {
        all.kind = WEFT_STAGED_SNAPSHOT;
        all.target = course->offer;
    } else {
        return false;
    }
    size_t size = info->size < sizeof all ? info->size : sizeof all;
    all.size = size;
    memcpy(info, &all, size);
    return true;
}

weft_status weft_rollout_check_end(const weft_rollout *rollout)
{
    char name[WEFT_SITE_NAME + 8];
    weft_gateway_trainer(&rollout->joining.route, name);
    if (!rollout->current.bound)
        return weft_fail(WEFT_E_STATE, "staged: no weights are bound");
    if (rollout->session->ended != WEFT_OK)
        return weft_rollout_ended(rollout->session);
    if (rollout->joining.state == WEFT_JOIN_REFUSED && rollout->joining.unproved)
        return weft_fail_quiet(WEFT_E_CONFIG, "%s cannot join: %s", rollout->site.name, rollout->joining.refusal_text);
    if (rollout->joining.state == WEFT_JOIN_REFUSED)
        return weft_fail_quiet(WEFT_E_REFUSED, "%s refuses %s (%s): %s", name, rollout->site.name,
                               weft_status_name(rollout->joining.refusal), rollout->joining.refusal_text);
    return WEFT_OK;
}

/* Returns true if no trainer is there. One that is there, and that this end cannot talk to, is not waited for, because
 * it may stay so. */
static bool is_absent(const weft_joining *joining)
{
    const weft_status why = joining->away_status;
    return why == WEFT_OK || why == WEFT_E_PEER_LOST || why == WEFT_E_UNREACHABLE;
}

/* Returns true if the rollout waits for its trainer, which was there and is absent. */
static bool waits(const weft_joining *joining, const weft_options *options)
{
    return joining->was_joined && is_absent(joining) && !options->tells_away;
}

double weft_rollout_away_ms(const weft_rollout *rollout)
{
    const weft_joining *joining = &rollout->joining;
    const bool away = rollout->current.bound && joining->was_joined && joining->state != WEFT_JOIN_JOINED;
    return away ? weft_clock_ms(joining->left_ns, weft_clock_ns()) : 0;
}

weft_status weft_rollout_check_trainer(const weft_rollout *rollout)
{
    const weft_joining *joining = &rollout->joining;
    char name[WEFT_SITE_NAME + 8];
    weft_gateway_trainer(&joining->route, name);
    uint64_t deadline_ms = rollout->session->site->session.connect_deadline_ms;
    if (joining->state == WEFT_JOIN_JOINED || waits(joining, &rollout->session->options))
        return WEFT_OK;
    if (joining->said_goodbye && is_absent(joining)) /* else it is another trainer's fault, after the goodbye */
        return weft_fail_quiet(WEFT_E_PEER_LOST, "%s said goodbye", name);
    if (weft_clock_ns() <= joining->away_since_ns + deadline_ms * WEFT_NS_PER_MS)
        return WEFT_OK;
    if (weft_status_scope(joining->away_status) ==
        WEFT_SCOPE_SESSION) /* what is short here says nothing of a trainer */
        return weft_fail_quiet(joining->away_status, "no connection for %llu ms (connect_deadline): %s",
                               (unsigned long long)deadline_ms, joining->away_text);
    return weft_fail_quiet(WEFT_E_UNREACHABLE,
                           "no trainer at %s for %llu ms (connect_deadline): %s; is it running there?",
                           rollout->site.listen, (unsigned long long)deadline_ms,
                           joining->away_text[0] ? joining->away_text : "it does not answer");
}

weft_status weft_rollout_staged(weft_rollout *rollout, uint32_t deadline_ms, weft_staged_info *info)
{
    uint64_t deadline_ns = weft_clock_ns() + deadline_ms * WEFT_NS_PER_MS;
    weft_status status = weft_wishing_check(&rollout->wishing);
    while (status == WEFT_OK && !weft_rollout_describe(rollout, info)) {
        status = weft_rollout_check_end(rollout);
        if (status == WEFT_OK && weft_session_interrupted(rollout->session))
            status = weft_fail_quiet(WEFT_E_TIMEOUT, "interrupted");
        if (status != WEFT_OK)
            return status;
        if (!weft_session_wait(rollout->session, deadline_ns)) {
            status = weft_rollout_check_trainer(rollout);
            return status == WEFT_OK ? WEFT_AGAIN : status;
        }
        status = weft_wishing_check(&rollout->wishing);
    }
    return status;
}

/* ---- commit */

static void accept_offer(weft_rollout *rollout)
{
    rollout->current.known = false;
    rollout->current.version = (weft_version){0, 0, 0};
    rollout->course.failed = WEFT_OK;
    weft_session_event(rollout->session, WEFT_EVENT_NOTHING, WEFT_OK, rollout->site.name, NULL,
                       "until the snapshot is whole");
    weft_ask_send(rollout, WEFT_COURSE_ON_ACCEPT, WEFT_MESSAGE_ACCEPT, NULL); /* what fails here is lost in the steps */
}

/* Says how a snapshot in place ended. One that stands still, or is interrupted, is given up. */
static weft_status end_in_place(weft_rollout *rollout, bool interrupted)
{
    if (rollout->course.failed != WEFT_OK)
        return weft_fail(rollout->course.failed,
                         "the snapshot broke off; this rollout holds nothing and joins again: %s",
                         rollout->joining.away_text);
    if (!weft_course_takes_snapshot(&rollout->course))
        return WEFT_OK;
    weft_join_lose(rollout, WEFT_E_TIMEOUT, interrupted ? "a snapshot was interrupted" : "a snapshot stood still");
    if (interrupted)
        return weft_fail_quiet(WEFT_E_TIMEOUT, "interrupted: the snapshot is not whole, this rollout holds nothing");
    return weft_fail(
        WEFT_E_TIMEOUT,
        "the snapshot stood still for %llu ms ([commit] deadline); this rollout holds nothing and joins again",
        (unsigned long long)rollout->session->site->commit.deadline_ms);
}

/* Finds until when one of the snapshots that are not whole may stand still. 0: all are whole, or stood still. */
static uint64_t patience_ends(weft_rollout *const *ends, uint32_t count)
{
    const uint64_t patience_ns = ends[0]->session->site->commit.deadline_ms * WEFT_NS_PER_MS;
    uint64_t until_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t end_ns = ends[i]->intake.moved_ns + patience_ns;
        if (weft_course_takes_snapshot(&ends[i]->course) && end_ns > weft_clock_ns() && end_ns > until_ns)
            until_ns = end_ns;
    }
    return until_ns;
}

weft_status weft_rollout_receive(weft_rollout *const *ends, uint32_t count)
{
    weft_session *session = ends[0]->session;
    weft_status status = WEFT_OK;
    uint64_t until_ns;
    bool interrupted = false;
    session->parked = true;
    for (uint32_t i = 0; i < count; i++)
        accept_offer(ends[i]);
    while (!interrupted && (until_ns = patience_ends(ends, count)) > 0) {
        weft_session_step_once(session, until_ns);
        interrupted = weft_session_interrupted(session);
    }
    session->parked = false;
    weft_session_wake(session);
    for (uint32_t i = 0; i < count; i++) {
        const weft_status one = end_in_place(ends[i], interrupted);
        status = status == WEFT_OK ? one : status;
    }
    return status;
}

/* Gives up a version that could not be committed. */
static void commit_failed(weft_rollout *rollout, weft_status status)
{
    weft_course_move(&rollout->course, WEFT_COURSE_ON_UNDONE);
    rollout->session->stats.undone += status != WEFT_E_DEVICE;
    rollout->current.known = rollout->current.known && status != WEFT_E_DEVICE;
    rollout->current.doubt = rollout->current.doubt || status == WEFT_E_BASE;
    weft_rollout_end(rollout, status);
    if (rollout->joining.state == WEFT_JOIN_JOINED)
        weft_join_fault(rollout, status, false);
    else
        weft_stage_clear(rollout);
}

/* From staged, which the caller saw under the lock. */
void weft_rollout_commit_begin(weft_rollout *rollout)
{
    weft_course_move(&rollout->course, WEFT_COURSE_ON_COMMIT);
}

void weft_rollout_commit_end(weft_rollout *rollout, uint64_t begun_ns, weft_status status, bool hold)
{
    weft_stage *stage = &rollout->stage;
    stage->held_back_ns = weft_clock_ns();
    stage->held_moving = stage->held_back_ns - begun_ns;
    stage->held_back = status == WEFT_OK && hold;
    stage->held_long = false;
    if (status == WEFT_OK && !hold)
        weft_stage_settle(rollout, stage->held_moving);
    else if (status != WEFT_OK)
        commit_failed(rollout, status);
    weft_session_wake(rollout->session);
}

static weft_status commit_staged(weft_rollout *rollout, bool hold)
{
    weft_session *session = rollout->session;
    const uint64_t begun_ns = weft_clock_ns();
    weft_rollout_commit_begin(rollout);
    rollout->stage.queued = false;
    pthread_mutex_unlock(&session->lock);
    const weft_status status = weft_stage_commit(rollout);
    pthread_mutex_lock(&session->lock);
    weft_rollout_commit_end(rollout, begun_ns, status, hold);
    return status;
}

/* ---- kept or undone */

weft_status weft_rollout_settled(const weft_rollout *rollout, const char *call)
{
    if (!rollout->stage.held_back)
        return WEFT_OK;
    return weft_fail(WEFT_E_STATE, "%s: the commit of version %llu is held; call weft_settle first", call,
                     (unsigned long long)rollout->arriving.queue[0].trailer.target.number);
}

void weft_rollout_check_held(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    weft_stage *stage = &rollout->stage;
    const uint64_t patience_ms = rollout->session->site->commit.deadline_ms;
    const uint64_t end_ns = stage->held_back_ns + patience_ms * WEFT_NS_PER_MS;
    if (!stage->held_back || stage->held_long)
        return;
    weft_waits_until(waits, end_ns + 1);
    if (now_ns <= end_ns)
        return;
    stage->held_long = true;
    const weft_version *target = &rollout->arriving.queue[0].trailer.target;
    weft_session_event(rollout->session, WEFT_EVENT_UNSETTLED, WEFT_OK, rollout->site.name, target,
                       "a commit waits for weft_settle");
    weft_log(WEFT_LOG_WARN, "version %llu is held for %llu ms ([commit] deadline), and waits for weft_settle",
             (unsigned long long)target->number, (unsigned long long)patience_ms);
}

void weft_rollout_unmoved(weft_rollout *rollout, weft_status status)
{
    rollout->stage.held_back = false;
    if (status == WEFT_OK)
        weft_course_move(&rollout->course, WEFT_COURSE_ON_RETURNED);
    else
        commit_failed(rollout, status);
    weft_session_wake(rollout->session);
    weft_session_changed(rollout->session);
}

/* Moves the weights back. The version stays staged. */
static weft_status commit_return(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    pthread_mutex_unlock(&session->lock);
    weft_status status = weft_stage_undo(rollout);
    pthread_mutex_lock(&session->lock);
    weft_rollout_unmoved(rollout, status);
    return status;
}

weft_status weft_rollout_settle(weft_rollout *rollout, weft_settlement how, void *stream, weft_version *held)
{
    weft_status status = WEFT_OK;
    if (rollout->session->ended != WEFT_OK)
        return weft_rollout_ended(rollout->session);
    if (!rollout->stage.held_back)
        return weft_fail(WEFT_E_STATE, "settle: no commit is held");
    rollout->stage.stream = stream;
    rollout->stage.held_back = false;
    if (how == WEFT_SETTLE_KEEP)
        weft_stage_settle(rollout, rollout->stage.held_moving);
    else
        status = commit_return(rollout);
    rollout->stage.stream = NULL;
    weft_session_wake(rollout->session);
    weft_session_changed(rollout->session);
    if (status == WEFT_OK && held)
        *held = rollout->current.version;
    return status;
}

/* ---- commit, as a whole */

/* A snapshot in place has no way back, and a staged one is in no list that undo knows. */
static weft_status check_hold(const weft_staged_info *info, uint32_t flags)
{
    if (!(flags & (WEFT_COMMIT_HOLD | WEFT_COMMIT_QUEUE)) || info->kind == WEFT_STAGED_UPDATE)
        return WEFT_OK;
    return weft_fail(WEFT_E_STATE, "commit %llu: a snapshot cannot be held, because it has no way back",
                     (unsigned long long)info->target.number);
}

weft_status weft_rollout_check_given_up(const weft_rollout *rollout, uint64_t version)
{
    const weft_version *gone = &rollout->arriving.given_up;
    if (gone->run == 0 || gone->number != version)
        return WEFT_OK;
    return weft_fail_quiet(
        WEFT_E_PEER_LOST,
        "commit %llu: it was given up, or got another number, since it was staged; ask weft_staged again",
        (unsigned long long)version);
}

weft_status weft_rollout_check_commit(const weft_rollout *rollout, uint64_t version, uint32_t flags)
{
    weft_staged_info info = {.size = sizeof info};
    if (rollout->session->ended != WEFT_OK)
        return weft_rollout_ended(rollout->session);
    weft_status status = weft_rollout_settled(rollout, "weft_commit");
    if (status != WEFT_OK)
        return status;
    const bool there = weft_rollout_describe(rollout, &info) && info.target.number == version;
    if (!there)
        status = weft_rollout_check_given_up(rollout, version);
    if (!there && status == WEFT_OK)
        return weft_fail(WEFT_E_STATE, "commit %llu: %s", (unsigned long long)version,
                         info.kind ? "another version is staged" : "nothing is staged");
    return status != WEFT_OK ? status : check_hold(&info, flags);
}

weft_status weft_rollout_commit(weft_rollout *rollout, uint64_t version, void *stream, uint32_t flags,
                                weft_version *held)
{
    weft_status status = weft_rollout_check_commit(rollout, version, flags);
    if (status != WEFT_OK)
        return status;
    rollout->stage.stream = stream;
    status = rollout->course.state == WEFT_COURSE_STAGED ? WEFT_OK : weft_rollout_receive(&rollout, 1);
    if (status == WEFT_OK)
        status = commit_staged(rollout, flags & WEFT_COMMIT_HOLD);
    rollout->stage.stream = NULL; /* the caller may end it now; an image is written outside of any commit */
    if (status == WEFT_OK && held)
        *held = rollout->current.version;
    return status;
}
