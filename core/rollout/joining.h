/* joining.h - the rollout's way to a trainer: the gateways, the connection, and the reason why there is none.
 *
 *   away -- dial --> dialing --> knocking -- GREETING, HELLO --> greeting -- WELCOME --> joined
 *    ^                                        |                     |
 *    +---- connection lost, fault, goodbye ---+---------------------+      REFUSE --> refused (final)
 *    ^                                                              |
 *    +--- LAYOUT, compared --- asking <-- HELLO --- knocking <--- COMPARE */
#ifndef WEFT_CORE_JOINING_H
#define WEFT_CORE_JOINING_H

#include "session/session.h"
#include "wire/control.h"
#include "wire/resolver.h"
#include "wire/wire.h"

typedef enum weft_join {
    WEFT_JOIN_AWAY,
    WEFT_JOIN_DIALING,
    WEFT_JOIN_KNOCKING,
    WEFT_JOIN_GREETING,
    WEFT_JOIN_ASKING,
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
    uint32_t source;      /* number of the source, counted from 1; 0: the trainer is the only one */
    uint32_t silent;      /* place, counted from 1, of the relay that was lost by its silence: passed over at first */
    bool brief;           /* a relay was lost: the others are asked in turn, none for long */
    weft_resolver *names; /* answers to the gateways' names, which may come later; NULL: nobody asked */
    uint64_t since_ns;    /* time when the present gateway was dialed first; 0: not yet */
} weft_route;

/* Decision of a message about the connection. The next step of join.c carries the decision out. */
typedef enum weft_connection_verdict {
    WEFT_VERDICT_NONE,
    WEFT_VERDICT_LATER,   /* the other end has nothing to join yet */
    WEFT_VERDICT_REFUSED, /* `refusal` says why */
    WEFT_VERDICT_COMPARE, /* the trainer has another layout, or its layout came and was compared */
    WEFT_VERDICT_GOODBYE
} weft_connection_verdict;

/* A rollout has one joining for each trainer. join.c owns it, and dispatch.c sets the verdict. */
/* The comparison with a trainer whose layout is another. compare.c owns it. */
typedef struct weft_comparing {
    bool asks;         /* the next HELLO asks for the trainer's layout */
    uint32_t turns;    /* times in a row that the trainer asked to compare */
    char differs[256]; /* how the layouts differ, for the next HELLO; "": no difference is known */
    weft_layout *told; /* the trainer's model, which has the same tensors in another order; NULL: no order to take */
    uint64_t *order;   /* its number of each tensor of the division's model */
} weft_comparing;

typedef struct weft_joining {
    weft_join state;
    weft_route route;
    weft_control control;
    weft_wire_welcome welcome;
    weft_connection_verdict verdict;
    bool said_goodbye;   /* the trainer left in good order and was not seen since */
    bool later;          /* the last answer was that nothing can be joined yet */
    bool unproved;       /* refused for good, because one end does not take the proof of the other */
    bool was_joined;     /* in this process */
    bool said_staged;    /* the last HELLO named a version that is staged */
    weft_status doubted; /* the refusal that came last and was not believed; WEFT_OK: none since the last join */
    weft_status refusal;
    char refusal_text[256];
    uint64_t away_since_ns, retry_ns, dialed_ns;
    uint64_t left_ns;         /* time when the rollout was joined last */
    char away_text[192];      /* reason why the last connection ended or was not made */
    weft_status away_status;  /* status of that reason */
    uint32_t retries, faults; /* faults in a row, without a commit between */
    uint64_t pinged_ns;
    uint32_t heartbeat_ms;
    weft_comparing comparing;
} weft_joining;

typedef struct weft_intake weft_intake;

/* ---- join.c, join_leave.c */
weft_status weft_join_open(weft_rollout *rollout);
void weft_join_close(weft_intake *intake, weft_joining *joining);
/* Takes one step: dials, greets, and keeps the connection alive. */
void weft_join_step(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits);
/* Closes the connection and everything on it, and dials again later. */
void weft_join_lose(weft_rollout *rollout, weft_status status, const char *why);
/* Says goodbye, if the rollout is joined. */
void weft_join_bye(weft_rollout *rollout, const char *why);
/* Says goodbye and drops what came, also a version that is proved. The next steps dial again. */
void weft_join_rest(weft_rollout *rollout, const char *why);
/* Joins again because of this end, without a fault of anybody's: what came is dropped, also a version that is proved.
 */
void weft_join_again(weft_rollout *rollout, const char *why);
/* Reports to the trainer that a version failed here, and joins again. With `doubt` the weights are digested anew first.
 */
void weft_join_fault(weft_rollout *rollout, weft_status status, bool doubt);
/* The other end has nothing to join yet: dials the same address again after a while. */
void weft_join_later(weft_rollout *rollout);
/* Dials the same address again to ask for the trainer's layout, or to go on after that was compared. One that asks
 * again and again is given pauses. */
void weft_join_compare(weft_rollout *rollout);
/* Dials the same address again at once, because what HELLO said is not true any more. */
void weft_join_anew(weft_rollout *rollout);

/* ---- greet.c */
/* Opens the inlets and says HELLO on a connection that was greeted. */
weft_status weft_greet_hello(weft_rollout *rollout);

/* ---- compare.c */
/* Asks for the trainer's layout, on a connection that was greeted. */
weft_status weft_compare_ask(weft_rollout *rollout);
/* Takes the layout as it comes. When it is whole the verdict is set, and either an order or a difference is known.
 * WEFT_AGAIN: more is to come. */
weft_status weft_compare_take(weft_rollout *rollout);
/* Forgets an order that nobody took. */
void weft_compare_forget(weft_comparing *comparing);

/* ---- gateway.c */
/* Writes "host:port" of the relays through which a peer joins source `source` (0 of one trainer), in order, and of the
 * trainer, if the peer may join there. Returns their number. */
uint32_t weft_gateway_hosts(const weft_site *site, const weft_site_peer *peer, uint32_t source,
                            char hosts[WEFT_RESOLVER_NAMES][WEFT_SITE_TEXT]);
/* Finds the addresses of the gateways, of one at least. Blocks for the name server, at most connect_deadline. Errors:
 * WEFT_E_CONFIG, WEFT_E_UNREACHABLE, WEFT_E_MEMORY. */
weft_status weft_gateway_open(weft_rollout *rollout);
void weft_gateway_close(weft_route *route);
/* Asks for the names again, because no gateway answered and their addresses may have changed. Takes over the answers to
 * earlier questions. */
void weft_gateway_renew(weft_rollout *rollout);
/* Returns the first address that is known. */
const char *weft_gateway_known(const weft_route *route);
/* Chooses the gateway to dial first at a new join: the first relay, or after faults one further, because a relay may
 * damage what it passes on. `silent`: the relay that was joined is silent. It is tried last then, because a stopped
 * process still lets itself be dialed. */
void weft_gateway_begin(weft_route *route, uint32_t faults, bool silent);
/* Moves to the next gateway after one that led nowhere. False: all were tried. */
bool weft_gateway_next(weft_route *route);
/* Returns true if the gateway just dialed is to be dialed again. At the first join a relay has a heartbeat to be there,
 * because all ends may be starting at once. A relay that was there and is gone has no such time. */
bool weft_gateway_again(const weft_joining *joining, const weft_site_peer *site, uint64_t now_ns);
/* Returns how long to wait for an answer of the gateway, in milliseconds. A relay is given up after a heartbeat. A
 * relay that did not even greet is given up after an eighth of one, if another relay was lost and there are more. */
uint64_t weft_gateway_patience_ms(const weft_joining *joining, const weft_site_peer *site, uint64_t most_ms);
/* Returns the name that the end behind the present gateway proves: the relay's, or the trainer's. */
const char *weft_gateway_owner(const weft_route *route);
/* Writes "the trainer", or of several "source R". */
void weft_gateway_trainer(const weft_route *route, char name[WEFT_SITE_NAME + 8]);
/* Writes who is at the present gateway: as weft_gateway_trainer does, or "relay NAME". */
void weft_gateway_name(const weft_route *route, char name[WEFT_SITE_NAME + 8]);

/* ---- dispatch.c */
/* Ends the connection because one end does not take the proof of the other, as the last error says. A process that
 * never joined is refused for good, because nobody waits for a key that may be right later; else the join is tried
 * again. */
weft_status weft_dispatch_unproved(weft_joining *joining);
/* Reads the trainer's messages and acts on each. `verdict` says what becomes of the connection. */
weft_status weft_dispatch_step(weft_rollout *rollout, weft_waits *waits);

#endif
