/* claim.h - the name of a peer, and who else wants that name. */
#ifndef WEFT_CORE_CLAIM_H
#define WEFT_CORE_CLAIM_H

#include "base/log_limit.h"
#include "peer/peer_state.h"
#include "site/site.h"
#include "wire/wire.h"

/* Claim: who a peer says that it is, and who else wants its name. The peer's record owns it, over all connections. */
struct weft_claim {
    char name[WEFT_SITE_NAME];
    bool known; /* the record is in use, by a name seen in this run */
    weft_wire_hello hello;
    uint64_t joined_ns;   /* when HELLO was accepted */
    uint64_t rival;       /* another incarnation that asked for the name and had no answer yet; 0: none */
    uint64_t rival_ns;    /* when the rival asked first */
    weft_log_limit limit; /* lines about the peer that its own doings bring about */
};

/* Finds the record for the name in a guest's HELLO: its old one, which takes the guest's connection over, or `guest`
 * itself. May end the connection of another peer. Errors: WEFT_E_SYSTEM, because the guest has to come again;
 * WEFT_E_REFUSED, because the name or all places are taken. */
weft_status weft_claim_take(weft_peer_table *peers, weft_peer *guest, const weft_wire_hello *hello, weft_peer **record);

#endif
