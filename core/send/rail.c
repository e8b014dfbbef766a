/* rail.c - opens and closes the rails of a receiver, and says which of them carry. */

#include <string.h>

#include "base/descriptors.h"
#include "base/status.h"
#include "send/send.h"
#include "wire/duct.h"
#include "wire/target.h"

void weft_rail_enter(weft_rail *rail, weft_rail_state state)
{
    rail->state = state;
    rail->since_ns = weft_clock_ns();
}

bool weft_rail_carries(const weft_rails *rails)
{
    bool up = false;
    for (uint32_t at = 0; at < rails->count; at++)
        up = up || rails->list[at].state == WEFT_RAIL_UP;
    return up;
}

bool weft_rail_writes(const weft_rails *rails)
{
    bool writes = false;
    for (uint32_t at = 0; at < rails->count; at++)
        writes = writes || (rails->list[at].port && rails->list[at].writes > 0);
    return writes;
}

void weft_rail_cool(weft_rail *rail)
{
    weft_rail_enter(rail, WEFT_RAIL_COOLING);
    rail->retry_ns = rail->since_ns + rail->cool_ns;
}

/* ---- all of them */

void weft_rail_port_close(weft_rail *rail)
{
    if (rail->port) {
        rail->outlet->provider->port_close(rail->port);
        rail->outlet->ports--;
    }
    rail->port = NULL;
    rail->writes = 0;
    rail->posted = rail->landed = rail->unlanded = rail->window_ns = 0;
    rail->refused_ns = rail->asked_ns = 0;
    rail->rate_bytes_s = 0;
    rail->probed = false;
}

weft_status weft_rail_port_open(weft_rail *rail, weft_wire_port *mine)
{
    const weft_provider *provider = rail->outlet->provider;
    weft_descriptors_need(rail->outlet->facts.descriptors + 1); /* and one descriptor to look through those */
    weft_status status = provider->port_open(rail->outlet->link, &rail->port);
    rail->outlet->ports += rail->port != NULL;
    if (status == WEFT_OK)
        status = provider->port_address(rail->port, mine->address, &mine->address_bytes);
    if (status != WEFT_OK)
        weft_rail_port_close(rail);
    return status;
}

/* Returns true if an outlet is there. If all are away, the receiver's is one that could be opened at least, and whether
 * it carries shows later. */
static bool is_there(const weft_rails *rails, const weft_outlet *outlet)
{
    return outlet->link && (!outlet->away || outlet == rails->outlet);
}

weft_status weft_rail_may_reach(const weft_outlets *outlets, const weft_outlet *outlet, const weft_control *control,
                                const weft_wire_hello *hello, const uint8_t *address, uint32_t bytes)
{
    weft_target_law law = {.site = outlets->session->site, .provider = outlet->provider->name};
    if (!outlet->facts.dials)
        return WEFT_OK;
    law.own_count = weft_outlet_addresses(outlets, law.provider, law.own);
    return weft_target_check(&law, hello, control, address, bytes);
}

/* Opens one rail. If either end has no port now, the rail is opened later. */
static weft_status open_rail(weft_sender *sender, uint32_t at, const weft_wire_port *there, weft_wire_port *mine)
{
    weft_rail *rail = &sender->rails.list[at];
    weft_status status = WEFT_OK;
    rail->there = *there;
    if (there->address_bytes > 0)
        status = weft_rail_may_reach(sender->outlets, rail->outlet, sender->control, sender->hello, there->address,
                                     there->address_bytes);
    if (status == WEFT_OK && there->address_bytes > 0 && is_there(&sender->rails, rail->outlet))
        status = weft_rail_port_open(rail, mine);
    if (status == WEFT_OK && rail->port)
        status = rail->outlet->provider->port_connect(rail->port, there->address, there->address_bytes);
    if (status != WEFT_OK && sender->rails.used == 1)
        return status;
    if (status == WEFT_OK && rail->port) {
        weft_rail_enter(rail, sender->rails.used == 1 ? WEFT_RAIL_UP : WEFT_RAIL_TRYING);
        return WEFT_OK;
    }
    weft_rail_port_close(rail);
    mine->address_bytes = 0;
    weft_rail_cool(rail);
    return WEFT_OK;
}

static weft_wire_port port_of(const weft_wire_hello *hello, uint32_t at)
{
    if (at > 0)
        return hello->more[at - 1];
    weft_wire_port first = {.address_bytes = hello->address_bytes,
                            .region_address = hello->region_address,
                            .region_key = hello->region_key};
    memcpy(first.address, hello->address, hello->address_bytes);
    return first;
}

/* Returns true if the receiver's port `at` is used, because both ends have it. Its rail must be among the trainer's
 * addresses and among those that the site names for the receiver, and its stream among the receiver's. The first port
 * is always used. */
static bool is_shared(const weft_sender *sender, uint32_t at)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    const uint32_t there = sender->hello->further_rails + 1, rail = at % there;
    const uint64_t streams = sender->site->streams ? sender->site->streams : 1;
    return at == 0 || (sender->flights.parcels && rail < weft_outlet_rails(sender->outlets, sender->hello->provider) &&
                       rail < weft_site_rails(sender->site->address, list) && at / there < streams);
}

/* Finds the outlet of the receiver's port `at`. NULL: there is none, as was reported. An outlet that is away is there
 * later. */
static weft_outlet *outlet_of(const weft_sender *sender, uint32_t at)
{
    weft_outlet *outlet;
    weft_outlet_find(sender->outlets, sender->hello->provider, at % (sender->hello->further_rails + 1), &outlet);
    return outlet;
}

/* Gives a receiver another address if none of its own is there. */
static void take_another(weft_rails *rails)
{
    bool there = false;
    for (uint32_t at = 0; at < rails->count; at++)
        there = there || (rails->list[at].outlet && is_there(rails, rails->list[at].outlet));
    if (!there)
        rails->list[0].outlet = rails->outlet;
}

/* Chooses the bytes of a chunk, after it is known how many rails there are. */
static void choose_chunk(weft_sender *sender)
{
    uint64_t chunk = sender->hello->chunk_bytes, paced = weft_pace_chunk(sender->site->rate_limit);
    for (uint32_t at = 0; at < sender->rails.count; at++) {
        const weft_outlet *outlet = sender->rails.list[at].outlet;
        if (outlet && outlet->link && chunk > outlet->facts.chunk_bytes)
            chunk = outlet->facts.chunk_bytes;
    }
    if (sender->rails.used > 1 && chunk > WEFT_SPREAD_MIN) { /* because one bucket is to go over all rails */
        chunk = chunk / sender->rails.used / 64 * 64;
        chunk = chunk > WEFT_SPREAD_MIN ? chunk : WEFT_SPREAD_MIN;
    }
    sender->posting.chunk_bytes = (uint32_t)(chunk < paced ? chunk : paced);
}

void weft_rail_choose(weft_sender *sender)
{
    sender->rails.count = sender->hello->further + 1;
    sender->rails.used = 0;
    for (uint32_t at = 0; at < sender->rails.count; at++) {
        weft_rail *rail = &sender->rails.list[at];
        *rail = (weft_rail){.sent = rail->sent, .cool_ns = weft_rail_patience_ns(sender->session->site)};
        rail->outlet = is_shared(sender, at) ? outlet_of(sender, at) : NULL;
    }
    take_another(&sender->rails);
    for (uint32_t at = 0; at < sender->rails.count; at++)
        sender->rails.used += sender->rails.list[at].outlet != NULL;
    choose_chunk(sender);
}

weft_status weft_rail_open(weft_sender *sender, weft_wire_welcome *welcome)
{
    uint32_t open = 0;
    weft_status status = WEFT_OK;
    weft_rail_choose(sender);
    sender->rails.next = 0;
    sender->rails.looked_ns = weft_clock_ns();
    sender->rails.looking = false;
    welcome->further =
        sender->rails.used > 1 ? sender->hello->further : 0; /* which tells the receiver that there are several */
    for (uint32_t at = 0; at < sender->rails.count && status == WEFT_OK; at++) {
        const weft_wire_port there = port_of(sender->hello, at);
        weft_wire_port mine = {.address_bytes = 0};
        if (sender->rails.list[at].outlet)
            status = open_rail(sender, at, &there, &mine);
        open += sender->rails.list[at].port != NULL;
        if (at > 0) {
            welcome->more[at - 1] = mine;
            continue;
        }
        memcpy(welcome->address, mine.address, mine.address_bytes);
        welcome->address_bytes = mine.address_bytes;
    }
    if (status == WEFT_OK && open == 0)
        return weft_fail(WEFT_E_PROVIDER, "%s: none of %u rails can be opened: %s", sender->hello->name,
                         sender->rails.used, weft_last_error());
    return status;
}

void weft_rail_close(weft_rails *rails)
{
    for (uint32_t at = 0; at < WEFT_PORTS_MAX; at++) {
        weft_rail_port_close(&rails->list[at]);
        weft_rail_enter(&rails->list[at], WEFT_RAIL_NONE);
    }
}

const weft_rail *weft_rail_of_duct(const weft_rails *rails, const weft_wire_duct *duct)
{
    for (uint32_t at = 0; at < rails->count; at++) {
        const weft_rail *rail = &rails->list[at];
        if (rail->port && weft_duct_leads(duct, rail->outlet->provider, rail->port))
            return rail;
    }
    return NULL;
}

/* ---- figures */

void weft_rail_count(const weft_rails *rails, weft_rail_info infos[WEFT_RAILS_MAX])
{
    for (uint32_t at = 0; at < rails->count; at++) {
        const weft_rail *rail = &rails->list[at];
        if (!rail->outlet || rail->state == WEFT_RAIL_NONE)
            continue;
        infos[rail->outlet->rail].connections++;
        infos[rail->outlet->rail].up += rail->state == WEFT_RAIL_UP;
    }
}

uint32_t weft_rail_streams(const weft_rails *rails)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < rails->count; at++)
        count += rails->list[at].outlet && is_there(rails, rails->list[at].outlet);
    return count;
}

uint32_t weft_rail_describe(const weft_rails *rails, weft_rail_info infos[WEFT_RAILS_MAX])
{
    uint32_t count = 0;
    memset(infos, 0, WEFT_RAILS_MAX * sizeof infos[0]);
    for (uint32_t at = 0; at < rails->count; at++)
        if (rails->list[at].outlet)
            weft_outlet_add(rails->list[at].outlet, &rails->list[at].sent, infos, &count);
    weft_rail_count(rails, infos);
    return count;
}
