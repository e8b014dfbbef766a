/* way.c - where a rollout may join: through the relays that its site names, at last at the trainer. */
#include <stdio.h>
#include <string.h>

#include "rollout.h"
#include "status.h"

static weft_status add(weft_rollout *rollout, const char *listen, const char *relay, uint32_t place)
{
    char addresses[WEFT_CONTROL_ADDRESSES][64];
    uint32_t count = 0;
    weft_status status = weft_control_resolve(listen, addresses, &count);
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++) {
        weft_way *way = &rollout->ways[rollout->way_count++];
        snprintf(way->address, sizeof way->address, "%s", addresses[i]);
        snprintf(way->relay, sizeof way->relay, "%s", relay);
        way->place = place;
    }
    return status;
}

weft_status weft_way_open(weft_rollout *rollout)
{
    const weft_site *site = rollout->session->site;
    char names[WEFT_SITE_VIAS][WEFT_SITE_NAME];
    uint32_t count = weft_site_via(&rollout->site, names);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++) {
        weft_site_peer relay;
        status = weft_site_resolve(site, names[i], &relay);
        if (status == WEFT_OK)
            status = add(rollout, relay.relay, names[i], i);
    }
    if (status == WEFT_OK && (count == 0 || rollout->site.last_resort == WEFT_LAST_TRAINER))
        status = add(rollout, site->trainer.listen, "", count);
    return status;
}

void weft_way_begin(weft_rollout *rollout)
{
    uint32_t places = rollout->ways[rollout->way_count - 1].place + 1;
    rollout->way = 0;
    while (rollout->ways[rollout->way].place != rollout->faults % places)
        rollout->way++;
    rollout->way_since_ns = 0;
}

bool weft_way_next(weft_rollout *rollout)
{
    rollout->way = (rollout->way + 1) % rollout->way_count;
    rollout->way_since_ns = 0;
    return rollout->way != 0;
}

bool weft_way_again(const weft_rollout *rollout, uint64_t now_ns)
{
    bool relay = rollout->ways[rollout->way].relay[0] != 0;
    return relay && !rollout->was_joined && rollout->faults == 0 &&
           now_ns < rollout->way_since_ns + rollout->site.heartbeat_ms * WEFT_NS_PER_MS;
}

uint64_t weft_way_patience_ms(const weft_rollout *rollout, uint64_t most_ms)
{
    bool relay = rollout->ways[rollout->way].relay[0] != 0;
    return relay && rollout->site.heartbeat_ms < most_ms ? rollout->site.heartbeat_ms : most_ms;
}

void weft_way_name(const weft_rollout *rollout, char name[WEFT_SITE_NAME + 8])
{
    const char *relay = rollout->ways[rollout->way].relay;
    snprintf(name, WEFT_SITE_NAME + 8, relay[0] ? "relay %s" : "the trainer", relay);
}
