/* relay_dispatch.c - passes messages between a child and the trainer. */
#include <string.h>

#include "base/status.h"
#include "relay/relay.h"
#include "wire/greeting.h"

/* An end that does not read is not read for either: so much may wait for it. */
#define WAITING_MAX (WEFT_CONTROL_OUT_BYTES / 2)

static bool has_room(const weft_control *to)
{
    return to->out_end - to->out_begin < WAITING_MAX;
}

static weft_status from_child(weft_relay *relay, weft_child *child, weft_message type, const uint8_t *body,
                              uint64_t length)
{
    weft_wire_receipt receipt;
    if (child->state == WEFT_CHILD_GUEST && !child->greeted && type == WEFT_MESSAGE_HELLO)
        return weft_wire_knocks(body, length) ? weft_greeting_give(&child->down, body, length)
                                              : weft_child_hello(relay, child, body, length);
    if (child->state == WEFT_CHILD_GUEST && !child->greeted && type == WEFT_MESSAGE_DUCT)
        return weft_child_duct(relay, child, body, length);
    if (child->state != WEFT_CHILD_JOINED)
        return weft_fail(WEFT_E_PROTOCOL, "%s sent %s before WELCOME", child->down.peer, weft_message_name(type));
    if (type == WEFT_MESSAGE_RECEIPT) {
        weft_status status = weft_wire_get_receipt(body, length, &receipt);
        return status == WEFT_OK ? weft_child_receipt(child, &receipt) : status;
    }
    if (type == WEFT_MESSAGE_HELD && child->open > 0)
        child->open--;
    return weft_control_send(&child->up, type, body, length);
}

static weft_status from_trainer(weft_relay *relay, weft_child *child, weft_message type, const uint8_t *body,
                                uint64_t length)
{
    if (child->state == WEFT_CHILD_KNOCKING && type == WEFT_MESSAGE_GREETING)
        return weft_child_greeting(relay, child, body, length);
    if (child->state == WEFT_CHILD_GREETING && type == WEFT_MESSAGE_WELCOME)
        return weft_child_welcome(relay, child, body, length);
    if (type == WEFT_MESSAGE_UPDATE)
        child->open++;
    return weft_control_send(&child->down, type, body, length);
}

typedef weft_status (*weft_act)(weft_relay *relay, weft_child *child, weft_message type, const uint8_t *body,
                                uint64_t length);

/* Acts on what came from one end, as far as the other takes it; WEFT_E_PEER_LOST at its end. */
static weft_status hear(weft_relay *relay, weft_child *child, weft_control *from, const weft_control *to, weft_act act)
{
    weft_status lost = weft_control_fill(from), status = WEFT_OK;
    while (status == WEFT_OK && from->fd >= 0 && child->state != WEFT_CHILD_LEAVING && has_room(to)) {
        weft_message type;
        const uint8_t *body;
        uint64_t length;
        status = weft_control_next(from, &type, &body, &length);
        if (status != WEFT_OK)
            break;
        relay->rollout->session->stirred = true;
        status = act(relay, child, type, body, length);
        if (from->fd >= 0)
            weft_control_drop(from);
    }
    if (status == WEFT_AGAIN)
        status = lost == WEFT_OK ? WEFT_OK : weft_fail_quiet(WEFT_E_PEER_LOST, "%s closed the connection", from->peer);
    return status;
}

weft_status weft_child_hear(weft_relay *relay, weft_child *child)
{
    weft_status status = WEFT_OK;
    if (child->state >= WEFT_CHILD_KNOCKING && child->state <= WEFT_CHILD_JOINED)
        status = hear(relay, child, &child->up, &child->down, from_trainer);
    if (status == WEFT_OK && child->state != WEFT_CHILD_LEAVING)
        status = hear(relay, child, &child->down, &child->up, from_child);
    return status;
}
