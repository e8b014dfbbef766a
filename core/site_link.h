/* site_link.h - what the site says of a provider, as the options of a link. */
#ifndef WEFT_CORE_SITE_LINK_H
#define WEFT_CORE_SITE_LINK_H

#include "port_provider.h"
#include "site.h"

/* `address` is lent to the options. */
weft_link_options weft_site_link(const weft_site *site, const char *provider, const char *address);

#endif
