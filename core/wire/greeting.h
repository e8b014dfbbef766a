/* greeting.h - what comes before a HELLO: the dialing end knocks, the other one greets it with a nonce and the
 * protocols it speaks, and takes a HELLO only with that nonce.
 *
 * So a HELLO belongs to one connection: one that somebody recorded and sends again is refused before anybody of that
 * name is looked for. It does not authenticate: who can read the connection can answer too. */
#ifndef WEFT_CORE_GREETING_H
#define WEFT_CORE_GREETING_H

#include "wire/control.h"

/* ---- the dialing end */
/* Queues the knock. Errors: as weft_control_send. */
weft_status weft_greeting_ask(weft_control *control);
/* GREETING: keeps its nonce for HELLO. Errors: WEFT_E_CORRUPT, WEFT_E_PROTOCOL (none is common to both). */
weft_status weft_greeting_take(weft_control *control, const uint8_t *body, uint64_t length);

/* ---- the listening end */
/* Answers a knock with a nonce of its own. Errors: WEFT_E_PROTOCOL (a second one; no protocol in common),
 * WEFT_E_CORRUPT, WEFT_E_SYSTEM (no random number to be had). */
weft_status weft_greeting_give(weft_control *control, const uint8_t *body, uint64_t length);
/* Whether a HELLO answers the greeting of its connection. Errors: WEFT_E_PROTOCOL. */
weft_status weft_greeting_check(const weft_control *control, const weft_wire_hello *hello);

#endif
