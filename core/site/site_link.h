/* site_link.h - what the site says of a provider, as the options of a link, and from which addresses it is sent by. */
#ifndef WEFT_CORE_SITE_LINK_H
#define WEFT_CORE_SITE_LINK_H

#include "port/port_provider.h"
#include "site/site.h"

/* Number of the accelerator that weights lie in, counted from 1; 0: in the host's memory. */
uint32_t weft_site_accelerator(const char *backend, int64_t device);

/* `address` is lent to the options. */
weft_link_options weft_site_link(const weft_site *site, const char *provider, const char *address);

/* The addresses of the trainer's endpoints of a provider, a rail each: the provider's own, else [trainer] address, else
 * the host of [trainer] listen. */
uint32_t weft_site_trainer_rails(const weft_site *site, const char *provider,
                                 char list[WEFT_SITE_RAILS][WEFT_SITE_NAME]);
/* The one address that a relay, which listens at `listen`, sends from by a provider: the first of the provider's own,
 * else the host that it listens at. Returns 1. */
uint32_t weft_site_relay_address(const weft_site *site, const char *provider, const char *listen,
                                 char list[WEFT_SITE_RAILS][WEFT_SITE_NAME]);

/* "[trainer] address = eth0": the key that gives the trainer's addresses for a provider. */
#define WEFT_SITE_LINK_KEY (WEFT_SITE_NAME + WEFT_SITE_TEXT + 64)
void weft_site_trainer_key(const weft_site *site, const char *provider, char text[WEFT_SITE_LINK_KEY]);

/* Whether an address of the trainer's that is none of this host's may become one: where it comes from `listen` alone
 * and is a host's name, it is no interface. */
bool weft_site_trainer_may_come(const weft_site *site, const char *provider);

#endif
