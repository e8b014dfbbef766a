/* joint_queue.c - a commit that is queued on the caller's stream: the lists of all ends are one commit of the device,
 * which proves all of them before it writes any. weft_settle waits for the device, and learns what came of it. */
#include <stdio.h>

#include "base/status.h"
#include "joint/joint.h"

/* Finds the end that has a list. */
static weft_rollout *end_of(const weft_joint_queue *queue, uint64_t *list)
{
    uint32_t at = 0;
    while (*list >= queue->ends[at]->stage.staging.count)
        *list -= queue->ends[at++]->stage.staging.count;
    return queue->ends[at];
}

static void list_fill(void *user, uint64_t list, weft_apply_job *job)
{
    weft_rollout *end = end_of(user, &list);
    weft_changes *changes = weft_staging_at(&end->stage.staging, list);
    *job = (weft_apply_job){.target = weft_binding_span(&end->current.weights, changes->unit, changes->units),
                            .changes = changes};
}

/* Gathers the ends that have staged something. False: the device cannot move all of it by itself. */
static bool ends_gather(weft_joint *joint, void *stream)
{
    weft_joint_queue *queue = &joint->queue;
    bool can = joint->session->backend->queue != NULL;
    *queue = (weft_joint_queue){.commit = {.fill = list_fill, .user = queue, .stream = stream}};
    for (uint32_t i = 0; i < joint->count; i++) {
        weft_rollout *end = joint->ends[i];
        if (end->course.state != WEFT_COURSE_STAGED)
            continue;
        can = can && !end->arriving.queue[0].header.snapshot && !end->arriving.kept.encoded;
        queue->ends[queue->count++] = end;
        queue->commit.count += end->stage.staging.count;
    }
    return can && queue->commit.count > 0;
}

/* Ends the commit at all ends: the one that failed gives its version up, and the others have theirs staged again. A
 * device that is lost is lost to all. */
static weft_status ends_fail(const weft_joint_queue *queue, const weft_rollout *failed,
                             void (*end)(weft_rollout *, weft_status), weft_status status)
{
    char why[512];
    snprintf(why, sizeof why, "%s", weft_last_error());
    for (uint32_t i = 0; i < queue->count; i++) {
        weft_fail_quiet(status, "%s", why);
        if (status == WEFT_E_DEVICE || queue->ends[i] == failed)
            end(queue->ends[i], status);
        else
            weft_rollout_unmoved(queue->ends[i], WEFT_OK);
    }
    return weft_fail_quiet(status, "%s", why);
}

static void end_unqueued(weft_rollout *end, weft_status status)
{
    weft_rollout_commit_end(end, weft_clock_ns(), status, true);
}

weft_status weft_joint_queue_begin(weft_joint *joint, void *stream)
{
    weft_session *session = joint->session;
    weft_joint_queue *queue = &joint->queue;
    const uint64_t begun_ns = weft_clock_ns();
    if (!ends_gather(joint, stream))
        return WEFT_AGAIN;
    for (uint32_t i = 0; i < queue->count; i++)
        weft_rollout_commit_begin(queue->ends[i]);
    pthread_mutex_unlock(&session->lock);
    const weft_status status = session->backend->queue(session->device, &queue->commit);
    pthread_mutex_lock(&session->lock);
    queue->open = status == WEFT_OK;
    if (status != WEFT_OK && status != WEFT_E_BUDGET)
        return ends_fail(queue, queue->ends[0], end_unqueued, status);
    for (uint32_t i = 0; i < queue->count; i++) {
        queue->ends[i]->stage.queued = queue->open;
        if (queue->open)
            weft_rollout_commit_end(queue->ends[i], begun_ns, WEFT_OK, true);
        else
            weft_course_move(&queue->ends[i]->course, WEFT_COURSE_ON_RETURNED);
    }
    return queue->open ? WEFT_OK : WEFT_AGAIN;
}

/* ---- after that */

/* Takes back what was written in spite of the proof, because another hand wrote between the two. */
static weft_status take_back(const weft_joint_queue *queue)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; queue->commit.written && i < queue->count && status == WEFT_OK; i++)
        status = weft_stage_undo(queue->ends[i]);
    return status;
}

static weft_status altered(const weft_joint_queue *queue)
{
    uint64_t list = queue->commit.altered;
    weft_rollout *end = end_of(queue, &list);
    return weft_stage_altered(end, weft_staging_at(&end->stage.staging, list));
}

/* Waits for the device, without the lock. */
static weft_status device_wait(weft_joint *joint)
{
    const weft_session *session = joint->session;
    weft_joint_queue *queue = &joint->queue;
    weft_status status = WEFT_AGAIN;
    while (status == WEFT_AGAIN)
        status = session->backend->queued(session->device, &queue->commit);
    if (status == WEFT_OK && queue->commit.altered != UINT64_MAX)
        status = take_back(queue);
    if (status == WEFT_OK && queue->commit.altered != UINT64_MAX)
        status = altered(queue);
    return status;
}

weft_status weft_joint_queue_end(weft_joint *joint, weft_settlement how)
{
    weft_joint_queue *queue = &joint->queue;
    if (!queue->open)
        return WEFT_OK;
    pthread_mutex_unlock(&joint->session->lock);
    const weft_status status = device_wait(joint);
    pthread_mutex_lock(&joint->session->lock);
    queue->open = false;
    if (status == WEFT_OK)
        return WEFT_OK;
    if (status != WEFT_E_BASE || how == WEFT_SETTLE_KEEP) {
        uint64_t list = status == WEFT_E_BASE ? queue->commit.altered : 0;
        return ends_fail(queue, end_of(queue, &list), weft_rollout_unmoved, status);
    }
    for (uint32_t i = 0; i < queue->count; i++)
        weft_rollout_unmoved(queue->ends[i], WEFT_OK);
    return WEFT_AGAIN;
}

void weft_joint_queue_drop(weft_joint *joint)
{
    if (!joint->queue.open)
        return;
    const weft_status status = device_wait(joint);
    joint->queue.open = false;
    for (uint32_t i = 0; i < joint->queue.count; i++)
        joint->queue.ends[i]->stage.held_back = status != WEFT_E_BASE;
}
