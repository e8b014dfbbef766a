/* greeting.h - the exchange before a HELLO. The dialing end knocks. The listening end greets it with a nonce and the
 * protocols it speaks, and takes a HELLO only with that nonce.
 *
 * So a HELLO belongs to one connection: a recorded HELLO is refused before its name is looked up. This is no
 * authentication, because whoever reads the connection can answer too. */
#ifndef WEFT_CORE_GREETING_H
#define WEFT_CORE_GREETING_H

#include "wire/control.h"

/* ---- the dialing end */
/* Queues the knock. Errors: as weft_control_send. */
weft_status weft_greeting_ask(weft_control *control);
/* Takes a GREETING and keeps its nonce for HELLO. Errors: WEFT_E_CORRUPT, WEFT_E_PROTOCOL (no protocol in common). */
weft_status weft_greeting_take(weft_control *control, const uint8_t *body, uint64_t length);

/* ---- the listening end */
/* Answers a knock with a fresh nonce. Errors: WEFT_E_PROTOCOL (a second knock; no protocol in common), WEFT_E_CORRUPT,
 * WEFT_E_SYSTEM (no random number). */
weft_status weft_greeting_give(weft_control *control, const uint8_t *body, uint64_t length);
/* Checks that a HELLO answers the greeting of its connection. Errors: WEFT_E_PROTOCOL. */
weft_status weft_greeting_check(const weft_control *control, const weft_wire_hello *hello);

#endif
