/* await.h - what is waited for while a session is opened: links, addresses and routes that are not there yet. */
#ifndef WEFT_CORE_AWAIT_H
#define WEFT_CORE_AWAIT_H

#include "site/site.h"

typedef struct weft_await {
    uint64_t patience_ms, deadline_ns;
    char told[320]; /* what was said to be waited for last */
} weft_await;

/* From now on at most the site's connect_deadline. */
weft_await weft_await_begin(const weft_site *site);
/* After an attempt that came to `status`: true if that is WEFT_AGAIN and there is time left. The reason, the last
 * error, was said then, once, and a moment has passed. */
bool weft_await_more(weft_await *await, weft_status status);
/* Ends the attempts: turns WEFT_AGAIN into WEFT_E_UNREACHABLE, quietly. */
weft_status weft_await_end(const weft_await *await, weft_status status);

#endif
