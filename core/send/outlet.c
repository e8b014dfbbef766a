/* outlet.c - opens a session's addresses: each when a receiver needs it first, and again when one that was away is
 * back. Of several addresses, one that is away is no error as long as another is there. */
#include "send/outlet.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "send/rail.h"
#include "send/slabs.h"
#include "site/site_link.h"

/* ---- one of them */

static weft_status open_region(const weft_outlet *outlet, uint8_t *memory, uint64_t bytes, weft_region **region)
{
    return memory ? outlet->provider->region_open(outlet->link, NULL, memory, bytes, false, region) : WEFT_OK;
}

static weft_status open_regions(weft_outlets *outlets, weft_outlet *outlet)
{
    const weft_arena *arena = outlets->arena;
    const weft_buffers *buffers = outlets->buffers;
    weft_status status = arena ? open_region(outlet, arena->memory, arena->bytes, &outlet->arena) : WEFT_OK;
    if (status == WEFT_OK)
        status = open_region(outlet, buffers->slabs.memory, buffers->slabs.slab_bytes * buffers->slabs.count,
                             &outlet->slabs);
    return status == WEFT_OK ? open_region(outlet, buffers->headers, buffers->headers_bytes, &outlet->headers) : status;
}

static void shut(weft_outlet *outlet)
{
    weft_region **regions[] = {&outlet->headers, &outlet->slabs, &outlet->arena};
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++) {
        if (*regions[i])
            outlet->provider->region_close(*regions[i]);
        *regions[i] = NULL;
    }
    if (outlet->link)
        outlet->provider->link_close(outlet->link);
    outlet->link = NULL;
}

/* Closes an outlet, and makes its record unused. */
static void close_outlet(weft_outlet *outlet)
{
    shut(outlet);
    memset(outlet, 0, sizeof *outlet);
}

/* Names the key of an address that is none of this host's. A trainer waits for one that may come. */
static weft_status blame(const weft_site *site, const char *provider, weft_status status)
{
    char key[WEFT_SITE_LINK_KEY];
    weft_site_trainer_key(site, provider, key);
    if (status == WEFT_AGAIN && !weft_site_trainer_may_come(site, provider))
        status = WEFT_E_CONFIG;
    if (status == WEFT_E_CONFIG || status == WEFT_AGAIN)
        weft_fail_about("%s", key);
    return status;
}

static weft_status open_link(weft_outlets *outlets, weft_outlet *outlet)
{
    const weft_site *site = outlets->session->site;
    weft_link_options options = weft_site_link(site, outlet->provider->name, outlet->address);
    options.only_writes = true;
    options.accelerator = outlets->accelerator;
    weft_status status = weft_link_rest_open(&outlets->rests, outlet->provider, &options, &outlet->link);
    if (status != WEFT_OK && !outlets->relay)
        status = blame(site, outlet->provider->name, status);
    if (status == WEFT_OK) {
        outlet->provider->link_facts(outlet->link, &outlet->facts);
        status = open_regions(outlets, outlet);
    }
    if (status != WEFT_OK)
        shut(outlet);
    return status;
}

static weft_status here(const weft_outlet *outlet)
{
    return outlet->provider->link_here(outlet->link);
}

/* Looks whether ports can be opened now by one of several addresses. An address that was away may be back as another
 * IP. */
static weft_status look(weft_outlets *outlets, weft_outlet *outlet)
{
    weft_status status = outlet->link ? WEFT_OK : open_link(outlets, outlet);
    if (status == WEFT_OK)
        status = here(outlet);
    if (status == WEFT_OK || !outlet->link || outlet->ports > 0)
        return status;
    shut(outlet);
    status = open_link(outlets, outlet);
    return status == WEFT_OK ? here(outlet) : status;
}

/* Logs once that an address is away, and once that it is back. */
static void note(weft_outlets *outlets, weft_outlet *outlet, weft_status status)
{
    if (status != WEFT_OK && !outlet->away)
        weft_log(WEFT_LOG_WARN, "address %s is away: %s; peers go by the others, it is used again when it is back",
                 outlet->address, weft_last_error());
    if (status == WEFT_OK && outlet->away)
        weft_log(WEFT_LOG_INFO, "address %s is back", outlet->address);
    outlet->away = status != WEFT_OK;
    outlet->retry_ns = weft_clock_ns() + weft_rail_patience_ns(outlets->session->site);
}

/* ---- all */

uint32_t weft_outlet_addresses(const weft_outlets *outlets, const char *provider,
                               char list[WEFT_SITE_RAILS][WEFT_SITE_NAME])
{
    const weft_site *site = outlets->session->site;
    return outlets->relay ? weft_site_relay_address(site, provider, outlets->relay, list)
                          : weft_site_trainer_rails(site, provider, list);
}

uint32_t weft_outlet_rails(const weft_outlets *outlets, const char *provider)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    return weft_outlet_addresses(outlets, provider, list);
}

/* Finds the record of an address; takes a new one if there is none yet. */
static weft_status find(weft_outlets *outlets, const char *provider, uint32_t rail, const char *address,
                        weft_outlet **outlet)
{
    const weft_provider *table = weft_provider_find(provider);
    weft_outlet *unused = NULL;
    *outlet = NULL;
    if (!table)
        return weft_fail(WEFT_E_MISSING, "provider %s: this build has none of that name", provider);
    for (uint32_t i = 0; i < outlets->count && !*outlet; i++) {
        if (outlets->list[i].provider == table && outlets->list[i].rail == rail)
            *outlet = &outlets->list[i];
        if (!unused && !outlets->list[i].provider)
            unused = &outlets->list[i];
    }
    if (*outlet)
        return WEFT_OK;
    if (!unused)
        return weft_fail(WEFT_E_PROVIDER, "provider %s: all %u outlets are in use", provider, outlets->count);
    unused->provider = table;
    unused->rail = rail;
    snprintf(unused->address, sizeof unused->address, "%s", address);
    *outlet = unused;
    return WEFT_OK;
}

weft_status weft_outlet_find(weft_outlets *outlets, const char *provider, uint32_t rail, weft_outlet **outlet)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    const bool several = weft_outlet_addresses(outlets, provider, list) > 1;
    weft_status status = find(outlets, provider, rail, list[rail], outlet);
    if (status != WEFT_OK)
        return status;
    if (several && (*outlet)->away && weft_clock_ns() < (*outlet)->retry_ns)
        return weft_fail_quiet(WEFT_AGAIN, "provider %s: address %s is away", provider, (*outlet)->address);
    if (several) {
        status = look(outlets, *outlet);
        note(outlets, *outlet, status);
        return status;
    }
    status = (*outlet)->link ? WEFT_OK : open_link(outlets, *outlet);
    if (status != WEFT_OK) {
        close_outlet(*outlet);
        *outlet = NULL;
    }
    return status;
}

weft_status weft_outlet_any(weft_outlets *outlets, const char *provider, uint32_t rails, const char *peer,
                            weft_outlet **outlet)
{
    const uint32_t all = weft_outlet_rails(outlets, provider);
    weft_status status = WEFT_OK;
    weft_outlet *there = NULL, *one;
    *outlet = NULL;
    for (uint32_t rail = 0; rail < all && (rail < rails || !there); rail++) {
        weft_status found = weft_outlet_find(outlets, provider, rail, &one);
        status = found != WEFT_OK ? found : status;
        if (!one)
            break;
        const bool leads =
            one->link && (!peer || weft_provider_is_piped(one->provider) || weft_control_reaches(peer, one->address));
        there = !there && leads && found == WEFT_OK ? one : there;
        *outlet = !*outlet && leads ? one : *outlet;
    }
    *outlet = there ? there : *outlet;
    if (!*outlet && status == WEFT_OK)
        status = weft_fail(WEFT_E_UNREACHABLE, "provider %s: no address of this end leads to %s", provider, peer);
    return *outlet ? WEFT_OK : status;
}

void weft_outlets_close(weft_outlets *outlets)
{
    for (uint32_t i = 0; i < outlets->count; i++)
        if (outlets->list[i].provider)
            close_outlet(&outlets->list[i]);
}

/* ---- figures */

void weft_outlet_add(const weft_outlet *outlet, const weft_sent *sent, weft_rail_info infos[WEFT_RAILS_MAX],
                     uint32_t *count)
{
    weft_rail_info *info = &infos[outlet->rail];
    snprintf(info->address, sizeof info->address, "%.*s", (int)sizeof info->address - 1, outlet->address);
    info->writes += sent->writes;
    info->bytes += sent->bytes;
    info->resent_bytes += sent->resent_bytes;
    info->failures += sent->failures;
    *count = *count > outlet->rail ? *count : outlet->rail + 1;
}

uint32_t weft_outlets_describe(const weft_outlets *outlets, weft_rail_info infos[WEFT_RAILS_MAX])
{
    uint32_t count = 0;
    memset(infos, 0, WEFT_RAILS_MAX * sizeof infos[0]);
    for (uint32_t i = 0; i < outlets->count; i++)
        if (outlets->list[i].provider)
            weft_outlet_add(&outlets->list[i], &outlets->list[i].sent, infos, &count);
    return count;
}
