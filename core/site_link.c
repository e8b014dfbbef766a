/* site_link.c - what the site says of a provider, as the options of a link. */
#include "site_link.h"

#include "site_text.h"

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
