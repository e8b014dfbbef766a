/* greet.h - the handshake of a trainer with a rollout that wants to join. */
#ifndef WEFT_CORE_GREET_H
#define WEFT_CORE_GREET_H

#include "peer/peer_state.h"
#include "site/site.h"
#include "wire/wire.h"

/* Answers a HELLO: the guest joins, as the record `*greeted`, or is sent what it asks for. Errors: the guest is to be
 * refused, for the last error's reason. */
weft_status weft_peer_greet(weft_trainer *trainer, weft_peer *guest, const uint8_t *body, uint64_t length,
                            weft_peer **greeted);
/* Acts on DUCT of a guest: the guest's connection becomes that of the rail which DUCT names, and the guest is gone. */
weft_status weft_peer_duct(weft_peer_table *peers, weft_peer *guest, const uint8_t *body, uint64_t length);

#endif
