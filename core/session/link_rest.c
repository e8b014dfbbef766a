#include "session/link_rest.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"

/* A link that cannot be opened takes a twentieth of the time at most. */
#define REST_TIMES 20u

static weft_link_failure *find(weft_link_rests *rests, const weft_provider *provider, const char *address)
{
    for (uint32_t i = 0; i < WEFT_LINK_RESTS; i++)
        if (rests->list[i].provider == provider && strcmp(rests->list[i].address, address) == 0)
            return &rests->list[i];
    return NULL;
}

weft_status weft_link_rest_open(weft_link_rests *rests, const weft_provider *provider, const weft_link_options *options,
                                weft_link **link)
{
    const uint64_t begun_ns = weft_clock_ns();
    weft_link_failure *failure = find(rests, provider, options->address);
    if (failure && begun_ns < failure->until_ns)
        return weft_fail_quiet(failure->status, "%s", failure->text);
    const weft_status status = provider->link_open(options, link);
    if (status == WEFT_OK)
        return WEFT_OK;
    const uint64_t now_ns = weft_clock_ns();
    if (!failure)
        failure = &rests->list[rests->next++ % WEFT_LINK_RESTS];
    failure->provider = provider;
    failure->until_ns = now_ns + REST_TIMES * (now_ns - begun_ns);
    failure->status = status;
    snprintf(failure->address, sizeof failure->address, "%s", options->address);
    snprintf(failure->text, sizeof failure->text, "%s", weft_last_error());
    return status;
}
