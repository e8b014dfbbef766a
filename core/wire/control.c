#include "wire/control.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

weft_mem_list weft_control_memory(weft_control *control)
{
    return (weft_mem_list){
        {WEFT_MEM_TAKEN(control->in, WEFT_CONTROL_IN_BYTES), WEFT_MEM_TAKEN(control->out, WEFT_CONTROL_OUT_BYTES)}};
}

weft_status weft_control_open(weft_control *control)
{
    memset(control, 0, sizeof *control);
    control->fd = -1;
    return weft_mem_list_take(weft_control_memory(control), "for a control connection's buffers");
}

void weft_control_hang_up(weft_control *control)
{
    weft_seal_close(control->seal);
    control->seal = NULL;
    if (control->fd >= 0) {
        shutdown(control->fd, SHUT_RDWR); /* a forked child may have it too, and keep it open */
        close(control->fd);
    }
    control->fd = -1;
    control->guard = NULL;
    control->connecting = control->watched = control->sealed = false;
    control->in_used = control->out_begin = control->out_end = 0;
    control->tail_bytes = control->tail_sent = 0;
    weft_mem_give(control->layout);
    control->layout = NULL;
}

void weft_control_close(weft_control *control)
{
    if (control->in)
        weft_control_hang_up(control);
    weft_mem_list_give(weft_control_memory(control));
}

static weft_status lost(weft_control *control, const char *why)
{
    if (control->connecting)
        return weft_fail_quiet(WEFT_E_UNREACHABLE, "%s does not answer: %s", control->peer, why);
    return weft_fail_quiet(WEFT_E_PEER_LOST, "connection with %s: %s", control->peer, why);
}

static void put_prefix(uint8_t *prefix, weft_message type, uint64_t length)
{
    weft_bytes_put(prefix, length, 4);
    weft_bytes_put(prefix + 4, type, 2);
    weft_bytes_put(prefix + 6, 0, 2);
}

static void compact(weft_control *control)
{
    memmove(control->out, control->out + control->out_begin, control->out_end - control->out_begin);
    control->out_end -= control->out_begin;
    control->out_begin = 0;
}

weft_status weft_control_send(weft_control *control, weft_message type, const uint8_t *body, uint64_t length)
{
    uint64_t need = WEFT_MESSAGE_PREFIX + length;
    if (control->fd < 0)
        return lost(control, "closed");
    if (WEFT_CONTROL_OUT_BYTES - control->out_end < need)
        compact(control);
    if (WEFT_CONTROL_OUT_BYTES - control->out_end < need)
        return lost(control, "the other end does not read");
    put_prefix(control->out + control->out_end, type, length);
    if (length)
        memcpy(control->out + control->out_end + WEFT_MESSAGE_PREFIX, body, length);
    control->out_end += need;
    control->said_ns = weft_clock_ns();
    return WEFT_OK;
}

weft_status weft_control_notice(weft_control *control, weft_message type, const weft_wire_notice *notice)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_notice(&out, notice);
    return weft_control_send(control, type, out.data, out.used);
}

weft_status weft_control_word(weft_control *control, weft_message type, uint64_t word)
{
    uint8_t body[8];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_word(&out, word);
    return weft_control_send(control, type, out.data, out.used);
}

weft_status weft_control_send_long(weft_control *control, weft_message type, const uint8_t *body, uint64_t length)
{
    weft_status status = weft_control_send(control, type, NULL, 0);
    if (status != WEFT_OK)
        return status;
    put_prefix(control->out + control->out_end - WEFT_MESSAGE_PREFIX, type, length);
    control->tail = body;
    control->tail_bytes = length;
    control->tail_sent = 0;
    return WEFT_OK;
}

static bool has_words(const weft_control *control)
{
    return control->out_begin < control->out_end || control->tail_sent < control->tail_bytes;
}

bool weft_control_is_pending(const weft_control *control)
{
    return control->fd >= 0 && (control->connecting || has_words(control));
}

bool weft_control_wants_write(const weft_control *control)
{
    if (control->fd >= 0 && control->seal && !control->sealed)
        return weft_seal_wants_write(control->seal);
    return weft_control_is_pending(control);
}

/* Finds out how a dial ended; WEFT_AGAIN while it goes on. */
static weft_status dialled(weft_control *control)
{
    int error = 0;
    socklen_t length = sizeof error;
    struct sockaddr_storage peer;
    socklen_t peer_length = sizeof peer;
    getsockopt(control->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error)
        return lost(control, strerror(error));
    if (getpeername(control->fd, (struct sockaddr *)&peer, &peer_length) != 0)
        return WEFT_AGAIN;
    weft_status status = weft_control_prove(control);
    if (status != WEFT_OK)
        return status;
    control->connecting = false;
    control->heard_ns = weft_clock_ns();
    return WEFT_OK;
}

weft_status weft_control_transmit(weft_control *control, const uint8_t *data, uint64_t bytes, uint64_t *sent)
{
    if (control->guard) {
        weft_status status = weft_seal_write(control->seal, data, bytes, sent);
        return status == WEFT_OK ? WEFT_OK : lost(control, weft_last_error());
    }
    ssize_t part = send(control->fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    *sent = part > 0 ? (uint64_t)part : 0;
    if (part >= 0 || errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return WEFT_OK;
    return lost(control, strerror(errno));
}

/* Sends a run of bytes from `*at` to its end; WEFT_AGAIN: the socket is full. */
static weft_status push_all(weft_control *control, const uint8_t *data, uint64_t *at, uint64_t end)
{
    while (*at < end) {
        uint64_t sent;
        weft_status status = weft_control_transmit(control, data + *at, end - *at, &sent);
        if (status != WEFT_OK || sent == 0)
            return status == WEFT_OK ? WEFT_AGAIN : status;
        *at += sent;
    }
    return WEFT_OK;
}

weft_status weft_control_flush(weft_control *control)
{
    if (control->fd < 0)
        return lost(control, "closed");
    if (control->connecting) {
        weft_status status = dialled(control);
        if (status != WEFT_OK)
            return status == WEFT_AGAIN ? WEFT_OK : status;
    }
    if (!has_words(control) || (control->guard && !control->sealed))
        return WEFT_OK;
    weft_status status = push_all(control, control->out, &control->out_begin, control->out_end);
    if (status == WEFT_OK) {
        control->out_begin = control->out_end = 0;
        status = push_all(control, control->tail, &control->tail_sent, control->tail_bytes);
    }
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

weft_status weft_control_receive(weft_control *control, uint8_t *data, uint64_t bytes, uint64_t *moved)
{
    *moved = 0;
    if (control->guard) {
        weft_status status = weft_seal_read(control->seal, data, bytes, moved);
        if (status == WEFT_E_REFUSED)
            return weft_control_unproved(control, status);
        if (status == WEFT_E_PROTOCOL)
            weft_log(WEFT_LOG_WARN, "connection with %s ended: %s", control->peer, weft_last_error());
        return status == WEFT_OK ? WEFT_OK : lost(control, weft_last_error());
    }
    ssize_t got;
    do
        got = recv(control->fd, data, bytes, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    *moved = got > 0 ? (uint64_t)got : 0;
    if (got == 0)
        return lost(control, "closed by the other end");
    return got > 0 || errno == EAGAIN || errno == EWOULDBLOCK ? WEFT_OK : lost(control, strerror(errno));
}

weft_status weft_control_fill(weft_control *control)
{
    if (control->fd < 0 || control->connecting)
        return WEFT_OK;
    weft_status status = weft_control_prove(control);
    if (status != WEFT_OK)
        return status == WEFT_AGAIN ? WEFT_OK : status;
    for (uint64_t moved = 1; moved > 0 && control->in_used < WEFT_CONTROL_IN_BYTES;) {
        status = weft_control_receive(control, control->in + control->in_used, WEFT_CONTROL_IN_BYTES - control->in_used,
                                      &moved);
        if (moved > 0)
            control->heard_ns = weft_clock_ns();
        control->in_used += moved;
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* Takes bytes that wait in a seal as soon as there is room, because these wake nobody. An end of the stream comes
 * again.
 */
static bool is_whole(weft_control *control, uint64_t bytes)
{
    if (control->in_used < bytes && control->seal && weft_seal_has_more(control->seal))
        weft_control_fill(control);
    return control->in_used >= bytes;
}

static weft_status fail_message(weft_control *control, uint64_t code, uint64_t length)
{
    if (!control->guard && control->nonce == 0 && control->in[0] == 22 && control->in[1] == 3) {
        weft_control_tell_mode(control, "this end speaks without tls: write the same [security] mode at both ends");
        return weft_fail(WEFT_E_PROTOCOL,
                         "%s comes by tls, and this end speaks without: write the same [security] mode "
                         "at both ends",
                         control->peer);
    }
    return weft_fail(WEFT_E_CORRUPT, "%s sent a message of type %llu and %llu bytes: no weft end does that",
                     control->peer, (unsigned long long)code, (unsigned long long)length);
}

weft_status weft_control_next(weft_control *control, weft_message *type, const uint8_t **body, uint64_t *length)
{
    if (!is_whole(control, WEFT_MESSAGE_PREFIX))
        return WEFT_AGAIN;
    *length = weft_bytes_get(control->in, 4);
    uint64_t code = weft_bytes_get(control->in + 4, 2);
    bool known = code > 0 && code < WEFT_MESSAGE_COUNT && weft_bytes_get(control->in + 6, 2) == 0;
    if (*length > WEFT_MESSAGE_MAX || !known)
        return fail_message(control, code, *length);
    if (!is_whole(control, WEFT_MESSAGE_PREFIX + *length))
        return WEFT_AGAIN;
    *type = (weft_message)code;
    *body = control->in + WEFT_MESSAGE_PREFIX;
    return WEFT_OK;
}

void weft_control_drop(weft_control *control)
{
    uint64_t whole = WEFT_MESSAGE_PREFIX + weft_bytes_get(control->in, 4);
    memmove(control->in, control->in + whole, control->in_used - whole);
    control->in_used -= whole;
}
