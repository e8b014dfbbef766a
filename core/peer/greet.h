/* greet.h - the handshake of a trainer with a rollout that wants to join. */
#ifndef WEFT_CORE_GREET_H
#define WEFT_CORE_GREET_H

#include "base/log_limit.h"
#include "peer/peer_state.h"
#include "site/site.h"
#include "wire/wire.h"

/* Door: the trainer's listening end, and what guests are told there. The trainer owns it. */
typedef struct weft_door {
    int listen_fd;
    uint8_t *layout_bytes; /* body of a LAYOUT message */
    uint64_t layout_length;
    weft_log_limit strangers; /* lines about connections that did not say a HELLO of the site's */
    weft_log_limit comers;    /* lines about those that did, and are not joined */
    uint64_t told_ns;         /* when lines that were left out were last reported */
} weft_door;

/* Claim: who a peer says that it is, and who else wants its name. The peer's record owns it, over all connections. */
typedef struct weft_claim {
    char name[WEFT_SITE_NAME];
    bool known; /* the record is in use, by a name seen in this run */
    weft_wire_hello hello;
    uint64_t joined_ns;   /* when HELLO was accepted */
    uint64_t rival;       /* another incarnation that asked for the name and had no answer yet; 0: none */
    uint64_t rival_ns;    /* when the rival asked first */
    weft_log_limit limit; /* lines about the peer that its own doings bring about */
} weft_claim;

/* Answers a HELLO: the guest joins, as the record `*greeted`, or is sent what it asks for. Errors: the guest is to be
 * refused, for the last error's reason. */
weft_status weft_peer_greet(weft_trainer *trainer, weft_peer *guest, const uint8_t *body, uint64_t length,
                            weft_peer **greeted);

#endif
