/* target.h - a target is the host that a port connects to. Connecting makes this host dial the IP that a HELLO names,
 * so hosts that have nothing to do with the peer are refused. */
#ifndef WEFT_CORE_TARGET_H
#define WEFT_CORE_TARGET_H

#include "wire/control.h"

/* The dialing end: its site, and the addresses of its own rails as the site has them. */
typedef struct weft_target_law {
    const weft_site *site;
    const char *provider;
    char own[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    uint32_t own_count;
} weft_target_law;

/* Checks that data for the peer of a HELLO may go to a port's address. Allowed are the host of its control connection,
 * addresses that the site lists for the peer or for its relay, and the subnets of this end's rails. Errors:
 * WEFT_E_REFUSED, with the key that would allow the address. */
weft_status weft_target_check(const weft_target_law *law, const weft_wire_hello *hello, const weft_control *control,
                              const uint8_t *address, uint32_t bytes);

#endif
