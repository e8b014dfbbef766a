/* control_seal.c - connections with proof: the handshake in the control connection's own steps. */
#include <stdio.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/status.h"
#include "wire/control.h"

void weft_control_guard(weft_control *control, weft_guard *guard, const char *to)
{
    control->guard = guard;
    control->sealed = false;
    control->dialed = to != NULL;
    snprintf(control->to, sizeof control->to, "%s", to ? to : "");
    control->connecting = control->connecting || (guard && to); /* no message goes before the handshake */
}

bool weft_control_proves(const weft_control *control, const char *name)
{
    return !control->guard || (control->sealed && weft_seal_proves(control->seal, name));
}

void weft_control_tell_mode(weft_control *control, const char *text)
{
    uint8_t body[WEFT_MESSAGE_MAX], whole[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX] = {0};
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_notice notice = {.status = WEFT_E_CONFIG};
    snprintf(notice.text, sizeof notice.text, "%s", text);
    weft_wire_put_notice(&out, &notice);
    weft_bytes_put(whole, out.used, 4);
    weft_bytes_put(whole + 4, WEFT_MESSAGE_REFUSE, 2);
    memcpy(whole + WEFT_MESSAGE_PREFIX, body, out.used);
    /* what is unread when a socket is closed resets the connection, and the other end may lose the answer */
    while (recv(control->fd, body, sizeof body, MSG_DONTWAIT) == (ssize_t)sizeof body)
        ;
    (void)!send(control->fd, whole, WEFT_MESSAGE_PREFIX + out.used, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static weft_status begin(weft_control *control)
{
    if (control->dialed)
        return weft_seal_dial(control->guard, control->fd, control->to, &control->seal);
    return weft_seal_answer(control->guard, control->fd, &control->seal);
}

/* The end that was dialed has the log which its operator reads; the other one says it to its caller. */
weft_status weft_control_unproved(weft_control *control, weft_status status)
{
    char why[448];
    if (status == WEFT_E_MEMORY)
        return status;
    snprintf(why, sizeof why, "%s", weft_last_error());
    if (status == WEFT_E_PEER_LOST)
        return weft_fail_quiet(control->dialed ? WEFT_E_UNREACHABLE : WEFT_E_PEER_LOST, "connection with %s: %s",
                               control->peer, why);
    if (status == WEFT_E_PROTOCOL)
        weft_control_tell_mode(control, "this end takes nobody who proves no name: write [security] mode = tls, with a "
                                        "key_file or certificates");
    if (!control->dialed)
        weft_log(WEFT_LOG_WARN, "refused: %s: %s", control->peer, why);
    return weft_fail_quiet(WEFT_E_CONFIG, "%s: %s", control->peer, why);
}

weft_status weft_control_prove(weft_control *control)
{
    if (!control->guard || control->sealed)
        return WEFT_OK;
    weft_status status = control->seal ? WEFT_OK : begin(control);
    if (status == WEFT_OK)
        status = weft_seal_step(control->seal);
    control->sealed = status == WEFT_OK;
    return status == WEFT_OK || status == WEFT_AGAIN ? status : weft_control_unproved(control, status);
}
