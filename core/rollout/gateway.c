/* gateway.c - where a rollout may join: through the relays that its site names, at last at the trainer. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "rollout/rollout.h"

#define RETRY_NS (50 * WEFT_NS_PER_MS)

/* A relay at the end of a long link greets within this time. */
#define BRIEF_LEAST_MS 500u

uint32_t weft_gateway_hosts(const weft_site *site, const weft_site_peer *peer, uint32_t source,
                            char hosts[WEFT_RESOLVER_NAMES][WEFT_SITE_TEXT])
{
    char relays[WEFT_SITE_VIAS][WEFT_SITE_NAME];
    uint32_t count = weft_site_via(peer, relays);
    weft_site_peer relay;
    memset(hosts, 0, WEFT_RESOLVER_NAMES * sizeof hosts[0]);
    for (uint32_t i = 0; i < count; i++)
        if (weft_site_resolve(site, relays[i], &relay) == WEFT_OK) /* as its rules make sure */
            weft_site_relay_listen(relay.relay, source, hosts[i]);
    if (count == 0 || peer->last_resort == WEFT_LAST_TRAINER)
        memcpy(hosts[count++], peer->listen, sizeof hosts[0]);
    return count;
}

/* Those of the rollout's own end. */
static uint32_t hosts_of(const weft_rollout *rollout, char hosts[WEFT_RESOLVER_NAMES][WEFT_SITE_TEXT])
{
    const uint32_t several = rollout->joining.route.source;
    return weft_gateway_hosts(rollout->session->site, &rollout->site, several ? several - 1 : 0, hosts);
}

static void add(weft_joining *joining, weft_site_peer *site, uint32_t place, const char *address)
{
    char relays[WEFT_SITE_VIAS][WEFT_SITE_NAME];
    weft_gateway *way = &joining->route.gateways[joining->route.count++];
    uint32_t count = weft_site_via(site, relays);
    snprintf(way->address, sizeof way->address, "%.*s", (int)sizeof way->address - 1, address);
    snprintf(way->relay, sizeof way->relay, "%s", place < count ? relays[place] : "");
    way->place = place;
}

/* The addresses of one place: those that it has now; while they are not known, those that it had. */
static void add_place(weft_rollout *rollout, uint32_t place, const weft_name *name, const weft_gateway *before,
                      uint32_t before_count)
{
    uint32_t old = rollout->joining.route.count;
    for (uint32_t i = 0; i < name->count; i++)
        add(&rollout->joining, &rollout->site, place, name->address[i]);
    for (uint32_t i = 0; i < before_count && name->count == 0; i++)
        if (before[i].place == place)
            add(&rollout->joining, &rollout->site, place, before[i].address);
    if (rollout->joining.route.count == old)
        add(&rollout->joining, &rollout->site, place, "");
}

/* The way stays in the place where it is. */
static void take_over(weft_rollout *rollout, const weft_resolver *names, uint32_t count)
{
    weft_gateway before[WEFT_GATEWAYS];
    uint32_t before_count = rollout->joining.route.count,
             place = rollout->joining.route.gateways[rollout->joining.route.at].place;
    memcpy(before, rollout->joining.route.gateways, sizeof before);
    rollout->joining.route.count = rollout->joining.route.at = 0;
    for (uint32_t i = 0; i < count; i++)
        add_place(rollout, i, weft_resolver_at(names, i), before, before_count);
    while (rollout->joining.route.gateways[rollout->joining.route.at].place != place)
        rollout->joining.route.at++;
}

/* WEFT_OK: one at least is known; else `why` not, as the name that may be known later has it. */
static weft_status judge(const weft_resolver *names, uint32_t count, const char **why)
{
    const weft_name *worst = weft_resolver_at(names, 0);
    for (uint32_t i = 0; i < count; i++) {
        const weft_name *name = weft_resolver_at(names, i);
        if (name->count > 0)
            return WEFT_OK;
        if (name->status == WEFT_E_UNREACHABLE)
            worst = name;
    }
    *why = worst->text;
    return worst->status;
}

void weft_gateway_close(weft_route *route)
{
    weft_resolver_give(route->names);
    route->names = NULL;
}

/* `why` stays as it is where only time ran out. What nobody has answered for by then is taken over later. */
static weft_status open_once(weft_rollout *rollout, uint64_t deadline_ns, char why[320])
{
    char hosts[WEFT_RESOLVER_NAMES][WEFT_SITE_TEXT];
    const char *text = "";
    uint32_t count = hosts_of(rollout, hosts);
    rollout->joining.route.names = weft_resolver_ask(hosts, count);
    if (!rollout->joining.route.names)
        return weft_fail(WEFT_E_MEMORY, "no memory to look up host names");
    const bool told = weft_resolver_wait(rollout->joining.route.names, deadline_ns),
               known = weft_resolver_known(rollout->joining.route.names);
    weft_status status = judge(rollout->joining.route.names, count, &text);
    if (status == WEFT_OK)
        take_over(rollout, rollout->joining.route.names, count);
    else if (told || !why[0])
        snprintf(why, 320, "%s", text);
    if (status != WEFT_OK || known)
        weft_gateway_close(&rollout->joining.route);
    return status;
}

/* Said before, since it may take long. */
static void tell_names(const weft_rollout *rollout)
{
    char hosts[WEFT_RESOLVER_NAMES][WEFT_SITE_TEXT], numeric[64];
    uint32_t count = hosts_of(rollout, hosts);
    for (uint32_t i = 0; i < count; i++)
        if (!weft_control_is_numeric(hosts[i], numeric))
            weft_log(WEFT_LOG_INFO, "rollout %s: looking up %s", rollout->site.name, hosts[i]);
}

weft_status weft_gateway_open(weft_rollout *rollout)
{
    char why[320] = "";
    uint64_t patience_ms = rollout->session->site->session.connect_deadline_ms;
    uint64_t deadline_ns = weft_clock_ns() + patience_ms * WEFT_NS_PER_MS;
    tell_names(rollout);
    weft_status status = open_once(rollout, deadline_ns, why);
    while (status == WEFT_E_UNREACHABLE && weft_clock_ns() < deadline_ns) {
        weft_clock_pass(RETRY_NS);
        status = open_once(rollout, deadline_ns, why);
    }
    if (status == WEFT_E_UNREACHABLE)
        return weft_fail_quiet(status, "nobody to join is known within %llu ms (connect_deadline): %s",
                               (unsigned long long)patience_ms, why);
    return status == WEFT_OK || status == WEFT_E_MEMORY ? status : weft_fail(status, "%s", why);
}

/* Where all are numbers, there is nothing to ask. */
void weft_gateway_renew(weft_rollout *rollout)
{
    char hosts[WEFT_RESOLVER_NAMES][WEFT_SITE_TEXT], numeric[64];
    uint32_t count = hosts_of(rollout, hosts), named = 0;
    for (uint32_t i = 0; i < count; i++)
        named += !weft_control_is_numeric(hosts[i], numeric);
    if (named == 0)
        return;
    if (!rollout->joining.route.names)
        rollout->joining.route.names = weft_resolver_ask(hosts, count);
    if (!rollout->joining.route.names)
        return;
    const bool known = weft_resolver_known(rollout->joining.route.names);
    take_over(rollout, rollout->joining.route.names, count);
    if (known)
        weft_gateway_close(&rollout->joining.route);
}

const char *weft_gateway_known(const weft_route *route)
{
    uint32_t way = 0;
    while (way + 1 < route->count && !route->gateways[way].address[0])
        way++;
    return route->gateways[way].address;
}

static bool is_passed_over(const weft_route *route)
{
    return route->gateways[route->at].place + 1 == route->silent;
}

void weft_gateway_begin(weft_route *route, uint32_t faults, bool silent)
{
    const uint32_t places = route->gateways[route->count - 1].place + 1;
    const weft_gateway *last = &route->gateways[route->at];
    uint32_t first = faults % places;
    route->brief = places > 1;
    route->silent = silent && last->relay[0] && places > 1 ? last->place + 1 : 0;
    if (first + 1 == route->silent)
        first = (first + 1) % places;
    route->at = 0;
    while (route->gateways[route->at].place != first)
        route->at++;
    route->since_ns = 0;
}

bool weft_gateway_next(weft_route *route)
{
    do
        route->at = (route->at + 1) % route->count;
    while (route->at != 0 && is_passed_over(route));
    if (route->at == 0) {
        route->silent = 0;
        route->brief = false;
    }
    route->since_ns = 0;
    return route->at != 0;
}

bool weft_gateway_again(const weft_joining *joining, const weft_site_peer *site, uint64_t now_ns)
{
    bool relay = joining->route.gateways[joining->route.at].relay[0] != 0;
    return relay && !joining->was_joined && joining->faults == 0 &&
           now_ns < joining->route.since_ns + site->heartbeat_ms * WEFT_NS_PER_MS;
}

uint64_t weft_gateway_patience_ms(const weft_joining *joining, const weft_site_peer *site, uint64_t most_ms)
{
    const bool relay = joining->route.gateways[joining->route.at].relay[0] != 0;
    const bool brief = joining->route.brief && joining->state != WEFT_JOIN_GREETING;
    const uint64_t eighth_ms = site->heartbeat_ms / 8;
    const uint64_t brief_ms = eighth_ms > BRIEF_LEAST_MS ? eighth_ms : BRIEF_LEAST_MS;
    const uint64_t patience_ms = brief && brief_ms < site->heartbeat_ms ? brief_ms : site->heartbeat_ms;
    return relay && patience_ms < most_ms ? patience_ms : most_ms;
}

const char *weft_gateway_owner(const weft_route *route)
{
    const char *relay = route->gateways[route->at].relay;
    return relay[0] ? relay : WEFT_GUARD_TRAINER;
}

void weft_gateway_trainer(const weft_route *route, char name[WEFT_SITE_NAME + 8])
{
    if (route->source)
        snprintf(name, WEFT_SITE_NAME + 8, "source %u", route->source - 1);
    else
        snprintf(name, WEFT_SITE_NAME + 8, "the trainer");
}

void weft_gateway_name(const weft_route *route, char name[WEFT_SITE_NAME + 8])
{
    const char *relay = route->gateways[route->at].relay;
    if (relay[0])
        snprintf(name, WEFT_SITE_NAME + 8, "relay %s", relay);
    else
        weft_gateway_trainer(route, name);
}
