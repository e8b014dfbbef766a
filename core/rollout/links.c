/* links.c - the provider that buckets come by, and a link on each of the rollout's addresses.
 *
 * Addresses are checked before a provider is chosen, because data for an address that the other end cannot reach would
 * never come. Where the site names no address, the route to the trainer chooses one. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "rollout/rollout.h"

#define CHOICE_TEXT 768 /* bytes of what is said of a choice */

static const weft_provider *choose_provider(const char *name, const char *address, char text[CHOICE_TEXT])
{
    text[0] = 0;
    return strcmp(name, "auto") == 0 ? weft_provider_auto(address, text, CHOICE_TEXT) : weft_provider_find(name);
}

/* Takes the provider that needs no address, for the reason `why`. Only where the site leaves the choice. */
static weft_status take_stream(weft_rollout *rollout, const char *why)
{
    rollout->intake.provider = weft_provider_find("stream");
    weft_log(WEFT_LOG_INFO, "provider auto: taken stream, by the port that this rollout joins by: %s", why);
    return WEFT_OK;
}

/* Chooses the provider by the first address that tells which one serves. */
static weft_status choose_by_any(weft_rollout *rollout, const char *first)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    const weft_site_peer *site = &rollout->site;
    const uint32_t rails = weft_site_rails(site->address, list);
    const bool automatic = strcmp(site->provider, "auto") == 0;
    bool waits = false;
    char text[CHOICE_TEXT];
    rollout->intake.provider = choose_provider(site->provider, first, text);
    for (uint32_t rail = 1; rail < rails && !rollout->intake.provider; rail++)
        rollout->intake.provider = choose_provider(site->provider, list[rail], text);
    for (uint32_t rail = 0; rail < rails && !rollout->intake.provider && automatic && !waits; rail++)
        waits = weft_provider_auto_waits(rail ? list[rail] : first);
    if (automatic && !rollout->intake.provider && !waits)
        return take_stream(rollout, text);
    if (text[0] && !waits) /* while the rollout waits, the reason is said once */
        weft_log(rollout->intake.provider ? WEFT_LOG_INFO : WEFT_LOG_WARN, "provider auto: %s", text);
    if (rollout->intake.provider || waits)
        return waits ? WEFT_AGAIN : WEFT_OK;
    return weft_fail(WEFT_E_MISSING, "[peer.%s] provider = %s: this build or host has none of that name", site->name,
                     site->provider);
}

weft_status weft_links_reach(const weft_rollout *rollout, uint32_t way)
{
    const weft_site_peer *site = &rollout->site;
    if (weft_provider_is_piped(rollout->intake.provider))
        return WEFT_OK; /* no address of this end is reached */
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    uint32_t rails = weft_site_rails(site->address, list);
    for (uint32_t rail = 0; rail < rails; rail++)
        if (weft_control_reaches(rollout->joining.route.gateways[way].address, list[rail]))
            return WEFT_OK;
    return weft_fail_quiet(WEFT_E_UNREACHABLE, "[peer.%s] address = %s is not reached from %s", site->name,
                           site->address, rollout->joining.route.gateways[way].address);
}

static weft_status check_ways(const weft_rollout *rollout)
{
    for (uint32_t way = 0; way < rollout->joining.route.count; way++)
        if (weft_links_reach(rollout, way) == WEFT_OK)
            return WEFT_OK;
    const bool automatic = strcmp(rollout->site.provider, "auto") == 0; /* then it is no error */
    return (automatic ? weft_fail_quiet : weft_fail)(
        WEFT_E_CONFIG, "[peer.%s] address = %s is not reached from %s; name the interface that leads there, or none",
        rollout->site.name, rollout->site.address,
        rollout->joining.route.gateways[rollout->joining.route.count - 1].address);
}

weft_status weft_links_open(weft_rollout *rollout)
{
    char address[WEFT_SITE_TEXT], list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    weft_site_rails(rollout->site.address, list);
    snprintf(address, sizeof address, "%s", list[0]);
    weft_inlet_close(&rollout->intake, true); /* closes what an earlier attempt opened */
    const weft_provider *named = weft_provider_find(rollout->site.provider);
    rollout->intake.provider = weft_provider_is_piped(named) ? named : NULL;
    weft_status status = check_ways(rollout);
    if (status == WEFT_E_CONFIG && strcmp(rollout->site.provider, "auto") == 0) {
        char why[512];
        snprintf(why, sizeof why, "%s", weft_last_error());
        status = take_stream(rollout, why);
        return status == WEFT_OK ? weft_inlet_links(rollout, list[0]) : status;
    }
    if (status == WEFT_OK && !address[0])
        status = weft_control_route(weft_gateway_known(&rollout->joining.route), address, sizeof address);
    if (status == WEFT_OK)
        status = choose_by_any(rollout, address);
    return status == WEFT_OK ? weft_inlet_links(rollout, address) : status;
}
