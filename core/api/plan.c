/* plan.c - what the ends of a site ask of their hosts. */
#include "api/plan.h"

#include <stdio.h>
#include <string.h>

#include "peer/peer.h"
#include "rollout/rollout.h"

uint64_t weft_plan_slots(const weft_site_peer *peer)
{
    return weft_slots_stride(peer->bucket_max ? peer->bucket_max : WEFT_SITE_BUCKET_AUTO) * peer->window;
}

uint64_t weft_plan_trainer(const weft_site *site, uint64_t journal)
{
    return journal + (uint64_t)WEFT_SLABS_MAX * WEFT_SIZE_SLAB_MOST + weft_trainer_headers(site);
}

/* Calls `judge` for each address at which the peer may join, until one says true. */
static bool any_gateway(const weft_site *site, const weft_site_peer *peer, uint64_t patience_ms,
                        bool (*judge)(const char *gateway, void *user), void *user)
{
    char hosts[WEFT_RESOLVER_NAMES][WEFT_SITE_TEXT];
    uint32_t count = weft_gateway_hosts(site, peer, 0, hosts);
    weft_resolver *names = weft_resolver_ask(hosts, count);
    bool known = names && weft_resolver_wait(names, weft_clock_ns() + patience_ms * WEFT_NS_PER_MS), found = false;
    for (uint32_t i = 0; i < count && known && !found; i++)
        for (uint32_t at = 0; at < weft_resolver_at(names, i)->count && !found; at++)
            found = judge(weft_resolver_at(names, i)->address[at], user);
    weft_resolver_give(names);
    return found;
}

static bool leads_to(const char *gateway, void *user)
{
    return weft_control_route(gateway, user, WEFT_SITE_NAME) == WEFT_OK;
}

bool weft_plan_address(const weft_site *site, const weft_site_peer *peer, uint64_t patience_ms,
                       char address[WEFT_SITE_NAME])
{
    return any_gateway(site, peer, patience_ms, leads_to, address);
}

/* The addresses of a peer, and the last gateway that none of them reaches. */
typedef struct reach {
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    uint32_t rails;
    char gateway[64];
} reach;

static bool is_reached(const char *gateway, void *user)
{
    reach *of = user;
    snprintf(of->gateway, sizeof of->gateway, "%s", gateway);
    for (uint32_t rail = 0; rail < of->rails; rail++)
        if (weft_control_reaches(gateway, of->list[rail]))
            return true;
    return false;
}

bool weft_plan_stream(const weft_site *site, const weft_site_peer *peer, uint64_t patience_ms, char *why,
                      uint64_t capacity)
{
    reach of = {.gateway = ""};
    char first[WEFT_SITE_NAME];
    of.rails = weft_site_rails(peer->address, of.list);
    if (!any_gateway(site, peer, patience_ms, is_reached, &of)) {
        snprintf(why, capacity, "address = %s is not reached from %s", peer->address, of.gateway);
        return of.gateway[0] != 0; /* else no gateway is known */
    }
    memcpy(first, of.list[0], sizeof first);
    if (!first[0] && !weft_plan_address(site, peer, patience_ms, first))
        return false;
    for (uint32_t rail = 0; rail < of.rails; rail++) {
        const char *address = rail ? of.list[rail] : first;
        if (weft_provider_auto(address, why, capacity) || weft_provider_auto_waits(address))
            return false;
    }
    return true;
}
