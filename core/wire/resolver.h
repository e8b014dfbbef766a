/* resolver.h - a resolver looks up several host names at once, each on a thread of its own. The caller waits as long as
 * it likes, however slow a name server is. */
#ifndef WEFT_CORE_RESOLVER_H
#define WEFT_CORE_RESOLVER_H

#include "site/site.h"
#include "wire/control.h"

#define WEFT_RESOLVER_NAMES (WEFT_SITE_VIAS + 1)

/* The answer for one "host:port". */
typedef struct weft_name {
    weft_status status; /* status as of weft_control_resolve; `text` has the reason unless it is WEFT_OK */
    uint32_t count;     /* addresses; 0 unless the status is WEFT_OK */
    char address[WEFT_CONTROL_ADDRESSES][64];
    char text[192];
} weft_name;

typedef struct weft_resolver weft_resolver;

/* Starts to look up `count` names, at most WEFT_RESOLVER_NAMES. Never blocks. Numeric addresses are known at once, and
 * each name has a thread. NULL: no memory. */
weft_resolver *weft_resolver_ask(const char (*hosts)[WEFT_SITE_TEXT], uint32_t count);
/* True if every answer is known. */
bool weft_resolver_known(const weft_resolver *resolver);
/* Waits until every answer is known, or until a moment after the first address. False: neither by `deadline_ns`. */
bool weft_resolver_wait(const weft_resolver *resolver, uint64_t deadline_ns);
/* Returns one answer: WEFT_E_UNREACHABLE until a server answers. */
const weft_name *weft_resolver_at(const weft_resolver *resolver, uint32_t index);
/* Gives the resolver up, also while lookups run. NULL is allowed. */
void weft_resolver_give(weft_resolver *resolver);

#endif
