/* plan.c - what the ends of a site ask of their hosts. */
#include "api/plan.h"

#include "peer/peer.h"
#include "rollout/rollout.h"

uint64_t weft_plan_slots(const weft_site_peer *peer)
{
    return weft_slots_stride(peer->bucket_max ? peer->bucket_max : WEFT_SITE_BUCKET_AUTO) * peer->window;
}

uint64_t weft_plan_trainer(const weft_site *site, uint64_t journal)
{
    return journal + (uint64_t)WEFT_SLABS_MAX * WEFT_SIZE_SLAB_MOST +
           (site->trainer.max_peers + WEFT_GUESTS) * weft_trainer_slots(site) * WEFT_HEADER_STRIDE;
}

bool weft_plan_address(const weft_site *site, const weft_site_peer *peer, uint64_t patience_ms,
                       char address[WEFT_SITE_NAME])
{
    char hosts[WEFT_RESOLVER_NAMES][WEFT_SITE_TEXT];
    uint32_t count = weft_gateway_hosts(site, peer, hosts);
    weft_resolver *names = weft_resolver_ask(hosts, count);
    bool known = names && weft_resolver_wait(names, weft_clock_ns() + patience_ms * WEFT_NS_PER_MS), found = false;
    for (uint32_t i = 0; i < count && known && !found; i++)
        found = weft_resolver_at(names, i)->count > 0 &&
                weft_control_route(weft_resolver_at(names, i)->address[0], address, WEFT_SITE_NAME) == WEFT_OK;
    weft_resolver_give(names);
    return found;
}
