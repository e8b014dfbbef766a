/* outlet.c - opens the trainer's addresses: each when a peer needs it first, and again when one that was away is back.
 * Of several addresses, one that is away is no error as long as another is there. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "peer/peer.h"
#include "site/site_link.h"

/* ---- one of them */

static weft_status open_regions(weft_outlets *outlets, weft_outlet *outlet)
{
    const weft_provider *provider = outlet->provider;
    const weft_arena *arena = outlets->arena;
    const weft_slabs *slabs = &outlets->buffers->slabs;
    weft_status status = provider->region_open(outlet->link, NULL, arena->memory, arena->bytes, false, &outlet->arena);
    if (status == WEFT_OK)
        status = provider->region_open(outlet->link, NULL, slabs->memory, slabs->slab_bytes * slabs->count, false,
                                       &outlet->slabs);
    if (status == WEFT_OK)
        status = provider->region_open(outlet->link, NULL, outlets->buffers->headers, outlets->buffers->headers_bytes,
                                       false, &outlet->headers);
    return status;
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

void weft_outlet_close(weft_outlet *outlet)
{
    shut(outlet);
    memset(outlet, 0, sizeof *outlet);
}

static weft_status open_link(weft_outlets *outlets, weft_outlet *outlet)
{
    const weft_site *site = outlets->session->site;
    weft_link_options options = weft_site_link(site, outlet->provider->name, outlet->address);
    options.only_writes = true;
    options.accelerator = weft_site_accelerator(site->trainer.backend, site->trainer.device);
    char key[WEFT_SITE_LINK_KEY];
    weft_status status = weft_link_rest_open(&outlets->rests, outlet->provider, &options, &outlet->link);
    weft_site_trainer_key(site, outlet->provider->name, key);
    if (status == WEFT_AGAIN && !weft_site_trainer_may_come(site, outlet->provider->name))
        status = WEFT_E_CONFIG;
    if (status == WEFT_E_CONFIG || status == WEFT_AGAIN)
        weft_fail_about("%s", key);
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

uint32_t weft_outlet_rails(const weft_site *site, const char *provider)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    return weft_site_trainer_rails(site, provider, list);
}

/* Finds the record of an address; takes a new one if there is none yet. */
static weft_status find(weft_outlets *outlets, const char *provider, uint32_t rail, weft_outlet **outlet)
{
    const weft_provider *table = weft_provider_find(provider);
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
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
    weft_site_trainer_rails(outlets->session->site, table->name, list);
    unused->provider = table;
    unused->rail = rail;
    snprintf(unused->address, sizeof unused->address, "%s", list[rail]);
    *outlet = unused;
    return WEFT_OK;
}

weft_status weft_outlet_find(weft_outlets *outlets, const char *provider, uint32_t rail, weft_outlet **outlet)
{
    const bool several = weft_outlet_rails(outlets->session->site, provider) > 1;
    weft_status status = find(outlets, provider, rail, outlet);
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
        weft_outlet_close(*outlet);
        *outlet = NULL;
    }
    return status;
}

weft_status weft_outlet_any(weft_outlets *outlets, const char *provider, uint32_t rails, const char *peer,
                            weft_outlet **outlet)
{
    const uint32_t all = weft_outlet_rails(outlets->session->site, provider);
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
