/* joint_bind.c - the caller's weights, bound at every end or at none. */
#include "base/mem.h"
#include "base/status.h"
#include "joint/joint.h"

/* Checks that the caller names all of the view and nothing else, for an error that no single end could tell. */
static weft_status check_view(const weft_joint *joint, const weft_naming *by)
{
    weft_binding whole;
    if (!joint->several)
        return WEFT_OK;
    const weft_status status = weft_naming_bind(&joint->session->division, by, false, &whole);
    if (status == WEFT_OK)
        weft_binding_close(&whole);
    return status;
}

/* Makes and checks the bindings of all ends. */
static weft_status name_ends(weft_joint *joint, const weft_naming *by, bool empty, weft_binding *fresh)
{
    weft_status status = check_view(joint, by);
    for (uint32_t i = 0; i < joint->count && status == WEFT_OK; i++) {
        status = weft_naming_bind(joint->ends[i]->division, by, joint->several, &fresh[i]);
        if (status == WEFT_OK)
            status = weft_rollout_try(joint->ends[i], &fresh[i], empty);
    }
    for (uint32_t i = 0; i < joint->count && status == WEFT_OK; i++) /* while the others were digested */
        status = weft_rollout_unstaged(joint->ends[i]);
    return status;
}

static weft_status bind_ends(weft_joint *joint, weft_binding *fresh, weft_blob *attachment, bool empty)
{
    const bool first = !weft_rollout_was_bound(&joint->ends[0]->current);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < joint->count && status == WEFT_OK; i++) {
        status = weft_rollout_bind(joint->ends[i], &fresh[i], attachment, empty);
        fresh[i] = (weft_binding){0}; /* the end owns it */
    }
    if (status == WEFT_OK && !first)
        weft_accord_note(joint);
    if (status == WEFT_OK && first) {
        joint->whole = !empty;
        weft_accord_note(joint);
        status = weft_session_start(joint->session);
    }
    for (uint32_t i = 0; i < joint->count && first && status != WEFT_OK; i++)
        weft_rollout_bind_undo(joint->ends[i]);
    return status;
}

weft_status weft_joint_bind(weft_joint *joint, const weft_naming *by, weft_blob *attachment, bool empty)
{
    const bool first = !weft_rollout_was_bound(&joint->ends[0]->current);
    weft_naming said = {0};
    weft_binding *fresh = weft_mem_take(joint->count, sizeof *fresh);
    weft_status status = fresh ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory to bind %u sources", joint->count);
    if (status == WEFT_OK && joint->several && attachment)
        status = weft_fail(WEFT_E_ARGUMENT, "bind: with several sources there is no attachment");
    if (status == WEFT_OK)
        status = weft_naming_copy(by, NULL, &said);
    joint->said.reading = true;
    if (status == WEFT_OK)
        status = name_ends(joint, by, empty, fresh);
    const bool bound = status == WEFT_OK;
    if (bound)
        status = bind_ends(joint, fresh, first ? attachment : NULL, empty);
    joint->said.reading = false;
    weft_naming_give(status == WEFT_OK ? &joint->said.bound : &said);
    if (status == WEFT_OK)
        joint->said.bound = said;
    if (!bound || !first)
        weft_blob_drop(attachment);
    for (uint32_t i = 0; fresh && i < joint->count; i++)
        weft_binding_close(&fresh[i]);
    weft_mem_give(fresh);
    return status;
}

weft_status weft_joint_unbind(weft_joint *joint)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < joint->count && status == WEFT_OK; i++)
        status = weft_rollout_settled(joint->ends[i], "weft_unbind");
    if (status == WEFT_OK && !weft_rollout_was_bound(&joint->ends[0]->current))
        status = weft_fail(WEFT_E_STATE, "unbind: no weights are bound");
    for (uint32_t i = 0; i < joint->count && status == WEFT_OK; i++)
        if (joint->ends[i]->current.bound)
            weft_rollout_unbind(joint->ends[i]);
    weft_session_changed(joint->session);
    return status == WEFT_OK ? weft_session_rest(joint->session) : status;
}

weft_status weft_joint_scrub(weft_joint *joint)
{
    weft_status status = WEFT_OK;
    joint->said.reading = true;
    for (uint32_t i = 0; i < joint->count; i++) {
        const weft_status one = weft_rollout_scrub(joint->ends[i]);
        status = status == WEFT_OK ? one : status;
    }
    joint->said.reading = false;
    return status;
}
