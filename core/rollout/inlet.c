/* inlet.c - the ports that a rollout's buckets land through, each with the slots registered for it: several on each of
 * the addresses that the site names. The trainer has them closed and opened one by one. */
#include <stdio.h>
#include <string.h>

#include "base/descriptors.h"
#include "base/status.h"
#include "bucket/bucket.h"
#include "rollout/rollout.h"
#include "site/site_link.h"
#include "wire/duct.h"

/* ---- links */

/* Sizes a port's queue for all slots full of the smallest chunks that the trainer may cut, because the caller may make
 * no progress for so long. */
static weft_landing landing_of(const weft_site_peer *site)
{
    const uint64_t paced = weft_pace_chunk(site->rate_limit);
    const uint64_t chunk = paced < WEFT_SPREAD_MIN ? paced : WEFT_SPREAD_MIN, most = chunk * WEFT_CHUNKS_MAX;
    return (weft_landing){.slots = (uint32_t)site->window,
                          .pieces = WEFT_BUCKET_EXTENTS,
                          .bytes = site->bucket_max < most ? site->bucket_max : most,
                          .chunk = chunk};
}

static void address_of(const weft_intake *intake, const weft_site_peer *site, uint32_t rail,
                       char address[WEFT_SITE_NAME])
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    weft_site_rails(site->address, list);
    snprintf(address, WEFT_SITE_NAME, "%s", rail ? list[rail] : intake->address);
}

static weft_status open_link(weft_rollout *rollout, uint32_t rail, weft_link_facts *facts)
{
    char address[WEFT_SITE_NAME];
    address_of(&rollout->intake, &rollout->site, rail, address);
    weft_link_options options = weft_site_link(rollout->session->site, rollout->intake.provider->name, address);
    options.landing = landing_of(&rollout->site);
    options.accelerator = weft_site_accelerator(rollout->site.backend, rollout->site.device);
    weft_status status = rollout->intake.provider->link_open(&options, &rollout->intake.links[rail]);
    if (status == WEFT_OK)
        rollout->intake.provider->link_facts(rollout->intake.links[rail], facts);
    return status;
}

static weft_status open_first(weft_rollout *rollout, uint32_t rail)
{
    weft_link_facts facts;
    char address[WEFT_SITE_NAME];
    weft_status status = open_link(rollout, rail, &facts);
    if (status == WEFT_OK) {
        if (!rollout->intake.facts.fabric)
            rollout->intake.facts = facts;
        if (rollout->intake.facts.chunk_bytes > facts.chunk_bytes)
            rollout->intake.facts.chunk_bytes = facts.chunk_bytes;
    } else if (rollout->intake.link_count > 1) {
        address_of(&rollout->intake, &rollout->site, rail, address);
        weft_log(WEFT_LOG_WARN, "address %s is away: %s; data come by the others, it is used when it is back", address,
                 weft_last_error());
    }
    return status;
}

/* Opens a link that was away. It must take chunks as large as the others, because HELLO names one size for all. */
static weft_status open_late(weft_rollout *rollout, uint32_t rail)
{
    weft_link_facts facts;
    char address[WEFT_SITE_NAME];
    weft_status status = open_link(rollout, rail, &facts);
    if (status != WEFT_OK)
        return status == WEFT_AGAIN ? WEFT_E_PROVIDER : status;
    if (facts.chunk_bytes >= rollout->intake.facts.chunk_bytes) {
        address_of(&rollout->intake, &rollout->site, rail, address);
        weft_log(WEFT_LOG_INFO, "address %s is back", address);
        return WEFT_OK;
    }
    rollout->intake.provider->link_close(rollout->intake.links[rail]);
    rollout->intake.links[rail] = NULL;
    return weft_fail_quiet(WEFT_E_PROVIDER, "it takes smaller chunks than the others");
}

/* Whether a port is open on the link. A relay's ports for its children count, and exist while the relay is joined. */
static bool is_used(const weft_rollout *rollout, uint32_t rail)
{
    bool used = rail == 0 && rollout->relay && rollout->joining.state == WEFT_JOIN_JOINED;
    for (uint32_t at = rail; at < WEFT_PORTS_MAX; at += rollout->intake.link_count)
        used = used || rollout->intake.inlets[at].port;
    return used;
}

/* Opens the link again if its address changed, because an open link does not learn of another IP. */
static weft_status look(weft_rollout *rollout, uint32_t rail)
{
    weft_link **link = &rollout->intake.links[rail];
    if (*link && !is_used(rollout, rail) && rollout->intake.provider->link_here(*link) != WEFT_OK) {
        rollout->intake.provider->link_close(*link);
        *link = NULL;
    }
    return *link ? WEFT_OK : open_late(rollout, rail);
}

weft_status weft_inlet_links(weft_rollout *rollout, const char *first)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    weft_status status = WEFT_OK;
    uint32_t open = 0;
    rollout->intake.facts = (weft_link_facts){0};
    snprintf(rollout->intake.address, sizeof rollout->intake.address, "%.*s", (int)sizeof rollout->intake.address - 1,
             first);
    rollout->intake.link_count = weft_site_rails(rollout->site.address, list);
    for (uint32_t rail = 0; rail < rollout->intake.link_count; rail++) {
        weft_status one = open_first(rollout, rail);
        status = one != WEFT_OK ? one : status;
        open += one == WEFT_OK;
    }
    const bool needs_first = rollout->site.relay[0] != 0; /* by which it serves those behind it */
    return open == 0 || (needs_first && !rollout->intake.links[0]) ? status : WEFT_OK;
}

/* ---- open and close */

static weft_status open_inlet(weft_rollout *rollout, uint32_t at, weft_wire_port *mine)
{
    const weft_provider *provider = rollout->intake.provider;
    const uint32_t rail = at % rollout->intake.link_count;
    weft_inlet *inlet = &rollout->intake.inlets[at];
    weft_status status = look(rollout, rail);
    weft_descriptors_need(rollout->intake.facts.descriptors + 1);
    if (status == WEFT_OK)
        status = provider->port_open(rollout->intake.links[rail], &inlet->port);
    if (status == WEFT_OK)
        status = provider->region_open(rollout->intake.links[rail], inlet->port, rollout->intake.slots.memory,
                                       rollout->intake.slots.bytes, true, &inlet->region);
    if (status == WEFT_OK)
        status = provider->port_address(inlet->port, mine->address, &mine->address_bytes);
    if (status == WEFT_OK)
        provider->region_remote(inlet->region, &mine->region_address, &mine->region_key);
    return status;
}

/* Closes the port first, because closing a registration does not stop a write that is landing. */
static void close_inlet(const weft_intake *intake, weft_inlet *inlet)
{
    if (inlet->port)
        intake->provider->port_close(inlet->port);
    if (inlet->region)
        intake->provider->region_close(inlet->region);
    *inlet = (weft_inlet){.turn = inlet->turn};
}

void weft_inlet_close(weft_intake *intake, bool links)
{
    for (uint32_t at = 0; at < WEFT_PORTS_MAX; at++) {
        close_inlet(intake, &intake->inlets[at]);
        intake->inlets[at].turn = 0;
    }
    intake->inlet_count = 0;
    for (; links && intake->link_count > 0; intake->link_count--)
        if (intake->links[intake->link_count - 1])
            intake->provider->link_close(intake->links[intake->link_count - 1]);
}

weft_status weft_inlet_open(weft_rollout *rollout, weft_wire_hello *hello)
{
    weft_wire_port first = {.address_bytes = 0};
    uint32_t ports = rollout->intake.link_count * (uint32_t)rollout->site.streams, open = 0;
    weft_status status = WEFT_OK;
    for (uint32_t at = 0; at < ports && at < WEFT_PORTS_MAX; at++) {
        weft_wire_port *mine = at ? &hello->more[hello->further++] : &first;
        weft_status one = open_inlet(rollout, at, mine);
        if (one != WEFT_OK) { /* one of several is opened later, when the trainer asks for it */
            status = one;
            close_inlet(&rollout->intake, &rollout->intake.inlets[at]);
            *mine = (weft_wire_port){.address_bytes = 0};
        }
        open += one == WEFT_OK;
    }
    if (open == 0)
        return status;
    rollout->intake.inlet_count = hello->further + 1;
    hello->further_rails = rollout->intake.link_count - 1;
    memcpy(hello->address, first.address, first.address_bytes);
    hello->address_bytes = first.address_bytes;
    hello->region_address = first.region_address;
    hello->region_key = first.region_key;
    return WEFT_OK;
}

uint32_t weft_inlet_used(const weft_intake *intake)
{
    uint32_t used = 0;
    for (uint32_t at = 0; at < intake->inlet_count; at++)
        used += intake->inlets[at].port != NULL;
    return used;
}

/* Whether one is open and has not failed. */
static bool has_well(const weft_intake *intake)
{
    bool well = false;
    for (uint32_t at = 0; at < intake->inlet_count; at++)
        well = well || (intake->inlets[at].port && !intake->inlets[at].failed);
    return well;
}

static weft_status connect_port(const weft_intake *intake, const weft_control *control, weft_port *port,
                                const uint8_t *address, uint32_t bytes)
{
    weft_status status = intake->provider->port_connect(port, address, bytes);
    return status == WEFT_OK ? weft_duct_dial(control, intake->provider, port, address, bytes) : status;
}

weft_status weft_inlet_connect(weft_intake *intake, weft_joining *joining, const weft_wire_welcome *welcome)
{
    weft_status status = WEFT_OK;
    if (welcome->further >= intake->inlet_count)
        return weft_fail(WEFT_E_PROTOCOL, "the trainer's WELCOME names %u ports, this rollout has %u",
                         welcome->further + 1, intake->inlet_count);
    for (uint32_t at = 0; at < intake->inlet_count; at++) {
        weft_inlet *inlet = &intake->inlets[at];
        const uint8_t *address = at ? welcome->more[at - 1].address : welcome->address;
        uint32_t bytes = at ? welcome->more[at - 1].address_bytes : welcome->address_bytes;
        weft_status one = WEFT_OK;
        if (at > welcome->further || bytes == 0 || !inlet->port)
            close_inlet(intake, inlet);
        else
            one = connect_port(intake, &joining->control, inlet->port, address, bytes);
        inlet->failed = one != WEFT_OK; /* the trainer may have closed its own meanwhile */
        status = one != WEFT_OK ? one : status;
    }
    intake->inlet_count = welcome->further + 1;
    if (has_well(intake))
        return status == WEFT_OK ? WEFT_OK : weft_inlet_tell(intake, joining);
    return status != WEFT_OK ? status : weft_fail(WEFT_E_PROTOCOL, "the trainer's WELCOME names no port");
}

uint32_t weft_inlet_rails(const weft_intake *intake, const weft_site_peer *site, weft_rail_info rails[WEFT_RAILS_MAX])
{
    for (uint32_t rail = 0; rail < intake->link_count; rail++) {
        char address[WEFT_SITE_NAME];
        address_of(intake, site, rail, address);
        weft_rail_info *info = &rails[rail];
        *info = (weft_rail_info){.writes = intake->link_writes[rail], .failures = intake->link_failures[rail]};
        snprintf(info->address, sizeof info->address, "%s", address);
        for (uint32_t at = rail; at < intake->inlet_count; at += intake->link_count) {
            info->connections++;
            info->up += intake->inlets[at].port && !intake->inlets[at].failed;
        }
    }
    return intake->link_count;
}

/* ---- one of several */

weft_status weft_inlet_tell(weft_intake *intake, weft_joining *joining)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_landed landed = {.count = intake->inlet_count};
    for (uint32_t at = 0; at < intake->inlet_count; at++) {
        landed.port[at].turn = intake->inlets[at].turn;
        landed.port[at].failed = intake->inlets[at].failed;
        landed.port[at].writes = intake->inlets[at].arrivals;
    }
    weft_wire_put_landed(&out, &landed);
    return weft_rollout_send(joining, WEFT_MESSAGE_LANDED, &out);
}

/* Names the relay, because what is said to be away after that is what the rollout joins through it. */
static weft_status fail_fabric(const weft_route *route, weft_status why)
{
    const char *relay = route->gateways[route->at].relay;
    return weft_fail_quiet(WEFT_E_PEER_LOST, "the fabric reports an error%s%s (%s)", relay[0] ? " at relay " : "",
                           relay, weft_status_name(why));
}

weft_status weft_inlet_fail(weft_intake *intake, weft_joining *joining, weft_inlet *inlet, weft_status why)
{
    inlet->failed = true;
    if (!has_well(intake))
        return fail_fabric(&joining->route, why);
    return weft_inlet_tell(intake, joining);
}

static weft_status find(weft_intake *intake, uint32_t port, const char *message, weft_inlet **inlet)
{
    if (port >= intake->inlet_count)
        return weft_fail(WEFT_E_PROTOCOL, "%s of port %u, this rollout has %u", message, port, intake->inlet_count);
    *inlet = &intake->inlets[port];
    return WEFT_OK;
}

weft_status weft_inlet_shut(weft_intake *intake, weft_joining *joining, const uint8_t *body, uint64_t length)
{
    uint8_t mine[WEFT_MESSAGE_MAX];
    weft_out out = {mine, sizeof mine, 0, false};
    weft_wire_close close;
    weft_inlet *inlet = NULL;
    weft_status status = weft_wire_get_close(body, length, &close);
    if (status == WEFT_OK)
        status = find(intake, close.port, "CLOSE", &inlet);
    if (status == WEFT_OK && inlet->turn != close.turn)
        status = weft_fail(WEFT_E_PROTOCOL, "CLOSE of port %u in turn %u; here it is turn %u", close.port, close.turn,
                           inlet->turn);
    if (status != WEFT_OK)
        return status;
    close_inlet(intake, inlet);
    intake->link_failures[close.port % intake->link_count]++;
    weft_wire_closed closed = {.port = close.port, .turn = close.turn};
    weft_slots_forget(&intake->slots, close.port, closed.whole);
    weft_log(WEFT_LOG_DEBUG, "port %u of the trainer's is closed; %u others", close.port, weft_inlet_used(intake));
    weft_wire_put_closed(&out, &closed);
    return weft_rollout_send(joining, WEFT_MESSAGE_CLOSED, &out);
}

weft_status weft_inlet_reopen(weft_rollout *rollout, const uint8_t *body, uint64_t length)
{
    uint8_t mine[WEFT_MESSAGE_MAX];
    weft_out out = {mine, sizeof mine, 0, false};
    weft_wire_open open, opened = {0};
    weft_inlet *inlet = NULL;
    weft_status status = weft_wire_get_open(body, length, &open);
    if (status == WEFT_OK)
        status = find(&rollout->intake, open.port, "OPEN", &inlet);
    if (status == WEFT_OK && (inlet->port || open.turn != inlet->turn + 1))
        status = weft_fail(WEFT_E_PROTOCOL, "OPEN of port %u in turn %u; it is %s in turn %u", open.port, open.turn,
                           inlet->port ? "open" : "closed", inlet->turn);
    if (status != WEFT_OK)
        return status;
    inlet->turn = opened.turn = open.turn;
    opened.port = open.port;
    status = open_inlet(rollout, open.port, &opened.at);
    if (status == WEFT_OK)
        status = connect_port(&rollout->intake, &rollout->joining.control, inlet->port, open.at.address,
                              open.at.address_bytes);
    if (status != WEFT_OK) {
        close_inlet(&rollout->intake, inlet);
        opened.at = (weft_wire_port){.address_bytes = 0};
    }
    weft_wire_put_opened(&out, &opened);
    return weft_rollout_send(&rollout->joining, WEFT_MESSAGE_OPENED, &out);
}

void weft_inlet_wait(const weft_arriving *arriving, const weft_intake *intake, weft_waits *waits)
{
    for (uint32_t at = 0; at < intake->inlet_count; at++) {
        const weft_inlet *inlet = &intake->inlets[at];
        /* without an update on its way UPDATE comes first, on the control connection; but for what shows that a port
         * carries */
        bool awaited = arriving->queued || (intake->inlet_count > 1 && inlet->arrivals == 0) ||
                       weft_provider_is_piped(intake->provider); /* its connection is made and ends at any time */
        if (inlet->port && !inlet->failed && awaited)
            weft_waits_port(waits, intake->provider, inlet->port);
    }
}
