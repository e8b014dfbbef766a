/* seal.h - a seal is TLS 1.3 on one connection: it proves both names, and keeps what is said from others.
 *
 * Nothing here waits: each call does what the socket allows now. */
#ifndef WEFT_CORE_SEAL_H
#define WEFT_CORE_SEAL_H

#include <stdbool.h>

#include "security/guard.h"

typedef struct weft_seal weft_seal;

/* Begins at the dialing end; `to` is the name that the other end's certificate must have. Errors: WEFT_E_REFUSED (a
 * file of this end), WEFT_E_MEMORY. */
weft_status weft_seal_dial(weft_guard *guard, int fd, const char *to, weft_seal **seal);
/* Begins at the end that was dialed. WEFT_AGAIN: no byte has come yet. Errors: WEFT_E_PROTOCOL (the other end speaks
 * without tls), WEFT_E_PEER_LOST (it is gone), WEFT_E_REFUSED (a file of this end), WEFT_E_MEMORY. */
weft_status weft_seal_answer(weft_guard *guard, int fd, weft_seal **seal);
/* Ends the seal; the socket stays open. NULL is allowed. */
void weft_seal_close(weft_seal *seal);

/* Goes on with the handshake: WEFT_OK when both ends are proved, WEFT_AGAIN before. Errors, all quiet: WEFT_E_REFUSED
 * (one end does not take the other's proof: the text says why and what to do), WEFT_E_PEER_LOST. */
weft_status weft_seal_step(weft_seal *seal);
/* True if the seal waits until the socket takes more. */
bool weft_seal_wants_write(const weft_seal *seal);
/* True if bytes that came wait in the seal, where poll does not see them. */
bool weft_seal_has_more(const weft_seal *seal);

/* Reads are made in turns, because a peer could keep one busy for ever. A turn takes some records off the socket, and
 * ends with a read that brings nothing, which may come while the socket has more. This gives the turns after the
 * present one another size in bytes. */
void weft_seal_widen(weft_seal *seal, uint64_t turn);
/* Moves what can be moved now, `moved` bytes, 0 included. Errors, all quiet: as weft_seal_step, WEFT_E_PROTOCOL (more
 * messages of tls came after the proof than any end of weft sends; the text has the name that was proved). */
weft_status weft_seal_read(weft_seal *seal, void *data, uint64_t bytes, uint64_t *moved);
weft_status weft_seal_write(weft_seal *seal, const void *data, uint64_t bytes, uint64_t *moved);

/* True if the other end has proved that it is `name`. Only after WEFT_OK of weft_seal_step. */
bool weft_seal_proves(const weft_seal *seal, const char *name);

#endif
