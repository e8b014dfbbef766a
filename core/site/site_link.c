/* site_link.c - what the site says of a provider, as the options of a link, and from which addresses it is sent by. */
#include "site/site_link.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "site/site_text.h"

uint32_t weft_site_accelerator(const char *backend, int64_t device)
{
    return strcmp(backend, "host") == 0 ? 0 : device < 0 ? 1 : (uint32_t)device + 1;
}

weft_link_options weft_site_link(const weft_site *site, const char *provider, const char *address)
{
    const weft_site_provider *knobs = weft_site_provider_of(site, provider);
    weft_link_options options = {.address = address};
    if (!knobs)
        return options;
    options.chunk_bytes = knobs->chunk;
    options.depth = (uint32_t)knobs->depth;
    weft_site_ports_split(knobs->ports, &options.port_low, &options.port_high);
    return options;
}

static const char *own_address(const weft_site *site, const char *provider)
{
    const weft_site_provider *knobs = weft_site_provider_of(site, provider);
    return knobs ? knobs->address : "";
}

uint32_t weft_site_trainer_rails(const weft_site *site, const char *provider,
                                 char list[WEFT_SITE_RAILS][WEFT_SITE_NAME])
{
    char host[WEFT_SITE_TEXT];
    uint32_t port;
    const char *own = own_address(site, provider);
    if (own[0])
        return weft_site_rails(own, list);
    if (site->trainer.address[0] || !weft_site_listen_split(site->trainer.listen, host, &port))
        return weft_site_rails(site->trainer.address, list);
    snprintf(list[0], WEFT_SITE_NAME, "%.*s", WEFT_SITE_NAME - 1, host);
    return 1;
}

bool weft_site_trainer_may_come(const weft_site *site, const char *provider)
{
    char host[WEFT_SITE_TEXT];
    uint32_t port;
    struct in6_addr ip;
    if (own_address(site, provider)[0] || site->trainer.address[0])
        return true;
    return weft_site_listen_split(site->trainer.listen, host, &port) &&
           (inet_pton(AF_INET, host, &ip) == 1 || inet_pton(AF_INET6, host, &ip) == 1);
}

uint32_t weft_site_relay_address(const weft_site *site, const char *provider, const char *listen,
                                 char list[WEFT_SITE_RAILS][WEFT_SITE_NAME])
{
    char host[WEFT_SITE_TEXT] = "";
    uint32_t port;
    const char *own = own_address(site, provider);
    if (own[0] && weft_site_rails(own, list))
        return 1;
    weft_site_listen_split(listen, host, &port);
    snprintf(list[0], WEFT_SITE_NAME, "%.*s", WEFT_SITE_NAME - 1, host);
    return 1;
}

void weft_site_trainer_key(const weft_site *site, const char *provider, char text[WEFT_SITE_LINK_KEY])
{
    const char *own = own_address(site, provider), *common = site->trainer.address;
    if (own[0])
        snprintf(text, WEFT_SITE_LINK_KEY, "[provider.%s] address = %s", provider, own);
    else if (common[0])
        snprintf(text, WEFT_SITE_LINK_KEY, "[trainer] address = %s", common);
    else
        snprintf(text, WEFT_SITE_LINK_KEY, "[trainer] listen = %s (no address is set there, nor in [provider.%s])",
                 site->trainer.listen, provider);
}
