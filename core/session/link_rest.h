/* link_rest.h - opens links, and lets one that failed rest.
 *
 * Whoever says HELLO names a provider, and to ask libfabric for one that cannot serve takes long, under the lock. So
 * the same answer is given again for many times as long as the last one took. */
#ifndef WEFT_CORE_LINK_REST_H
#define WEFT_CORE_LINK_REST_H

#include "port/port_provider.h"
#include "site/site.h"

#define WEFT_LINK_RESTS 8u /* links that failed and are remembered */

typedef struct weft_link_failure {
    const weft_provider *provider; /* NULL: unused */
    char address[WEFT_SITE_TEXT];
    uint64_t until_ns;
    weft_status status;
    char text[320];
} weft_link_failure;

typedef struct weft_link_rests {
    weft_link_failure list[WEFT_LINK_RESTS];
    uint32_t next;
} weft_link_rests;

/* Opens a link. Errors: those of the provider's link_open, now or a moment ago. */
weft_status weft_link_rest_open(weft_link_rests *rests, const weft_provider *provider, const weft_link_options *options,
                                weft_link **link);

#endif
