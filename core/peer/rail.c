/* rail.c - opens and closes the rails of a peer, and says which of them carry. */
#include "peer/rail.h"

#include <stdio.h>
#include <string.h>

#include "base/descriptors.h"
#include "base/status.h"
#include "peer/peer.h"
#include "site/site_link.h"
#include "wire/target.h"

uint64_t weft_rail_patience_ns(const weft_site *site)
{
    return site->session.io_deadline_ms * WEFT_NS_PER_MS / 4;
}

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

/* Returns true if an outlet is there. If all are away, the peer's is one that could be opened at least, and whether it
 * carries shows later. */
static bool is_there(const weft_rails *rails, const weft_outlet *outlet)
{
    return outlet->link && (!outlet->away || outlet == rails->outlet);
}

weft_status weft_rail_may_reach(const weft_site *site, const weft_outlet *outlet, const weft_control *control,
                                const weft_wire_hello *hello, const uint8_t *address, uint32_t bytes)
{
    weft_target_law law = {.site = site, .provider = outlet->provider->name};
    if (!outlet->facts.dials)
        return WEFT_OK;
    law.own_count = weft_site_trainer_rails(law.site, law.provider, law.own);
    return weft_target_check(&law, hello, control, address, bytes);
}

/* Opens one rail. If either end has no port now, the rail is opened later. */
static weft_status open_rail(weft_peer *peer, uint32_t at, const weft_wire_port *there, weft_wire_port *mine)
{
    weft_rail *rail = &peer->rails.list[at];
    weft_status status = WEFT_OK;
    rail->there = *there;
    if (there->address_bytes > 0)
        status = weft_rail_may_reach(peer->session->site, rail->outlet, &peer->connection.control, &peer->claim.hello,
                                     there->address, there->address_bytes);
    if (status == WEFT_OK && there->address_bytes > 0 && is_there(&peer->rails, rail->outlet))
        status = weft_rail_port_open(rail, mine);
    if (status == WEFT_OK && rail->port)
        status = rail->outlet->provider->port_connect(rail->port, there->address, there->address_bytes);
    if (status != WEFT_OK && peer->rails.used == 1)
        return status;
    if (status == WEFT_OK && rail->port) {
        weft_rail_enter(rail, peer->rails.used == 1 ? WEFT_RAIL_UP : WEFT_RAIL_TRYING);
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

/* Returns true if the peer's port `at` is used, because both ends have it. Its rail must be among the trainer's
 * addresses and among those that the site names for the peer, and its stream among the peer's. The first port is always
 * used. */
static bool is_shared(const weft_peer *peer, uint32_t at)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    const uint32_t there = peer->claim.hello.further_rails + 1, rail = at % there;
    const uint64_t streams = peer->site.streams ? peer->site.streams : 1;
    return at == 0 ||
           (peer->flights.parcels && rail < weft_outlet_rails(peer->session->site, peer->claim.hello.provider) &&
            rail < weft_site_rails(peer->site.address, list) && at / there < streams);
}

/* Finds the outlet of the peer's port `at`. NULL: there is none, as was reported. An outlet that is away is there
 * later. */
static weft_outlet *outlet_of(weft_outlets *outlets, const weft_peer *peer, uint32_t at)
{
    weft_outlet *outlet;
    weft_outlet_find(outlets, peer->claim.hello.provider, at % (peer->claim.hello.further_rails + 1), &outlet);
    return outlet;
}

/* Gives a peer another address if none of its own is there. */
static void take_another(weft_rails *rails)
{
    bool there = false;
    for (uint32_t at = 0; at < rails->count; at++)
        there = there || (rails->list[at].outlet && is_there(rails, rails->list[at].outlet));
    if (!there)
        rails->list[0].outlet = rails->outlet;
}

static void take_lanes(weft_outlets *outlets, weft_peer *peer)
{
    peer->rails.count = peer->claim.hello.further + 1;
    peer->rails.used = 0;
    for (uint32_t at = 0; at < peer->rails.count; at++) {
        weft_rail *rail = &peer->rails.list[at];
        *rail = (weft_rail){.sent_writes = rail->sent_writes,
                            .sent_bytes = rail->sent_bytes,
                            .resent_bytes = rail->resent_bytes,
                            .failures = rail->failures,
                            .cool_ns = weft_rail_patience_ns(outlets->session->site)};
        rail->outlet = is_shared(peer, at) ? outlet_of(outlets, peer, at) : NULL;
    }
    take_another(&peer->rails);
    for (uint32_t at = 0; at < peer->rails.count; at++)
        peer->rails.used += peer->rails.list[at].outlet != NULL;
}

weft_status weft_rail_open(weft_outlets *outlets, weft_peer *peer, weft_wire_welcome *welcome)
{
    uint32_t open = 0;
    weft_status status = WEFT_OK;
    take_lanes(outlets, peer);
    peer->rails.next = 0;
    peer->rails.looked_ns = weft_clock_ns();
    peer->rails.looking = false;
    welcome->further =
        peer->rails.used > 1 ? peer->claim.hello.further : 0; /* which tells the peer that there are several */
    for (uint32_t at = 0; at < peer->rails.count && status == WEFT_OK; at++) {
        const weft_wire_port there = port_of(&peer->claim.hello, at);
        weft_wire_port mine = {.address_bytes = 0};
        if (peer->rails.list[at].outlet)
            status = open_rail(peer, at, &there, &mine);
        open += peer->rails.list[at].port != NULL;
        if (at > 0) {
            welcome->more[at - 1] = mine;
            continue;
        }
        memcpy(welcome->address, mine.address, mine.address_bytes);
        welcome->address_bytes = mine.address_bytes;
    }
    if (status == WEFT_OK && open == 0)
        return weft_fail(WEFT_E_PROVIDER, "%s: none of %u rails can be opened: %s", peer->claim.name, peer->rails.used,
                         weft_last_error());
    return status;
}

void weft_rail_close(weft_rails *rails)
{
    for (uint32_t at = 0; at < WEFT_PORTS_MAX; at++) {
        weft_rail_port_close(&rails->list[at]);
        weft_rail_enter(&rails->list[at], WEFT_RAIL_NONE);
    }
}

/* ---- figures */

static void add_ways(const weft_peer *peer, weft_rail_info rails[WEFT_RAILS_MAX])
{
    for (uint32_t at = 0; at < peer->rails.count; at++) {
        const weft_rail *rail = &peer->rails.list[at];
        if (!rail->outlet || !peer->connection.greeted)
            continue;
        rails[rail->outlet->rail].connections++;
        rails[rail->outlet->rail].up += rail->state == WEFT_RAIL_UP;
    }
}

uint32_t weft_rail_streams(const weft_rails *rails)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < rails->count; at++)
        count += rails->list[at].outlet && is_there(rails, rails->list[at].outlet);
    return count;
}

uint32_t weft_rail_describe(const weft_peer *peer, weft_rail_info rails[WEFT_RAILS_MAX])
{
    uint32_t count = 0;
    memset(rails, 0, WEFT_RAILS_MAX * sizeof rails[0]);
    for (uint32_t at = 0; at < peer->rails.count; at++) {
        const weft_rail *rail = &peer->rails.list[at];
        if (!rail->outlet)
            continue;
        weft_rail_info *info = &rails[rail->outlet->rail];
        snprintf(info->address, sizeof info->address, "%.*s", (int)sizeof info->address - 1, rail->outlet->address);
        info->writes += rail->sent_writes;
        info->bytes += rail->sent_bytes;
        info->resent_bytes += rail->resent_bytes;
        info->failures += rail->failures;
        count = count > rail->outlet->rail ? count : rail->outlet->rail + 1;
    }
    add_ways(peer, rails);
    return count;
}

uint32_t weft_rail_describe_all(const weft_outlets *outlets, const weft_peer_table *peers,
                                weft_rail_info rails[WEFT_RAILS_MAX])
{
    uint32_t count = 0;
    memset(rails, 0, WEFT_RAILS_MAX * sizeof rails[0]);
    for (uint32_t i = 0; i < outlets->count; i++) {
        const weft_outlet *outlet = &outlets->list[i];
        if (!outlet->provider)
            continue;
        weft_rail_info *info = &rails[outlet->rail];
        snprintf(info->address, sizeof info->address, "%.*s", (int)sizeof info->address - 1, outlet->address);
        info->writes += outlet->sent_writes;
        info->bytes += outlet->sent_bytes;
        info->resent_bytes += outlet->resent_bytes;
        info->failures += outlet->failures;
        count = count > outlet->rail ? count : outlet->rail + 1;
    }
    for (uint32_t i = 0; i < peers->count; i++)
        add_ways(&peers->list[i], rails);
    return count;
}
