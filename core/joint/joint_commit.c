/* joint_commit.c - the way of what all ends have staged into the weights: all of it or none.
 *
 * Updates are committed with WEFT_COMMIT_HOLD, one end after the other. When the last has moved they are kept; if one
 * fails, those before it are undone. A snapshot has no way back. So from its begin on nothing is held, until every end
 * has one number: the commit wants the largest of all ends that lack it, and commits that too. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "joint/joint.h"

/* Flags of a commit that waits for weft_settle. */
#define HELD_BACK (WEFT_COMMIT_HOLD | WEFT_COMMIT_QUEUE)

typedef unsigned long long ull;

bool weft_joint_held(const weft_joint *joint, weft_version *held)
{
    const weft_current *current = &joint->ends[0]->current;
    const bool known = joint->several ? joint->whole : current->known;
    if (known)
        *held = joint->several ? weft_accord_held(joint) : current->version;
    return known;
}

weft_status weft_joint_check(const weft_joint *joint, bool away)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < joint->count && status == WEFT_OK; i++)
        status = away ? weft_rollout_check_trainer(joint->ends[i]) : weft_rollout_check_end(joint->ends[i]);
    return status;
}

weft_status weft_joint_await(weft_joint *joint, uint64_t deadline_ns)
{
    weft_status status = weft_joint_check(joint, false);
    if (status == WEFT_OK && weft_session_interrupted(joint->session))
        status = weft_fail_quiet(WEFT_E_TIMEOUT, "interrupted");
    if (status != WEFT_OK || weft_session_wait(joint->session, deadline_ns))
        return status;
    status = weft_joint_check(joint, true);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

/* ---- commit of updates: together */

static weft_status settle_all(weft_joint *joint, weft_settlement how, void *stream)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < joint->count; i++) {
        if (!joint->ends[i]->stage.held_back)
            continue;
        const weft_status one = weft_rollout_settle(joint->ends[i], how, stream, NULL);
        status = status == WEFT_OK ? one : status;
    }
    return status;
}

static weft_status commit_end(weft_rollout *end, void *stream, uint32_t flags)
{
    return weft_rollout_commit(end, end->arriving.queue[0].trailer.target.number, stream, flags, NULL);
}

/* Moves what these ends have staged, the one snapshot that leads the others last, because nothing can fail after it.
 * While one end moves, the source of another may come back and not know what is staged there. */
static weft_status commit_ends(weft_joint *joint, weft_rollout *const *ends, uint32_t count, void *stream)
{
    const weft_version target = weft_joint_survey(joint).target;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < 2 * count && status == WEFT_OK; i++) {
        weft_rollout *end = ends[i % count];
        const bool last = i >= count, snapshot = weft_joint_is_snapshot(end);
        if (end->stage.held_back || (snapshot && !last))
            continue;
        status = weft_joint_has_staged(end, target.run, target.number)
                     ? commit_end(end, stream, snapshot ? 0 : WEFT_COMMIT_HOLD)
                     : weft_fail_quiet(WEFT_E_PEER_LOST, "commit %llu: a source gave its part up meanwhile",
                                       (ull)target.number);
    }
    return status;
}

static weft_status commit_together(weft_joint *joint, void *stream, uint32_t flags)
{
    weft_rollout *ends[WEFT_SOURCES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < joint->count; i++)
        if (joint->ends[i]->course.state == WEFT_COURSE_STAGED)
            ends[count++] = joint->ends[i];
    weft_status status = flags & WEFT_COMMIT_QUEUE ? weft_joint_queue_begin(joint, stream) : WEFT_AGAIN;
    if (status != WEFT_AGAIN)
        return status;
    status = commit_ends(joint, ends, count, stream);
    if (status != WEFT_OK) {
        char why[512];
        snprintf(why, sizeof why, "%s", weft_last_error());
        settle_all(joint, WEFT_SETTLE_UNDO, stream);
        return weft_fail_quiet(status, "%s", why);
    }
    return flags & HELD_BACK ? WEFT_OK : settle_all(joint, WEFT_SETTLE_KEEP, stream);
}

/* ---- commit of snapshots: until all ends have one number */

/* Commits what the ends have staged, whatever number that is. */
static weft_status commit_each(weft_joint *joint, void *stream)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < joint->count; i++) {
        if (joint->ends[i]->course.state != WEFT_COURSE_STAGED)
            continue;
        const weft_status one = commit_end(joint->ends[i], stream, 0);
        status = status == WEFT_OK ? one : status;
    }
    return status;
}

/* Wants the largest number of every end that has less. Returns when something came last of what is on its way, in ns;
 * 0: nothing is. */
static uint64_t want_largest(weft_joint *joint)
{
    const weft_joint_figures found = weft_joint_survey(joint);
    uint64_t moved_ns = 0;
    for (uint32_t i = 0; i < joint->count; i++) {
        weft_rollout *end = joint->ends[i];
        const bool there = weft_joint_is_at(end, found.target.run, found.target.number);
        if (end->arriving.queued > 0 && end->intake.moved_ns > moved_ns)
            moved_ns = end->intake.moved_ns;
        if (!there && (!end->wishing.open || end->wishing.number != found.target.number))
            weft_wishing_want(end, found.target.number);
    }
    return moved_ns;
}

/* Tells why the ends cannot come to one number in this commit. */
static weft_status check_way(weft_joint *joint)
{
    weft_status status = weft_joint_check(joint, false);
    for (uint32_t i = 0; i < joint->count && status == WEFT_OK; i++) {
        weft_rollout *end = joint->ends[i];
        char name[WEFT_SITE_NAME + 8];
        weft_gateway_trainer(&end->joining.route, name);
        status = weft_wishing_check(&end->wishing);
        if (status == WEFT_OK && !end->current.known)
            status = weft_fail_quiet(WEFT_E_PEER_LOST, "%s has to begin its snapshot again", name);
    }
    if (status == WEFT_OK && weft_session_interrupted(joint->session))
        status = weft_fail_quiet(WEFT_E_TIMEOUT, "interrupted");
    return status;
}

/* Receives the snapshots that are offered, and commits what is staged. */
static weft_status take_all(weft_joint *joint, void *stream)
{
    weft_rollout *offered[WEFT_SOURCES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < joint->count; i++)
        if (weft_joint_is_offered(joint, joint->ends[i]))
            offered[count++] = joint->ends[i];
    const weft_status received = count > 0 ? weft_rollout_receive(offered, count) : WEFT_OK;
    const weft_status committed = commit_each(joint, stream);
    return received == WEFT_OK ? committed : received;
}

/* Waits for what brings the ends to one number, at most [commit] deadline while nothing comes. */
static weft_status await_more(weft_joint *joint, uint64_t since_ns)
{
    const uint64_t patience_ms = joint->session->site->commit.deadline_ms;
    const uint64_t moved_ns = want_largest(joint), from_ns = moved_ns > since_ns ? moved_ns : since_ns;
    weft_status status = check_way(joint);
    if (status == WEFT_OK && !weft_session_wait(joint->session, from_ns + patience_ms * WEFT_NS_PER_MS))
        status = weft_fail_quiet(WEFT_E_TIMEOUT, "version %llu did not come within %llu ms ([commit] deadline)",
                                 (ull)weft_joint_survey(joint).target.number, (ull)patience_ms);
    return status;
}

static weft_status commit_joining(weft_joint *joint, void *stream)
{
    uint64_t since_ns = weft_clock_ns();
    weft_status status = WEFT_OK;
    joint->whole = false;
    joint->taking = weft_joint_run_of(joint->ends[0]);
    for (weft_joint_figures found = weft_joint_survey(joint); status == WEFT_OK; found = weft_joint_survey(joint)) {
        if (found.staged + found.offered > 0) {
            status = take_all(joint, stream);
            since_ns = weft_clock_ns();
        } else if (found.one) {
            return WEFT_OK;
        } else {
            status = await_more(joint, since_ns);
        }
    }
    char why[512];
    snprintf(why, sizeof why, "%s", weft_last_error());
    return weft_fail(status, "the snapshots of all sources are not of one version yet, and nothing is held: %s", why);
}

/* ---- commit, as a whole */

static weft_status check_commit(const weft_joint *joint, uint64_t version, uint32_t flags)
{
    weft_staged_info info = {.size = sizeof info};
    if (joint->session->ended != WEFT_OK)
        return weft_rollout_ended(joint->session);
    if (joint->held_back)
        return weft_fail(WEFT_E_STATE, "weft_commit: a commit is held; call weft_settle first");
    const bool there = weft_joint_describe(joint, &info) && info.target.number == version;
    for (uint32_t i = 0; i < joint->count && !there; i++) {
        const weft_status status = weft_rollout_check_given_up(joint->ends[i], version);
        if (status != WEFT_OK)
            return status;
    }
    if (!there)
        return weft_fail(WEFT_E_STATE, "commit %llu: %s", (ull)version,
                         info.kind ? "another version is staged" : "nothing is staged");
    if (flags & HELD_BACK && info.kind != WEFT_STAGED_UPDATE)
        return weft_fail(WEFT_E_STATE, "commit %llu: a snapshot cannot be held, because it has no way back",
                         (ull)version);
    return WEFT_OK;
}

/* Notes the version that the weights are now. */
static void end_commit(weft_joint *joint, bool moved)
{
    joint->session->stats.versions += moved;
    weft_accord_note(joint);
    weft_session_wake(joint->session);
    weft_session_changed(joint->session);
}

static weft_status commit_one(weft_joint *joint, uint64_t version, void *stream, uint32_t flags, weft_version *held)
{
    weft_rollout *end = joint->ends[0];
    if (!(flags & WEFT_COMMIT_QUEUE))
        return weft_rollout_commit(end, version, stream, flags, held);
    weft_status status = weft_rollout_check_commit(end, version, flags);
    if (status == WEFT_OK)
        status = weft_joint_queue_begin(joint, stream);
    if (status == WEFT_AGAIN)
        return weft_rollout_commit(end, version, stream, WEFT_COMMIT_HOLD, held);
    if (status == WEFT_OK && held)
        *held = end->current.version;
    return status;
}

weft_status weft_joint_commit(weft_joint *joint, uint64_t version, void *stream, uint32_t flags, weft_version *held)
{
    if (!joint->several)
        return commit_one(joint, version, stream, flags, held);
    weft_status status = check_commit(joint, version, flags);
    if (status != WEFT_OK)
        return status;
    const bool joins = weft_joint_has_to_join(joint);
    joint->moving = true;
    status = joins ? commit_joining(joint, stream) : commit_together(joint, stream, flags);
    joint->moving = false;
    joint->held_back = status == WEFT_OK && !joins && (flags & HELD_BACK);
    if (!joint->held_back)
        end_commit(joint, status == WEFT_OK);
    if (status == WEFT_OK && held)
        *held = joint->held;
    return status;
}

static weft_status settle_one(weft_joint *joint, weft_settlement how, void *stream, weft_version *held)
{
    weft_rollout *end = joint->ends[0];
    weft_status status = weft_joint_queue_end(joint, how);
    if (status == WEFT_OK)
        return weft_rollout_settle(end, how, stream, held);
    if (status == WEFT_AGAIN)
        status = WEFT_OK;
    if (status == WEFT_OK && held)
        *held = end->current.version;
    return status;
}

weft_status weft_joint_settle(weft_joint *joint, weft_settlement how, void *stream, weft_version *held)
{
    if (!joint->several)
        return settle_one(joint, how, stream, held);
    weft_status status = weft_joint_queue_end(joint, how); /* also where another job has lost the device */
    if (status == WEFT_OK && joint->session->ended != WEFT_OK)
        return weft_rollout_ended(joint->session);
    if (status == WEFT_OK && !joint->held_back)
        return weft_fail(WEFT_E_STATE, "settle: no commit is held");
    if (status == WEFT_OK)
        status = settle_all(joint, how, stream);
    else if (status == WEFT_AGAIN)
        status = WEFT_OK;
    joint->held_back = false;
    end_commit(joint, status == WEFT_OK && how == WEFT_SETTLE_KEEP);
    if (status == WEFT_OK && held)
        *held = joint->held;
    return status;
}
