/* joining.h - the rollout's way to a trainer: the gateways, the connection, and the reason why there is none.
 *
 *   away -- dial --> dialing --> knocking -- GREETING, HELLO --> greeting -- WELCOME --> joined
 *    ^                                        |                     |
 *    +---- connection lost, fault, goodbye ---+---------------------+      REFUSE --> refused (final) */
#ifndef WEFT_CORE_JOINING_H
#define WEFT_CORE_JOINING_H

#include "wire/control.h"
#include "wire/resolver.h"
#include "wire/wire.h"

typedef enum weft_join {
    WEFT_JOIN_AWAY,
    WEFT_JOIN_DIALING,
    WEFT_JOIN_KNOCKING,
    WEFT_JOIN_GREETING,
    WEFT_JOIN_JOINED,
    WEFT_JOIN_REFUSED
} weft_join;

/* Where a rollout may join: the addresses of the relays that its site names, in order, then the trainer's. Each of
 * these has one way at least. */
typedef struct weft_gateway {
    char address[64];           /* numeric; "": its name is not known */
    char relay[WEFT_SITE_NAME]; /* "": the trainer */
    uint32_t place;             /* of the relay, or the trainer, in that order */
} weft_gateway;
#define WEFT_GATEWAYS ((WEFT_SITE_VIAS + 1) * WEFT_CONTROL_ADDRESSES)

/* Gateways of a rollout, dialed in turn at each join from the first on. gateway.c owns it. */
typedef struct weft_route {
    weft_gateway gateways[WEFT_GATEWAYS];
    uint32_t count, at;
    uint32_t silent;      /* place, counted from 1, of the relay that was lost by its silence: passed over at first */
    bool brief;           /* a relay was lost: the others are asked in turn, none for long */
    weft_resolver *names; /* answers to the gateways' names, which may come later; NULL: nobody asked */
    uint64_t since_ns;    /* time when the present gateway was dialed first; 0: not yet */
} weft_route;

/* What a message of the trainer has decided about the connection; the next step of join.c carries it out. */
typedef enum weft_connection_verdict {
    WEFT_VERDICT_NONE,
    WEFT_VERDICT_LATER,   /* the other end has nothing to join yet */
    WEFT_VERDICT_REFUSED, /* `refusal` says why */
    WEFT_VERDICT_GOODBYE
} weft_connection_verdict;

/* A rollout has one joining for each trainer. join.c owns it, and dispatch.c sets the verdict. */
typedef struct weft_joining {
    weft_join state;
    weft_route route;
    weft_control control;
    weft_wire_welcome welcome;
    weft_connection_verdict verdict;
    bool said_goodbye; /* the trainer left in good order and was not seen since */
    bool later;        /* the last answer was that nothing can be joined yet */
    bool was_joined;   /* in this process */
    weft_status refusal;
    char refusal_text[256];
    uint64_t away_since_ns, retry_ns, dialed_ns;
    char away_text[192];      /* reason why the last connection ended or was not made */
    weft_status away_status;  /* status of that reason */
    uint32_t retries, faults; /* faults in a row, without a commit between */
    uint64_t pinged_ns;
    uint32_t heartbeat_ms;
} weft_joining;

#endif
