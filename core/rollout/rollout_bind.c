/* rollout_bind.c - the weights that are bound, and what they really are. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "rollout/rollout.h"

/* ---- bind */

/* The thread makes a pass of its own over the weights, and ends it. */
static void await_digests(weft_rollout *rollout)
{
    while (rollout->current.digesting)
        pthread_cond_wait(&rollout->session->changed, &rollout->session->lock);
}

/* Digests a binding on the caller's thread, outside the lock: a pass over the weights must not silence heartbeats.
 * Gives the caller the parts' digests, to be given back. */
static weft_status digest_unlocked(weft_rollout *rollout, const weft_binding *binding, uint64_t **digests,
                                   uint64_t *root)
{
    weft_session *session = rollout->session;
    *digests = weft_mem_take(rollout->layout->part_count + 1, sizeof **digests);
    if (!*digests)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu digests", (unsigned long long)rollout->layout->part_count);
    pthread_mutex_unlock(&session->lock);
    weft_status status = weft_session_digest(&session->calls, binding, *digests, root);
    pthread_mutex_lock(&session->lock);
    await_digests(rollout);
    weft_rollout_end(rollout, status);
    return status;
}

weft_status weft_rollout_unstaged(const weft_rollout *rollout)
{
    if (!weft_course_is_proved(&rollout->course))
        return WEFT_OK;
    return weft_fail(WEFT_E_STATE, "rebind: version %llu is staged; commit it first",
                     (unsigned long long)rollout->arriving.queue[0].trailer.target.number);
}

/* Checks that other weights have the bits of the version held. */
static weft_status try_again(weft_rollout *rollout, const weft_binding *fresh)
{
    const weft_layout *layout = rollout->layout;
    char name[WEFT_PART_TEXT];
    uint64_t *digests = NULL, root = 0;
    weft_status status = digest_unlocked(rollout, fresh, &digests, &root);
    if (status == WEFT_OK)
        status = weft_rollout_unstaged(rollout);
    if (status == WEFT_OK && rollout->current.known && root != rollout->current.version.root) {
        weft_part_differs(layout, 0, layout->part_count, digests, rollout->current.digests, name);
        status = weft_fail(WEFT_E_BASE, "rebind: %s: the weights are not those of version %llu", name,
                           (unsigned long long)rollout->current.version.number);
    }
    weft_mem_give(digests);
    return status;
}

weft_status weft_rollout_try(weft_rollout *rollout, const weft_binding *fresh, bool empty)
{
    weft_status status = weft_binding_apart(fresh);
    if (status == WEFT_OK)
        status = weft_session_check(rollout->session, fresh);
    if (status == WEFT_OK)
        status = weft_rollout_settled(rollout, "weft_bind");
    const bool other = rollout->current.away && empty;
    return status == WEFT_OK && weft_rollout_was_bound(&rollout->current) && !other ? try_again(rollout, fresh)
                                                                                    : status;
}

void weft_rollout_bind_undo(weft_rollout *rollout)
{
    rollout->current.known = rollout->current.bound = false;
    weft_blob_drop(rollout->current.attachment);
    rollout->current.attachment = NULL;
    weft_binding_close(&rollout->current.weights);
    memset(&rollout->current.weights, 0, sizeof rollout->current.weights);
}

void weft_rollout_unbind(weft_rollout *rollout)
{
    weft_current *current = &rollout->current;
    await_digests(rollout);
    weft_join_rest(rollout, "the weights are unbound");
    weft_binding_close(&current->weights);
    memset(&current->weights, 0, sizeof current->weights);
    current->bound = false;
    current->away = true;
}

/* Binds other memory of the bits held, or after weft_rollout_unbind memory that holds nothing. */
static void bind_again(weft_rollout *rollout, const weft_binding *fresh, bool empty)
{
    weft_current *current = &rollout->current;
    if (current->bound)
        weft_binding_close(&current->weights);
    current->weights = *fresh;
    if (!current->away)
        return;
    current->known = current->known && !empty;
    if (empty)
        current->version = (weft_version){0, 0, 0};
    current->away = false;
    current->bound = true;
    rollout->joining.retry_ns = 0;
    rollout->joining.away_since_ns = rollout->joining.left_ns = weft_clock_ns();
    weft_session_wake(rollout->session);
}

weft_status weft_rollout_bind(weft_rollout *rollout, weft_binding *fresh, weft_blob *attachment, bool empty)
{
    weft_status status = WEFT_OK;
    if (weft_rollout_was_bound(&rollout->current)) {
        bind_again(rollout, fresh, empty);
        return WEFT_OK;
    }
    rollout->current.weights = *fresh;
    rollout->current.attachment = attachment;
    if (!empty)
        status = weft_session_digest(&rollout->session->calls, &rollout->current.weights, rollout->current.digests,
                                     &rollout->current.version.root);
    rollout->current.known = status == WEFT_OK && !empty;
    rollout->current.bound = status == WEFT_OK;
    rollout->joining.away_since_ns = weft_clock_ns();
    if (status != WEFT_OK)
        weft_rollout_bind_undo(rollout);
    return status;
}

/* ---- scrub */

void weft_rollout_admit(weft_rollout *rollout, uint64_t root)
{
    weft_current *current = &rollout->current;
    uint64_t *digests = current->digests;
    current->digests = current->fresh;
    current->fresh = digests;
    current->version = (weft_version){0, 0, root};
    rollout->searching.told = true;
}

/* Joins anew with what the weights really are, so that the trainer repairs them. What is staged does not lead on from
 * there. */
static void mend(weft_rollout *rollout, const uint64_t *digests, uint64_t root, weft_status status)
{
    weft_stage_give_up(rollout);
    if (rollout->joining.state == WEFT_JOIN_JOINED)
        weft_join_fault(rollout, status, false); /* which still names the version */
    else if (rollout->joining.state > WEFT_JOIN_AWAY && rollout->joining.state < WEFT_JOIN_JOINED)
        weft_join_anew(rollout);
    memcpy(rollout->current.fresh, digests, rollout->layout->part_count * sizeof *digests);
    weft_rollout_admit(rollout, root);
    weft_session_wake(rollout->session);
}

weft_status weft_rollout_scrub(weft_rollout *rollout)
{
    const weft_layout *layout = rollout->layout;
    uint64_t *digests = NULL, root = 0;
    char name[WEFT_PART_TEXT];
    if (rollout->session->ended != WEFT_OK)
        return weft_rollout_ended(rollout->session);
    if (!rollout->current.bound || !rollout->current.known)
        return weft_fail(WEFT_E_STATE, "scrub: %s",
                         rollout->current.bound ? "nothing is held" : "no weights are bound");
    weft_status status = weft_rollout_settled(rollout, "weft_scrub");
    if (status == WEFT_OK)
        status = digest_unlocked(rollout, &rollout->current.weights, &digests, &root);
    const bool rotten =
        status == WEFT_OK && weft_part_differs(layout, 0, layout->part_count, digests, rollout->current.digests, name);
    if (rotten)
        status = weft_fail(WEFT_E_BASE, "scrub: %s: not what version %llu has", name,
                           (unsigned long long)rollout->current.version.number);
    if (rotten && !rollout->current.doubt)
        mend(rollout, digests, root, status);
    weft_mem_give(digests);
    return status;
}
