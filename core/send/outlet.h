/* outlet.h - the fabric addresses of a trainer or a relay, from which data go to all of its receivers. */
#ifndef WEFT_CORE_OUTLET_H
#define WEFT_CORE_OUTLET_H

#include "journal/arena.h"
#include "port/port_provider.h"
#include "session/link_rest.h"
#include "session/session.h"

#define WEFT_OUTLETS (8u * WEFT_SITE_RAILS) /* of one session, at most */

typedef struct weft_buffers weft_buffers;

/* Writes so far. */
typedef struct weft_sent {
    uint64_t writes, bytes, resent_bytes, failures;
} weft_sent;

/* Outlet: a fabric address, with the regions that every receiver on it shares. */
typedef struct weft_outlet {
    const weft_provider *provider; /* NULL: unused */
    uint32_t rail;                 /* place among the session's addresses */
    char address[WEFT_SITE_NAME];
    weft_link *link;   /* NULL: the address could not be opened yet */
    uint32_t ports;    /* open by this address, of all receivers */
    bool away;         /* one of several addresses, and no port is opened by it for now */
    uint64_t retry_ns; /* until then an address that is away stays so without being asked */
    weft_link_facts facts;
    weft_region *arena, *slabs, *headers;
    weft_sent sent; /* to all receivers */
} weft_outlet;

/* Outlets: all of them. An outlet is opened when a receiver needs it first. */
typedef struct weft_outlets {
    weft_session *session;
    const char *relay;       /* where a relay listens, by whose address it sends; NULL: a trainer */
    uint32_t accelerator;    /* as in weft_link_options */
    const weft_arena *arena; /* memory that each outlet registers: the journal's (NULL: there is none), */
    weft_buffers *buffers;   /* and that beside the journal */
    weft_outlet list[WEFT_OUTLETS];
    uint32_t count;
    weft_link_rests rests;
} weft_outlets;

void weft_outlets_close(weft_outlets *outlets);
/* Finds or opens the outlet for a provider. `rail` is its place among the session's addresses. Errors: if *outlet is
 * not NULL, the outlet is one of several and is away, which was reported, and is asked for again later. */
weft_status weft_outlet_find(weft_outlets *outlets, const char *provider, uint32_t rail, weft_outlet **outlet);
/* Finds the first outlet that is there of all the session's addresses for a provider, and else one that could be opened
 * at least. Opens each of the first `rails`. `peer` is where the outlet is to lead to; NULL: anywhere. */
weft_status weft_outlet_any(weft_outlets *outlets, const char *provider, uint32_t rails, const char *peer,
                            weft_outlet **outlet);
/* Lists the session's addresses for a provider. Returns how many there are. */
uint32_t weft_outlet_addresses(const weft_outlets *outlets, const char *provider,
                               char list[WEFT_SITE_RAILS][WEFT_SITE_NAME]);
uint32_t weft_outlet_rails(const weft_outlets *outlets, const char *provider);

/* Adds what was sent by an outlet to the figures of its rail; raises `*count`, of rails. */
void weft_outlet_add(const weft_outlet *outlet, const weft_sent *sent, weft_rail_info infos[WEFT_RAILS_MAX],
                     uint32_t *count);
/* Describes what was sent by all outlets. Returns how many rails there are. */
uint32_t weft_outlets_describe(const weft_outlets *outlets, weft_rail_info infos[WEFT_RAILS_MAX]);

#endif
