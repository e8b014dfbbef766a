#include "wire/duct.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/status.h"

/* Seconds of silence after which the kernel asks whether the other end is there, so that who translates addresses on
 * the way does not forget an idle connection. */
#define KEEP_S 20

/* Bytes that a read of chunks may take off the connection in a row: several turns of a provider's. */
#define TURN (UINT64_C(4) << 20)

typedef struct weft_duct {
    weft_pipe pipe; /* first: a pipe's address is its duct's */
    weft_control control;
    uint8_t words[WEFT_MESSAGE_PREFIX + 2 + WEFT_PORT_ADDRESS_MAX]; /* DUCT, as far as it has not left */
    uint64_t said, words_bytes;
} weft_duct;

/* ---- the pipe */

/* Dials and says DUCT as far as that can be done now; WEFT_AGAIN while something is left of it. */
static weft_status begin(weft_duct *duct)
{
    weft_status status = WEFT_OK;
    if (duct->control.connecting)
        status = weft_control_flush(&duct->control);
    if (status != WEFT_OK || duct->control.connecting)
        return status == WEFT_OK ? WEFT_AGAIN : status;
    while (duct->said < duct->words_bytes) {
        uint64_t sent = 0;
        status = weft_control_transmit(&duct->control, duct->words + duct->said, duct->words_bytes - duct->said, &sent);
        if (status != WEFT_OK || sent == 0)
            return status == WEFT_OK ? WEFT_AGAIN : status;
        duct->said += sent;
    }
    return WEFT_OK;
}

static weft_status duct_read(weft_pipe *pipe, void *data, uint64_t bytes, uint64_t *moved)
{
    weft_duct *duct = (weft_duct *)pipe;
    *moved = 0;
    weft_status status = begin(duct);
    if (status == WEFT_OK && duct->control.seal)
        weft_seal_widen(duct->control.seal, TURN);
    if (status == WEFT_OK)
        status = weft_control_receive(&duct->control, data, bytes, moved);
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

static weft_status duct_write(weft_pipe *pipe, const void *data, uint64_t bytes, uint64_t *moved)
{
    weft_duct *duct = (weft_duct *)pipe;
    *moved = 0;
    weft_status status = begin(duct);
    if (status == WEFT_OK)
        status = weft_control_transmit(&duct->control, data, bytes, moved);
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

static bool duct_has_more(const weft_pipe *pipe)
{
    const weft_duct *duct = (const weft_duct *)pipe;
    return duct->control.seal && weft_seal_has_more(duct->control.seal);
}

/* A handshake waits for the other end's bytes more often than for room. */
static bool duct_wants_write(const weft_pipe *pipe)
{
    const weft_duct *duct = (const weft_duct *)pipe;
    if (duct->control.connecting && duct->control.seal)
        return weft_seal_wants_write(duct->control.seal);
    return duct->control.connecting || duct->said < duct->words_bytes;
}

static void duct_close(weft_pipe *pipe)
{
    weft_duct *duct = (weft_duct *)pipe;
    weft_control_hang_up(&duct->control);
    weft_mem_give(duct);
}

static const weft_pipe_calls calls = {duct_read, duct_write, duct_has_more, duct_wants_write, duct_close};

/* ---- either end */

static weft_duct *make(void)
{
    weft_duct *duct = weft_mem_take(1, sizeof *duct);
    if (!duct) {
        weft_fail(WEFT_E_MEMORY, "no memory for a connection that carries buckets");
        return NULL;
    }
    duct->pipe = (weft_pipe){&calls, -1};
    duct->control.fd = -1;
    return duct;
}

static void tune(int fd)
{
    const int on = 1, idle = KEEP_S, between = KEEP_S / 4;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
}

static weft_status hand_over(weft_duct *duct, const weft_provider *provider, weft_port *port)
{
    duct->pipe.fd = duct->control.fd;
    tune(duct->pipe.fd);
    return provider->port_pipe(port, &duct->pipe);
}

static void say(weft_duct *duct, const uint8_t *address, uint32_t bytes)
{
    weft_wire_duct named = {.address_bytes = bytes};
    weft_out out = {duct->words + WEFT_MESSAGE_PREFIX, sizeof duct->words - WEFT_MESSAGE_PREFIX, 0, false};
    memcpy(named.address, address, bytes);
    weft_wire_put_duct(&out, &named);
    weft_bytes_put(duct->words, out.used, 4);
    weft_bytes_put(duct->words + 4, WEFT_MESSAGE_DUCT, 2);
    duct->words_bytes = WEFT_MESSAGE_PREFIX + out.used;
}

weft_status weft_duct_dial(const weft_control *control, const weft_provider *provider, weft_port *port,
                           const uint8_t *address, uint32_t bytes)
{
    if (!weft_provider_is_piped(provider))
        return WEFT_OK;
    weft_duct *duct = make();
    if (!duct)
        return WEFT_E_MEMORY;
    weft_status status = weft_control_dial(&duct->control, control->peer, control->user_timeout_ms);
    if (status == WEFT_OK) {
        weft_control_guard(&duct->control, control->guard, control->to);
        say(duct, address, bytes);
        status = hand_over(duct, provider, port);
    }
    if (status != WEFT_OK)
        duct_close(&duct->pipe);
    return status;
}

weft_status weft_duct_take(weft_control *control, const weft_provider *provider, weft_port *port)
{
    if (control->in_used != WEFT_MESSAGE_PREFIX + weft_bytes_get(control->in, 4))
        return weft_fail(WEFT_E_PROTOCOL, "%s sent more after DUCT, where it is to listen", control->peer);
    weft_duct *duct = make();
    if (!duct)
        return WEFT_E_MEMORY;
    duct->control = (weft_control){.fd = control->fd,
                                   .guard = control->guard,
                                   .seal = control->seal,
                                   .sealed = control->sealed,
                                   .heard_ns = control->heard_ns};
    snprintf(duct->control.peer, sizeof duct->control.peer, "%s", control->peer);
    weft_status status = hand_over(duct, provider, port);
    if (status != WEFT_OK) {
        weft_mem_give(duct);
        return status == WEFT_E_ARGUMENT ? WEFT_E_PROTOCOL : status;
    }
    control->fd = -1;
    control->seal = NULL;
    control->guard = NULL;
    control->sealed = false;
    return WEFT_OK;
}

bool weft_duct_leads(const weft_wire_duct *duct, const weft_provider *provider, const weft_port *port)
{
    uint8_t address[WEFT_PORT_ADDRESS_MAX], differs = 0;
    uint32_t bytes = 0;
    if (!port || !weft_provider_is_piped(provider) || provider->port_address(port, address, &bytes) != WEFT_OK ||
        bytes != duct->address_bytes)
        return false;
    for (uint32_t i = 0; i < bytes; i++) /* all of them, so that the time tells nothing */
        differs |= (uint8_t)(address[i] ^ duct->address[i]);
    return differs == 0;
}
