/* control.h - a control connection: one TCP socket that carries whole messages, never blocks, and allocates at open
 * only.
 *
 * getaddrinfo resolves `host:port` addresses; an IPv6 host stands in brackets. */
#ifndef WEFT_CORE_CONTROL_H
#define WEFT_CORE_CONTROL_H

#include "base/mem.h"
#include "security/seal.h"
#include "wire/wire.h"

#define WEFT_CONTROL_IN_BYTES (WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX)
#define WEFT_CONTROL_OUT_BYTES                                                                                         \
    (64u << 10) /* bytes of messages that wait to leave; more means that the peer does not read */

typedef struct weft_control {
    int fd;                   /* socket; -1: closed */
    bool connecting;          /* the dial has no answer yet */
    uint64_t nonce;           /* nonce of this connection's GREETING, from either end; 0: none yet */
    uint64_t user_timeout_ms; /* as it was dialed or adopted with */
    uint64_t heard_ns;
    uint64_t said_ns;
    uint8_t *in;
    uint64_t in_used;
    uint8_t *out;
    uint64_t out_begin, out_end;
    const uint8_t *tail; /* a long body (LAYOUT) that leaves after everything in `out`; borrowed */
    uint64_t tail_bytes, tail_sent;
    uint8_t *layout; /* a LAYOUT that this end asked for, as far as it came; NULL: none */
    uint64_t layout_bytes, layout_got;
    bool watched; /* watch.h: the trainer watches for these events, under this number */
    uint32_t watched_for, watched_as;
    char peer[64];     /* the other end's address */
    weft_guard *guard; /* who may be at the other end; NULL: anybody, and messages are plain */
    weft_seal *seal;   /* of this connection; NULL: not begun */
    bool sealed;       /* both ends are proved */
    bool dialed;       /* by this end, to the end whose certificate has the name `to` */
    char to[WEFT_SITE_NAME];
} weft_control;

/* Takes the memory of both buffers. */
weft_status weft_control_open(weft_control *control);
void weft_control_close(weft_control *control);
weft_mem_list weft_control_memory(weft_control *control);
/* Closes the socket and keeps the buffers for the next connection. */
void weft_control_hang_up(weft_control *control);

/* ---- control_dial.c: addresses */
#define WEFT_CONTROL_ADDRESSES 4u

/* Resolves "host:port" to numeric addresses, which can be dialed. Waits for the name server (resolver.h does not).
 * Errors: WEFT_E_UNREACHABLE (no server knows the name now), WEFT_E_CONFIG. */
weft_status weft_control_resolve(const char *address, char numeric[WEFT_CONTROL_ADDRESSES][64], uint32_t *count);
/* Copies an address that is numeric already, and returns true; false for a name. Never blocks. */
bool weft_control_is_numeric(const char *address, char numeric[64]);
/* Finds the local address that the kernel would send from to a numeric address. Errors: WEFT_AGAIN (no route now),
 * WEFT_E_SYSTEM. */
weft_status weft_control_route(const char *numeric, char *address, uint64_t capacity);

/* False if the kernel sends nothing from the numeric `source` to a numeric address, as from loopback to another host.
 * True for anything that is no such address or has no route now. */
bool weft_control_reaches(const char *numeric, const char *source);

/* Starts to dial a numeric address; weft_control_flush learns the outcome. Errors: WEFT_E_CONFIG (no numeric address),
 * WEFT_E_UNREACHABLE, WEFT_E_SYSTEM (no descriptor or memory here). */
weft_status weft_control_dial(weft_control *control, const char *address, uint64_t user_timeout_ms);
/* Takes over an accepted socket. */
void weft_control_adopt(weft_control *control, int fd, uint64_t user_timeout_ms);
/* Stops to listen, also if a forked child still has the socket; -1 is allowed. */
void weft_control_unlisten(int fd);
/* Listens, and writes the address with the chosen port to `bound` (64 bytes). Errors: WEFT_AGAIN (no interface has the
 * address now), WEFT_E_SYSTEM, WEFT_E_CONFIG. */
weft_status weft_control_listen(const char *address, int *fd, char *bound);

/* ---- control_seal.c: connections with proof */
/* Asks for proof on a connection that was just dialed, to the end of that name, or adopted, with `to` NULL. No message
 * goes either way before both ends are proved. A guard of NULL leaves the connection plain. */
void weft_control_guard(weft_control *control, weft_guard *guard, const char *to);
/* True if the other end has proved that name, or needs to prove none. */
bool weft_control_proves(const weft_control *control, const char *name);
/* Goes on with the handshake: WEFT_OK when nothing is left of it, WEFT_AGAIN before. An end that was dialed logs why it
 * refuses. Errors, all quiet: WEFT_E_CONFIG (one end does not take the other's proof: the text says why),
 * WEFT_E_PEER_LOST, WEFT_E_UNREACHABLE, WEFT_E_MEMORY. */
weft_status weft_control_prove(weft_control *control);
/* Decides the error of a seal, `status`, as one of the connection. */
weft_status weft_control_unproved(weft_control *control, weft_status status);
/* Tells an end that comes by tls to one without it, or the reverse, what is wrong, as far as the socket takes it. */
void weft_control_tell_mode(weft_control *control, const char *text);

/* ---- control.c: messages */
/* Queues a message. Errors: WEFT_E_PEER_LOST (closed, or the peer has not read for too long). */
weft_status weft_control_send(weft_control *control, weft_message type, const uint8_t *body, uint64_t length);
/* Queues a message whose body is a notice, or a word. */
weft_status weft_control_notice(weft_control *control, weft_message type, const weft_wire_notice *notice);
weft_status weft_control_word(weft_control *control, weft_message type, uint64_t word);
/* Queues a LAYOUT message whose body is lent until the connection is closed. */
weft_status weft_control_send_long(weft_control *control, weft_message type, const uint8_t *body, uint64_t length);
bool weft_control_wants_write(const weft_control *control);
/* True while the handshake goes on or something waits to leave. */
bool weft_control_is_pending(const weft_control *control);
/* Writes as much as the socket takes. Errors: WEFT_E_PEER_LOST, WEFT_E_UNREACHABLE (the dial failed),
 * WEFT_E_CONFIG (weft_control_prove). */
weft_status weft_control_flush(weft_control *control);
/* Sends a part of some bytes out of any message: 0 of them if the socket is full. Errors: WEFT_E_PEER_LOST. */
weft_status weft_control_transmit(weft_control *control, const uint8_t *data, uint64_t bytes, uint64_t *sent);
/* Takes bytes that have arrived out of any message, 0 included. Errors: as weft_control_fill. */
weft_status weft_control_receive(weft_control *control, uint8_t *data, uint64_t bytes, uint64_t *moved);
/* Reads all that has arrived. Errors: WEFT_E_CONFIG (weft_control_prove), WEFT_E_PEER_LOST at the end of the stream,
 * after the last whole message. */
weft_status weft_control_fill(weft_control *control);
/* Returns the next whole message, in place until weft_control_drop: WEFT_OK, WEFT_AGAIN, or WEFT_E_CORRUPT for a length
 * or type that no message has. */
weft_status weft_control_next(weft_control *control, weft_message *type, const uint8_t **body, uint64_t *length);
void weft_control_drop(weft_control *control);

/* ---- control_layout.c: the answer of this end's own question */
/* Returns true if the next message is a LAYOUT, or one is on its way. */
bool weft_control_has_layout(const weft_control *control);
/* Takes a LAYOUT, of which there may be many bytes, as they come. The body lives until the connection is closed.
 *
 * most  bytes that it may have
 * WEFT_AGAIN: it is not whole. Errors: WEFT_E_BUDGET (it has more bytes, whose number the text has; nothing was taken),
 * WEFT_E_MEMORY, those of weft_control_fill. */
weft_status weft_control_take_layout(weft_control *control, uint64_t most, const uint8_t **body, uint64_t *length);

#endif
