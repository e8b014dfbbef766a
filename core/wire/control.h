/* control.h - one plain TCP connection that carries whole messages, never blocks and never allocates after open.
 *
 * `host:port` addresses are resolved by getaddrinfo; an IPv6 host stands in brackets. */
#ifndef WEFT_CORE_CONTROL_H
#define WEFT_CORE_CONTROL_H

#include "wire/wire.h"

#define WEFT_CONTROL_IN_BYTES  (WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX)
#define WEFT_CONTROL_OUT_BYTES (64u << 10) /* messages waiting to leave; more is a peer that does not read */

typedef struct weft_control {
    int fd;          /* -1: closed */
    bool connecting; /* a dial that has not been answered */
    uint64_t nonce;  /* of the GREETING on this connection, whichever end sent it; 0: none yet */
    uint64_t heard_ns;
    uint64_t said_ns;
    uint8_t *in;
    uint64_t in_used;
    uint8_t *out;
    uint64_t out_begin, out_end;
    const uint8_t *tail; /* a long body behind everything in `out` (LAYOUT); borrowed */
    uint64_t tail_bytes, tail_sent;
    bool watched; /* watch.h: by the trainer, for these events, under this number */
    uint32_t watched_for, watched_as;
    char peer[64]; /* the other end's address */
} weft_control;

/* Takes the two buffers. */
weft_status weft_control_open(weft_control *control);
void weft_control_close(weft_control *control);
/* Closes the socket, keeps the buffers for the next connection. */
void weft_control_hang_up(weft_control *control);

#define WEFT_CONTROL_ADDRESSES 4u

/* Resolves "host:port" to numeric addresses, which are dialed. Blocks for the name server (names.h does not). Errors:
 * WEFT_E_UNREACHABLE (nobody knows the name now), WEFT_E_CONFIG. */
weft_status weft_control_resolve(const char *address, char numeric[WEFT_CONTROL_ADDRESSES][64], uint32_t *count);
/* Whether it is a numeric address already, which is then copied. Never blocks. */
bool weft_control_is_numeric(const char *address, char numeric[64]);
/* The local address that the kernel would send from to a numeric address. Errors: WEFT_AGAIN (no route now),
 * WEFT_E_SYSTEM. */
weft_status weft_control_route(const char *numeric, char *address, uint64_t capacity);

/* False: the kernel sends nothing from the numeric `source` to a numeric address, as from loopback to another host.
 * What is no such address, and what has no route now, is not judged. */
bool weft_control_reaches(const char *numeric, const char *source);

/* Starts to dial a numeric address; weft_control_flush finds out whether it worked. Errors: WEFT_E_CONFIG (it is none),
 * WEFT_E_UNREACHABLE, WEFT_E_SYSTEM (no descriptor or memory for it here). */
weft_status weft_control_dial(weft_control *control, const char *address, uint64_t user_timeout_ms);
/* Takes over an accepted socket. */
void weft_control_adopt(weft_control *control, int fd, uint64_t user_timeout_ms);
/* Ends listening, also where a forked child still has the socket; -1 is allowed. */
void weft_control_unlisten(int fd);
/* Listens; writes the address with the port chosen to `bound` (64 bytes). Errors: WEFT_AGAIN (no interface has
 * the address now), WEFT_E_SYSTEM, WEFT_E_CONFIG. */
weft_status weft_control_listen(const char *address, int *fd, char *bound);

/* Queues a message. Errors: WEFT_E_PEER_LOST (closed, or the other end has not read for too long). */
weft_status weft_control_send(weft_control *control, weft_message type, const uint8_t *body, uint64_t length);
/* Queues a LAYOUT message whose body is lent until the connection is closed. */
weft_status weft_control_send_long(weft_control *control, weft_message type, const uint8_t *body, uint64_t length);
bool weft_control_wants_write(const weft_control *control);
/* Writes what the socket takes. Errors: WEFT_E_PEER_LOST, WEFT_E_UNREACHABLE (the dial failed). */
weft_status weft_control_flush(weft_control *control);
/* Reads what there is; WEFT_E_PEER_LOST at the end of the stream once no whole message is left. */
weft_status weft_control_fill(weft_control *control);
/* The next whole message, in place until weft_control_drop: WEFT_OK, WEFT_AGAIN, or WEFT_E_CORRUPT for a length or type
 * that no message has. */
weft_status weft_control_next(weft_control *control, weft_message *type, const uint8_t **body, uint64_t *length);
void weft_control_drop(weft_control *control);

#endif
