/* resolver.h - looks up host names beside everything else: whoever asks waits as long as it likes, a name server as
 * long as that takes, and none of them for another. */
#ifndef WEFT_CORE_RESOLVER_H
#define WEFT_CORE_RESOLVER_H

#include "site/site.h"
#include "wire/control.h"

#define WEFT_RESOLVER_NAMES (WEFT_SITE_VIAS + 1)

/* What one "host:port" came to. */
typedef struct weft_name {
    weft_status status; /* as of weft_control_resolve; of another than WEFT_OK `text` says why */
    uint32_t count;     /* 0 with another status */
    char address[WEFT_CONTROL_ADDRESSES][64];
    char text[192];
} weft_name;

typedef struct weft_resolver weft_resolver;

/* Asks for `count` of at most WEFT_RESOLVER_NAMES at once. Never blocks; numbers are known at once, each name by a
 * thread of its own. NULL: no memory. */
weft_resolver *weft_resolver_ask(const char (*hosts)[WEFT_SITE_TEXT], uint32_t count);
/* Whether all is known. */
bool weft_resolver_known(const weft_resolver *resolver);
/* Waits until then, or a moment longer than until one has an address. False: by `deadline_ns` neither is so. */
bool weft_resolver_wait(const weft_resolver *resolver, uint64_t deadline_ns);
/* What is known of one: WEFT_E_UNREACHABLE until somebody answers. */
const weft_name *weft_resolver_at(const weft_resolver *resolver, uint32_t index);
/* Gives the question up, known or not. NULL is allowed. */
void weft_resolver_give(weft_resolver *resolver);

#endif
