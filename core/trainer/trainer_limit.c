/* trainer_limit.c - checks that this process may open as many descriptors as the site's peers will take. */
#include <string.h>

#include "base/descriptors.h"
#include "base/status.h"
#include "peer/peer.h"
#include "site/site_link.h"

typedef unsigned long long ull;

/* Returns the descriptors that a port of the provider takes: as its open address says, else as the costliest of all. */
static uint32_t port_cost(const weft_outlets *outlets, const char *provider)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < outlets->count; i++) {
        const weft_outlet *outlet = &outlets->list[i];
        if (!outlet->link)
            continue;
        if (strcmp(outlet->provider->name, provider) == 0)
            return outlet->facts.descriptors;
        most = outlet->facts.descriptors > most ? outlet->facts.descriptors : most;
    }
    return most;
}

/* Returns the descriptors of a peer: its control connection, and a port for each rail and stream. */
static uint64_t peer_cost(const weft_outlets *outlets, const weft_site_peer *peer)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    uint64_t there = weft_site_rails(peer->address, list), ports;
    const uint64_t here = weft_outlet_rails(outlets, peer->provider);
    ports = (there < here ? there : here) * (peer->streams ? peer->streams : 1);
    ports = ports < 1 ? 1 : ports > WEFT_PORTS_MAX ? WEFT_PORTS_MAX : ports;
    return 1 + ports * port_cost(outlets, peer->provider);
}

weft_status weft_trainer_limit(const weft_outlets *outlets)
{
    const weft_site *site = outlets->session->site;
    const weft_descriptors_use use = weft_descriptors_now();
    const uint64_t open = use.open > use.kept ? use.open - use.kept : 0, peers = site->trainer.max_peers;
    uint64_t listed = 0, count = 0, most = 0;
    weft_site_peer row;
    bool pattern;
    for (size_t i = 0; weft_site_row(site, i, &row, &pattern); i++) {
        const uint64_t cost = peer_cost(outlets, &row);
        most = cost > most ? cost : most;
        listed += pattern ? 0 : cost;
        count += !pattern;
    }
    const uint64_t all = listed + (peers > count ? peers - count : 0) * most;
    if (open + listed > use.limit)
        return weft_fail(WEFT_E_SYSTEM,
                         "the %llu peers of the site take %llu descriptors, %llu are open, this process may open %llu: "
                         "raise the hard limit (ulimit -Hn, LimitNOFILE= of a service), or list fewer peers, rails or "
                         "streams",
                         (ull)count, (ull)listed, (ull)open, (ull)use.limit);
    if (open + all > use.limit)
        weft_log(
            WEFT_LOG_WARN,
            "[trainer] max_peers = %llu may take %llu descriptors, %llu for each peer, %llu are open, this process "
            "may open %llu: raise the hard limit (ulimit -Hn, LimitNOFILE= of a service) or lower max_peers",
            (ull)peers, (ull)all, (ull)most, (ull)open, (ull)use.limit);
    return WEFT_OK;
}
