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

static bool describe_staged(const weft_arriving *arriving, const weft_stage *stage, const weft_course *course,
                            weft_staged_info *info)
{
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

/* Tells why nothing will ever be staged. */
static weft_status check_end(const weft_rollout *rollout)
{
    if (!rollout->current.bound)
        return weft_fail(WEFT_E_STATE, "staged: no weights are bound");
    if (rollout->session->ended != WEFT_OK)
        return weft_rollout_ended(rollout->session);
    if (rollout->joining.state == WEFT_JOIN_REFUSED && rollout->joining.unproved)
        return weft_fail_quiet(WEFT_E_CONFIG, "%s cannot join: %s", rollout->site.name, rollout->joining.refusal_text);
    if (rollout->joining.state == WEFT_JOIN_REFUSED)
        return weft_fail_quiet(WEFT_E_REFUSED, "the trainer refuses %s (%s): %s", rollout->site.name,
                               weft_status_name(rollout->joining.refusal), rollout->joining.refusal_text);
    return WEFT_OK;
}

/* Tells why nothing will be staged until a trainer comes. */
static weft_status check_trainer(const weft_joining *joining, weft_session *session)
{
    uint64_t deadline_ms = session->site->session.connect_deadline_ms;
    if (joining->state == WEFT_JOIN_JOINED)
        return WEFT_OK;
    if (joining->said_goodbye)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "the trainer said goodbye");
    if (weft_clock_ns() <= joining->away_since_ns + deadline_ms * WEFT_NS_PER_MS)
        return WEFT_OK;
    if (weft_status_scope(joining->away_status) ==
        WEFT_SCOPE_SESSION) /* what is short here says nothing of a trainer */
        return weft_fail_quiet(joining->away_status, "no connection for %llu ms (connect_deadline): %s",
                               (unsigned long long)deadline_ms, joining->away_text);
    return weft_fail_quiet(WEFT_E_UNREACHABLE,
                           "no trainer at %s for %llu ms (connect_deadline): %s; is it running there?",
                           session->site->trainer.listen, (unsigned long long)deadline_ms,
                           joining->away_text[0] ? joining->away_text : "it does not answer");
}

weft_status weft_rollout_staged(weft_rollout *rollout, uint32_t deadline_ms, weft_staged_info *info)
{
    uint64_t deadline_ns = weft_clock_ns() + deadline_ms * WEFT_NS_PER_MS;
    while (!describe_staged(&rollout->arriving, &rollout->stage, &rollout->course, info)) {
        weft_status status = check_end(rollout);
        if (status != WEFT_OK)
            return status;
        if (weft_session_interrupted(rollout->session))
            return weft_fail_quiet(WEFT_E_TIMEOUT, "interrupted");
        if (!weft_session_wait(rollout->session, deadline_ns)) {
            status = check_trainer(&rollout->joining, rollout->session);
            return status == WEFT_OK ? WEFT_AGAIN : status;
        }
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
    rollout->current.known = false;
    rollout->current.version = (weft_version){0, 0, 0};
    rollout->course.failed = WEFT_OK;
    weft_session_event(session, WEFT_EVENT_NOTHING, WEFT_OK, rollout->site.name, NULL, "until the snapshot is whole");
    weft_ask_send(rollout, WEFT_COURSE_ON_ACCEPT, WEFT_MESSAGE_ACCEPT, NULL); /* what fails here is lost in the steps */
    while (weft_course_takes_snapshot(&rollout->course) && !interrupted &&
           weft_clock_ns() < rollout->intake.moved_ns + patience_ns) {
        weft_session_step_once(session, rollout->intake.moved_ns + patience_ns);
        interrupted = weft_session_interrupted(session);
    }
    session->parked = false;
    weft_session_wake(session);
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
        (unsigned long long)session->site->commit.deadline_ms);
}

static weft_status commit_staged(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    uint64_t begun_ns = weft_clock_ns();
    weft_course_move(&rollout->course, WEFT_COURSE_ON_COMMIT); /* from staged, which the caller saw under the lock */
    pthread_mutex_unlock(&session->lock);
    weft_status status = weft_stage_commit(rollout);
    pthread_mutex_lock(&session->lock);
    if (status == WEFT_OK) {
        weft_stage_settle(rollout, weft_clock_ns() - begun_ns);
    } else {
        weft_course_move(&rollout->course, WEFT_COURSE_ON_UNDONE);
        session->stats.undone += status != WEFT_E_DEVICE;
        rollout->current.known = rollout->current.known && status != WEFT_E_DEVICE;
        rollout->current.doubt = rollout->current.doubt || status == WEFT_E_BASE;
        weft_rollout_end(rollout, status);
        if (rollout->joining.state == WEFT_JOIN_JOINED)
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
        return weft_rollout_ended(rollout->session);
    if (!describe_staged(&rollout->arriving, &rollout->stage, &rollout->course, &info) || info.target.number != version)
        return weft_fail(WEFT_E_STATE, "commit %llu: %s", (unsigned long long)version,
                         info.kind ? "another version is staged" : "nothing is staged");
    rollout->stage.stream = stream;
    weft_status status = rollout->course.state == WEFT_COURSE_STAGED ? WEFT_OK : receive_in_place(rollout);
    if (status == WEFT_OK)
        status = commit_staged(rollout);
    rollout->stage.stream = NULL; /* the caller may end it now; an image is written outside of any commit */
    if (status == WEFT_OK && held)
        *held = rollout->current.version;
    return status;
}
