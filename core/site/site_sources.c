/* site_sources.c - [source.R] sections: the trainers that publish one model together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "site/site_resolve.h"
#include "site/site_text.h"

const char *weft_site_source_listen(const weft_site *site, uint64_t number)
{
    const char *own = number < site->source_count ? site->sources[number].listen : "";
    return own[0] ? own : site->trainer.listen;
}

bool weft_site_relay_listen(const char *relay, uint64_t number, char listen[WEFT_SITE_TEXT])
{
    char host[WEFT_SITE_TEXT];
    uint32_t port;
    snprintf(listen, WEFT_SITE_TEXT, "%s", relay);
    if (!weft_site_listen_split(relay, host, &port) || port + number > UINT16_MAX)
        return false;
    const size_t kept = (size_t)(strrchr(relay, ':') + 1 - relay);
    snprintf(listen + kept, WEFT_SITE_TEXT - kept, "%u", port + (uint32_t)number);
    return true;
}

/* Sources are numbered from 0 without gaps, so that a section that is missing is found at load. */
static weft_status source_fill(weft_site *site, uint32_t index, weft_site_place *place)
{
    const weft_site_section *section = &site->source->sections[index];
    const weft_site_layers layers = {{index, WEFT_SITE_NOWHERE, WEFT_SITE_NOWHERE}};
    const uint64_t number = strtoull(section->name, NULL, 10);
    if (number >= site->source_count)
        return weft_site_refuse(place, "the %llu sources are numbered from 0 without gaps",
                                (unsigned long long)site->source_count);
    weft_site_fill(site->source, &layers, "source", &site->sources[number]);
    memcpy(site->sources[number].name, section->name, sizeof section->name);
    return WEFT_OK;
}

static weft_status check_listen(const weft_site *site, uint64_t number, weft_site_place *place)
{
    const char *listen = weft_site_source_listen(site, number);
    char host[WEFT_SITE_TEXT];
    uint32_t port;
    const bool split = weft_site_listen_split(listen, host, &port);
    const bool any = split && port == 0; /* each then listens at another */
    place->key = "listen";
    place->value = listen;
    for (uint64_t other = 0; other < site->source_count && !any; other++)
        if (other != number && !strcmp(listen, weft_site_source_listen(site, other)))
            return weft_site_refuse(place, "[source.%llu] listens there too", (unsigned long long)other);
    if (site->security != WEFT_SECURITY_LOOPBACK || !split || weft_site_is_loopback(host))
        return WEFT_OK;
    return weft_site_refuse(place, "beyond loopback anyone who reaches the port may join: write [security] mode = tls "
                                   "to ask for proof, mode = open to accept that, or listen on 127.0.0.1");
}

static weft_status fill_all(weft_site *site)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < site->source->section_count && status == WEFT_OK; i++) {
        const weft_site_section *section = &site->source->sections[i];
        weft_site_place place = {.path = site->path, .line = section->line, .header = section->header};
        if (section->kind == WEFT_SECTION_SOURCE)
            status = source_fill(site, i, &place);
    }
    return status;
}

static weft_status check_all(const weft_site *site)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < site->source->section_count && status == WEFT_OK; i++) {
        const weft_site_section *section = &site->source->sections[i];
        weft_site_place place = {.path = site->path, .line = section->line, .header = section->header};
        if (section->kind == WEFT_SECTION_SOURCE)
            status = check_listen(site, strtoull(section->name, NULL, 10), &place);
    }
    return status;
}

weft_status weft_site_fill_sources(weft_site *site)
{
    for (uint64_t i = 0; i < site->source->section_count; i++)
        site->source_count += site->source->sections[i].kind == WEFT_SECTION_SOURCE;
    if (site->source_count > WEFT_SOURCES_MAX)
        return weft_fail(WEFT_E_CONFIG, "%s has %llu sources: at most %u", site->path,
                         (unsigned long long)site->source_count, WEFT_SOURCES_MAX);
    site->sources = weft_mem_take(site->source_count, sizeof *site->sources);
    if (!site->sources)
        return weft_fail(WEFT_E_MEMORY, "no memory for the site's sources");
    const weft_status status = fill_all(site);
    return status == WEFT_OK ? check_all(site) : status;
}
