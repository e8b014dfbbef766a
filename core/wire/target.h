/* target.h - to which hosts a port may connect, where connecting makes this host dial the IP that a HELLO names: nobody
 * is to send this end knocking at hosts that have nothing to do with the peer. */
#ifndef WEFT_CORE_TARGET_H
#define WEFT_CORE_TARGET_H

#include "wire/control.h"

/* Who dials: the site that it goes by, and the addresses of its own rails as the site has them. */
typedef struct weft_target_law {
    const weft_site *site;
    const char *provider;
    char own[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    uint32_t own_count;
} weft_target_law;

/* Whether data for the peer of a HELLO may go to a port's address: to the host that its control connection comes from,
 * to an address that the site lists for it, or for a relay where it is behind one, or into the subnet of an own rail.
 * Errors: WEFT_E_REFUSED, with the key that would allow it. */
weft_status weft_target_check(const weft_target_law *law, const weft_wire_hello *hello, const weft_control *control,
                              const uint8_t *address, uint32_t bytes);

#endif
