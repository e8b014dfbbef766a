/* record.h - what a trainer remembers of a peer's connection and versions. */
#ifndef WEFT_CORE_RECORD_H
#define WEFT_CORE_RECORD_H

#include "journal/journal.h"
#include "peer/peer_state.h"
#include "site/site.h"
#include "wire/control.h"

#define WEFT_ORDER_UNKNOWN UINT64_MAX /* in place of an order: the peer's bits are no version known here */

/* Connection: the control connection of a peer or guest. The peer's record owns it. */
typedef struct weft_connection {
    weft_control control;
    bool greeted; /* HELLO was accepted on this connection */
    bool leaving; /* REFUSE, LAYOUT or BYE is on its way out; the connection is closed when that has left */
    uint64_t opened_ns;
    uint64_t pinged_ns; /* when the last PING was sent */
    uint64_t told_ns;   /* when the last PASSING was sent */
} weft_connection;

/* Standing: the version that a peer holds, and how far the peer was sent beyond that. The peer's record owns it. */
struct weft_standing {
    weft_version held;
    uint64_t held_order;      /* WEFT_ORDER_UNKNOWN: bits that are no version known here */
    uint64_t sent_order;      /* last update sent or being sent */
    uint64_t sent_attachment; /* hash of the attachment that the peer has after what was sent */
    uint64_t joined_order;    /* the newest when the peer joined */
    uint64_t single_until;    /* up to this order no merged update is asked for, because the peer could take none */
    uint64_t staging_said;    /* bytes of staging that the log named last, for an update that did not fit; 0: none */
    bool lagging;             /* the peer lacks more than max_lag, and that was reported */
    uint32_t limits[WEFT_JOURNAL_UPDATES]; /* by order: units of its snapshot sent before that update was published */
};

uint32_t weft_peer_index(const weft_peer_table *peers, const weft_peer *peer);
/* Returns how many versions the peer lacks. */
uint64_t weft_peer_lag(const weft_newest *newest, const weft_standing *standing);
bool weft_peer_connected(const weft_peer *peer);
/* Returns true if the peer holds no version known here and takes none. So does a stranger that only says PING, or an
 * engine that warms up. */
bool weft_peer_is_idle(const weft_peer *peer);
/* Returns for how long an idle peer may stay before it gives way to who wants its name or its place; 0: no longer. */
uint64_t weft_peer_stays_ns(const weft_peer *peer);
/* Returns the most slots that the site gives any peer. Slots that a peer grants beyond that are not used. */
uint32_t weft_trainer_slots(const weft_site *site);
/* Returns the bytes of the headers of all buckets that peers and guests can have on their way. */
uint64_t weft_trainer_headers(const weft_site *site);

#endif
