/* compare.c - a trainer whose layout is another than this end's.
 *
 * The trainer answers such a HELLO by COMPARE. The rollout then asks for the trainer's layout, on a connection of its
 * own, and matches both by name. The same tensors in another order are no difference: core/joint divides the model anew
 * by the trainer's order, and the rollout joins with that. Else the next HELLO says how the two differ, so that both
 * ends name the tensors, and the trainer refuses it.
 *
 * The trainer's list is hostile until it is compared, because it comes from the network. This end takes no list that is
 * much longer than its own, and makes no layout of a list that has other tensors. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/layout_match.h"
#include "rollout/rollout.h"

/* A list of more bytes than twice this end's, and so many, is of another model. */
#define MORE_BYTES (UINT64_C(1) << 20)

weft_status weft_compare_ask(weft_rollout *rollout)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_hello hello = {
        .wants_layout = true, .nonce = rollout->joining.control.nonce, .incarnation = rollout->session->incarnation};
    snprintf(hello.name, sizeof hello.name, "%s", rollout->site.name);
    weft_wire_put_hello(&out, &hello);
    rollout->joining.state = WEFT_JOIN_ASKING;
    rollout->intake.moved_ns = weft_clock_ns();
    return weft_rollout_send(&rollout->joining, WEFT_MESSAGE_HELLO, &out);
}

void weft_compare_forget(weft_comparing *comparing)
{
    weft_layout_free(comparing->told);
    weft_mem_give(comparing->order);
    comparing->told = NULL;
    comparing->order = NULL;
}

static bool is_same(const uint64_t *order, uint64_t count)
{
    bool same = true;
    for (uint64_t t = 0; t < count; t++)
        same = same && order[t] == t;
    return same;
}

/* Keeps the trainer's order, or finds that only cuts can differ. */
static weft_status take_order(weft_comparing *comparing, const weft_layout_told *told, uint64_t *order)
{
    weft_layout *layout = NULL;
    if (is_same(order, told->count)) {
        snprintf(
            comparing->differs, sizeof comparing->differs,
            "both have the same tensors, but other [cut.*] sections, holdings or views: write the same at both ends");
        return WEFT_OK;
    }
    weft_status status = weft_layout_create(told->tensors, told->count, &layout);
    if (status != WEFT_OK)
        return status;
    weft_compare_forget(comparing);
    comparing->told = layout;
    comparing->order = order;
    return WEFT_AGAIN;
}

static weft_status compare(weft_rollout *rollout, const uint8_t *body, uint64_t length)
{
    weft_comparing *comparing = &rollout->joining.comparing;
    const weft_layout *model = rollout->division->model;
    weft_layout_told told;
    char trainer[WEFT_SITE_NAME + 8];
    weft_status status = weft_layout_told_open(body, length, &told);
    if (status != WEFT_OK)
        return status;
    weft_gateway_trainer(&rollout->joining.route, trainer);
    const weft_match_side mine = weft_match_layout(rollout->site.name, model),
                          theirs = {trainer, told.tensors, sizeof *told.tensors, told.count};
    uint64_t *order = weft_mem_take(model->count + 1, sizeof *order);
    status = order ? weft_match_by_name(&mine, &theirs, order, comparing->differs)
                   : weft_fail(WEFT_E_MEMORY, "no memory to match %llu tensors", (unsigned long long)model->count);
    if (status == WEFT_OK)
        status = take_order(comparing, &told, order);
    if (status != WEFT_AGAIN)
        weft_mem_give(order);
    weft_layout_told_close(&told);
    return status == WEFT_AGAIN || status == WEFT_E_LAYOUT ? WEFT_OK : status;
}

weft_status weft_compare_take(weft_rollout *rollout)
{
    weft_joining *joining = &rollout->joining;
    const uint64_t own = weft_layout_wire_bytes(rollout->division->model), twice = 2 * own + MORE_BYTES;
    const uint8_t *body;
    uint64_t length;
    weft_status status =
        weft_control_take_layout(&joining->control, twice < WEFT_LAYOUT_MAX ? twice : WEFT_LAYOUT_MAX, &body, &length);
    if (status == WEFT_E_BUDGET) {
        snprintf(joining->comparing.differs, sizeof joining->comparing.differs,
                 "the trainer's list of tensors is %s, and %s has one of %llu: they are of different models",
                 weft_last_error(), rollout->site.name, (unsigned long long)own);
        status = WEFT_OK;
    } else if (status == WEFT_OK) {
        status = compare(rollout, body, length);
    }
    if (status != WEFT_OK)
        return status;
    joining->comparing.asks = false;
    joining->verdict = WEFT_VERDICT_COMPARE;
    return WEFT_OK;
}
