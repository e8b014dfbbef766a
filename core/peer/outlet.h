/* outlet.h - the trainer's fabric addresses, from which data go to all peers. */
#ifndef WEFT_CORE_OUTLET_H
#define WEFT_CORE_OUTLET_H

#include "journal/arena.h"
#include "peer/peer_state.h"
#include "port/port_provider.h"
#include "session/link_rest.h"
#include "session/session.h"

/* Outlet: a fabric address of the trainer, with the regions that every peer on it shares. */
typedef struct weft_outlet {
    const weft_provider *provider; /* NULL: unused */
    uint32_t rail;                 /* place among the trainer's addresses */
    char address[WEFT_SITE_NAME];
    weft_link *link;   /* NULL: the address could not be opened yet */
    uint32_t ports;    /* open by this address, of all peers */
    bool away;         /* one of several addresses, and no port is opened by it for now */
    uint64_t retry_ns; /* until then an address that is away stays so without being asked */
    weft_link_facts facts;
    weft_region *arena, *slabs, *headers;
    uint64_t sent_writes, sent_bytes, resent_bytes, failures; /* of all peers */
} weft_outlet;

/* Outlets: all of them. The trainer owns them; an outlet is opened when a peer needs it first. */
typedef struct weft_outlets {
    const weft_session *session; /* the trainer's */
    const weft_arena *arena;     /* memory that each outlet registers: the journal's, */
    const weft_buffers *buffers; /* and that beside the journal */
    weft_outlet *list;
    uint32_t count;
    weft_link_rests rests;
} weft_outlets;

void weft_outlet_close(weft_outlet *outlet);
/* Finds or opens the outlet for a provider. `rail` is its place among the trainer's addresses. Errors: if *outlet is
 * not NULL, the outlet is one of several and is away, which was reported, and is asked for again later. */
weft_status weft_outlet_find(weft_outlets *outlets, const char *provider, uint32_t rail, weft_outlet **outlet);
/* Finds the first outlet that is there of all the trainer's addresses for a provider, and else one that could be opened
 * at least. Opens each of the first `rails`. `peer` is where the outlet is to lead to; NULL: anywhere. */
weft_status weft_outlet_any(weft_outlets *outlets, const char *provider, uint32_t rails, const char *peer,
                            weft_outlet **outlet);
/* Returns how many addresses the trainer has for a provider. */
uint32_t weft_outlet_rails(const weft_site *site, const char *provider);

#endif
