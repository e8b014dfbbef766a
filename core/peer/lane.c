/* lane.c - the trainer's addresses: each is opened when a peer needs it first, and again when one that was away is
 * back. Where there are several, one that is away is no error as long as another is there. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "peer/peer.h"
#include "site/site_link.h"

/* ---- one of them */

static weft_status open_regions(weft_trainer *trainer, weft_lane *lane)
{
    const weft_provider *provider = lane->provider;
    const weft_arena *arena = &trainer->journal.arena;
    const weft_slabs *slabs = &trainer->slabs;
    weft_status status = provider->region_open(lane->link, NULL, arena->memory, arena->bytes, false, &lane->arena);
    if (status == WEFT_OK)
        status = provider->region_open(lane->link, NULL, slabs->memory, slabs->slab_bytes * slabs->count, false,
                                       &lane->slabs);
    if (status == WEFT_OK)
        status =
            provider->region_open(lane->link, NULL, trainer->headers, trainer->headers_bytes, false, &lane->headers);
    return status;
}

static void shut(weft_lane *lane)
{
    weft_region **regions[] = {&lane->headers, &lane->slabs, &lane->arena};
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++) {
        if (*regions[i])
            lane->provider->region_close(*regions[i]);
        *regions[i] = NULL;
    }
    if (lane->link)
        lane->provider->link_close(lane->link);
    lane->link = NULL;
}

void weft_lane_close(weft_lane *lane)
{
    shut(lane);
    memset(lane, 0, sizeof *lane);
}

static weft_status open_link(weft_trainer *trainer, weft_lane *lane)
{
    const weft_site *site = trainer->session->site;
    weft_link_options options = weft_site_link(site, lane->provider->name, lane->address);
    options.only_writes = true;
    options.accelerator = weft_site_accelerator(site->trainer.backend, site->trainer.device);
    char key[WEFT_SITE_LINK_KEY];
    weft_status status = lane->provider->link_open(&options, &lane->link);
    weft_site_trainer_key(site, lane->provider->name, key);
    if (status == WEFT_AGAIN && !weft_site_trainer_may_come(site, lane->provider->name))
        status = WEFT_E_CONFIG;
    if (status == WEFT_E_CONFIG || status == WEFT_AGAIN)
        weft_fail_about("%s", key);
    if (status == WEFT_OK) {
        lane->provider->link_facts(lane->link, &lane->facts);
        status = open_regions(trainer, lane);
    }
    if (status != WEFT_OK)
        shut(lane);
    return status;
}

static bool is_used(const weft_trainer *trainer, const weft_lane *lane)
{
    bool used = false;
    for (uint32_t i = 0; i < trainer->peer_count; i++)
        for (uint32_t at = 0; at < WEFT_PORTS_MAX; at++)
            used = used || (trainer->peers[i].rails[at].port && trainer->peers[i].rails[at].lane == lane);
    return used;
}

static weft_status here(const weft_lane *lane)
{
    return lane->provider->link_here(lane->link);
}

/* Whether ports are to be opened by one of several now. One that was away may be back as another IP. */
static weft_status look(weft_trainer *trainer, weft_lane *lane)
{
    weft_status status = lane->link ? WEFT_OK : open_link(trainer, lane);
    if (status == WEFT_OK)
        status = here(lane);
    if (status == WEFT_OK || !lane->link || is_used(trainer, lane))
        return status;
    shut(lane);
    status = open_link(trainer, lane);
    return status == WEFT_OK ? here(lane) : status;
}

/* Says once what becomes of it. */
static void note(const weft_trainer *trainer, weft_lane *lane, weft_status status)
{
    if (status != WEFT_OK && !lane->away)
        weft_log(WEFT_LOG_WARN, "address %s is away: %s; peers go by the others, it is used again when it is back",
                 lane->address, weft_last_error());
    if (status == WEFT_OK && lane->away)
        weft_log(WEFT_LOG_INFO, "address %s is back", lane->address);
    lane->away = status != WEFT_OK;
    lane->retry_ns = weft_clock_ns() + weft_rail_patience_ns(trainer);
}

/* ---- all */

uint32_t weft_lane_rails(const weft_site *site, const char *provider)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    return weft_site_trainer_rails(site, provider, list);
}

/* Its record, a new one if there is none yet. */
static weft_status find(weft_trainer *trainer, const char *provider, uint32_t rail, weft_lane **lane)
{
    const weft_provider *table = weft_provider_find(provider);
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    weft_lane *unused = NULL;
    *lane = NULL;
    if (!table)
        return weft_fail(WEFT_E_MISSING, "provider %s: this build has none of that name", provider);
    for (uint32_t i = 0; i < trainer->lane_count && !*lane; i++) {
        if (trainer->lanes[i].provider == table && trainer->lanes[i].rail == rail)
            *lane = &trainer->lanes[i];
        if (!unused && !trainer->lanes[i].provider)
            unused = &trainer->lanes[i];
    }
    if (*lane)
        return WEFT_OK;
    if (!unused)
        return weft_fail(WEFT_E_PROVIDER, "provider %s: all %u lanes are in use", provider, trainer->lane_count);
    weft_site_trainer_rails(trainer->session->site, table->name, list);
    unused->provider = table;
    unused->rail = rail;
    snprintf(unused->address, sizeof unused->address, "%s", list[rail]);
    *lane = unused;
    return WEFT_OK;
}

weft_status weft_lane_find(weft_trainer *trainer, const char *provider, uint32_t rail, weft_lane **lane)
{
    const bool several = weft_lane_rails(trainer->session->site, provider) > 1;
    weft_status status = find(trainer, provider, rail, lane);
    if (status != WEFT_OK)
        return status;
    if (several && (*lane)->away && weft_clock_ns() < (*lane)->retry_ns)
        return weft_fail_quiet(WEFT_AGAIN, "provider %s: address %s is away", provider, (*lane)->address);
    if (several) {
        status = look(trainer, *lane);
        note(trainer, *lane, status);
        return status;
    }
    status = (*lane)->link ? WEFT_OK : open_link(trainer, *lane);
    if (status != WEFT_OK) {
        weft_lane_close(*lane);
        *lane = NULL;
    }
    return status;
}

weft_status weft_lane_any(weft_trainer *trainer, const char *provider, uint32_t rails, const char *peer,
                          weft_lane **lane)
{
    const uint32_t all = weft_lane_rails(trainer->session->site, provider);
    weft_status status = WEFT_OK;
    weft_lane *there = NULL, *one;
    *lane = NULL;
    for (uint32_t rail = 0; rail < all && (rail < rails || !there); rail++) {
        weft_status found = weft_lane_find(trainer, provider, rail, &one);
        status = found != WEFT_OK ? found : status;
        if (!one)
            break;
        const bool leads = one->link && (!peer || weft_control_reaches(peer, one->address));
        there = !there && leads && found == WEFT_OK ? one : there;
        *lane = !*lane && leads ? one : *lane;
    }
    *lane = there ? there : *lane;
    if (!*lane && status == WEFT_OK)
        status = weft_fail(WEFT_E_UNREACHABLE, "provider %s: no address of this end leads to %s", provider, peer);
    return *lane ? WEFT_OK : status;
}
