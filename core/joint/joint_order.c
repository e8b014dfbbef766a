/* joint_order.c - an end whose trainer has the caller's tensors in another order.
 *
 * A session's layout is the trainer's. The end found the trainer's order when it compared (rollout/compare.c). Here the
 * model is divided anew by that order, from what the caller said in its own, and the end is laid anew. All else knows
 * one order, the trainer's, and the caller goes on to number tensors as it did. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "joint/joint.h"

#define LATER_NS (20 * WEFT_NS_PER_MS) /* until an order is taken that cannot be taken now */

/* ---- what the caller said */

static weft_status slices_keep(const weft_slice *slices, uint64_t count, weft_slice_list *kept)
{
    if (!slices)
        return WEFT_OK;
    weft_slice *made = weft_mem_take(count + 1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu slices", (unsigned long long)count);
    memcpy(made, slices, count * sizeof *made);
    *kept = (weft_slice_list){made, count};
    return WEFT_OK;
}

static void slices_give(weft_slice_list *kept)
{
    weft_mem_give((void *)(uintptr_t)kept->slice); /* its own copy */
    *kept = (weft_slice_list){NULL, 0};
}

weft_status weft_joint_keep(weft_joint *joint, const weft_options *options)
{
    weft_said *said = &joint->said;
    weft_status status = slices_keep(options->slices, options->slice_count, &said->view);
    for (uint32_t r = 0; status == WEFT_OK && r < options->source_count && r < WEFT_SOURCES_MAX; r++)
        status = slices_keep(options->sources[r].slices, options->sources[r].slice_count, &said->holdings[r]);
    return status;
}

void weft_joint_forget(weft_joint *joint)
{
    slices_give(&joint->said.view);
    for (uint32_t r = 0; r < WEFT_SOURCES_MAX; r++)
        slices_give(&joint->said.holdings[r]);
    weft_naming_give(&joint->said.bound);
}

/* ---- a division by the trainer's order */

/* Makes the trainer's number of each tensor that the caller names, out of the two steps that lead there. */
static uint64_t *order_make(const weft_division *before, const uint64_t *told)
{
    const uint64_t count = before->model->count;
    uint64_t *order = weft_mem_take(count + 1, sizeof *order);
    for (uint64_t t = 0; order && t < count; t++)
        order[t] = told[weft_division_number(before, t)];
    if (!order)
        weft_fail(WEFT_E_MEMORY, "no memory for an order of %llu tensors", (unsigned long long)count);
    return order;
}

static weft_status slices_renumber(const weft_slice_list *said, const uint64_t *order, weft_slice_list *made)
{
    const weft_status status = slices_keep(said->slice, said->count, made);
    weft_slice *slice = (weft_slice *)(uintptr_t)made->slice;
    for (uint64_t i = 0; i < made->count; i++)
        slice[i].tensor = order[slice[i].tensor]; /* checked when the session was opened */
    return status;
}

static weft_status divide_by(const weft_joint *joint, const weft_rollout *end, const uint64_t *order,
                             weft_division *division)
{
    const weft_site *site = joint->session->site;
    const weft_slice_list none = {NULL, 0},
                          *holding = joint->several ? &joint->said.holdings[end->joining.route.source - 1] : &none;
    weft_slice_list view = none, held = none;
    weft_cut *cuts = weft_mem_take(site->cut_count + 1, sizeof *cuts);
    weft_status status = cuts ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for cuts");
    if (status == WEFT_OK)
        status = slices_renumber(&joint->said.view, order, &view);
    if (status == WEFT_OK)
        status = slices_renumber(holding, order, &held);
    if (status == WEFT_OK) {
        weft_site_cuts(site, cuts);
        status = weft_division_open_view(end->joining.comparing.told, cuts, (uint32_t)site->cut_count, &held, &view,
                                         division);
    }
    slices_give(&held);
    slices_give(&view);
    weft_mem_give(cuts);
    return status;
}

static void division_give(weft_division *division)
{
    if (division)
        weft_division_close(division);
    weft_mem_give(division);
}

static weft_status divide(const weft_joint *joint, const weft_rollout *end, weft_division **division)
{
    weft_division *made = weft_mem_take(1, sizeof *made);
    uint64_t *order = order_make(end->division, end->joining.comparing.order);
    weft_status status = made && order ? divide_by(joint, end, order, made) : WEFT_E_MEMORY;
    if (status == WEFT_OK) {
        made->order = order;
        *division = made;
        return WEFT_OK;
    }
    weft_mem_give(order);
    weft_mem_give(made);
    return status;
}

/* ---- one end */

static weft_status lay(weft_joint *joint, uint32_t i)
{
    weft_rollout *end = joint->ends[i];
    weft_division *division = NULL;
    weft_binding fresh = {0};
    uint64_t *from = NULL;
    weft_status status = divide(joint, end, &division);
    if (status == WEFT_OK)
        status = weft_division_match(end->division, division, &from);
    if (status == WEFT_OK)
        status = weft_naming_bind(division, &joint->said.bound, joint->several, &fresh);
    if (status == WEFT_OK) {
        status = weft_rollout_lay(end, division, &fresh, from);
        division_give(joint->divisions[i]);
        joint->divisions[i] = division;
    } else {
        division_give(division);
    }
    weft_mem_give(from);
    return status;
}

/* Nothing may be on its way into the weights, nor may a call of the caller's use what is laid anew. */
static bool is_at_rest(const weft_joint *joint, const weft_rollout *end)
{
    return joint->said.bound.call && end->current.bound && !joint->said.reading && !joint->moving &&
           !joint->held_back && !end->stage.held_back && !end->current.digesting &&
           !weft_course_is_proved(&end->course) && end->joining.state == WEFT_JOIN_AWAY;
}

static void take(weft_joint *joint, uint32_t i)
{
    weft_joining *joining = &joint->ends[i]->joining;
    const weft_status status = lay(joint, i);
    weft_compare_forget(&joining->comparing);
    if (status == WEFT_OK) {
        char trainer[WEFT_SITE_NAME + 8];
        weft_gateway_trainer(&joining->route, trainer);
        weft_log(WEFT_LOG_INFO, "%s takes the order of tensors that %s has", joint->ends[i]->site.name, trainer);
        joining->retry_ns = 0;
        weft_accord_note(joint);
        return;
    }
    if (joint->session->ended != WEFT_OK)
        return;
    joining->state = WEFT_JOIN_REFUSED;
    joining->refusal = status;
    snprintf(joining->refusal_text, sizeof joining->refusal_text, "the trainer's order of tensors cannot be taken: %s",
             weft_last_error());
    weft_session_changed(joint->session);
}

void weft_joint_order_step(weft_joint *joint, weft_waits *waits)
{
    for (uint32_t i = 0; i < joint->count; i++) {
        if (!joint->ends[i]->joining.comparing.told)
            continue;
        if (is_at_rest(joint, joint->ends[i]))
            take(joint, i);
        weft_waits_until(waits, weft_clock_ns() + LATER_NS);
    }
}
