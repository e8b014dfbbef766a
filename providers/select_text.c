/* select_text.c - verdicts and what is missing, in words. */
#include "providers/select.h"

#include <stdio.h>
#include <string.h>

weft_status weft_select_status(weft_missing missing)
{
    if (missing == WEFT_MISSING_NOTHING)
        return WEFT_OK;
    if (missing == WEFT_MISSING_LINK) /* which may come up */
        return WEFT_AGAIN;
    return missing == WEFT_MISSING_ADDRESS ? WEFT_E_CONFIG : WEFT_E_MISSING;
}

const char *weft_verdict_name(weft_verdict verdict)
{
    static const char *const names[] = {
        [WEFT_VERDICT_PROVIDER] = "provider",
        [WEFT_VERDICT_FABRIC] = "fabric",
        [WEFT_VERDICT_PROTOCOL] = "protocol",
        [WEFT_VERDICT_CAPS] = "capabilities",
        [WEFT_VERDICT_REGISTRATION] = "registration",
        [WEFT_VERDICT_IMMEDIATE] = "immediate",
        [WEFT_VERDICT_ADDRESS] = "address",
        [WEFT_VERDICT_DOWN] = "down",
        [WEFT_VERDICT_LINK_LOCAL] = "link_local",
        [WEFT_VERDICT_GID] = "gid",
        [WEFT_VERDICT_FITS] = "fits",
        [WEFT_VERDICT_TAKEN] = "taken",
    };
    return names[verdict];
}

const char *weft_missing_name(weft_missing missing)
{
    static const char *const names[] = {
        [WEFT_MISSING_NOTHING] = "nothing",   [WEFT_MISSING_LIBRARY] = "library",
        [WEFT_MISSING_VERSION] = "version",   [WEFT_MISSING_PROVIDER] = "provider",
        [WEFT_MISSING_DEVICE] = "device",     [WEFT_MISSING_CAPABILITY] = "capability",
        [WEFT_MISSING_ADDRESS] = "address",   [WEFT_MISSING_LINK] = "link",
        [WEFT_MISSING_ROUTABLE] = "routable", [WEFT_MISSING_GID] = "gid",
        [WEFT_MISSING_PINNING] = "pinning",
    };
    return names[missing];
}

static void lacks(const weft_host_survey *survey, const weft_candidate *candidate, char *text, size_t capacity)
{
    unsigned lacking = survey->profile->caps & ~candidate->caps;
    snprintf(text, capacity, "it grants no %s%s%s", lacking & WEFT_CAP_WRITE ? "remote writes" : "",
             lacking == (WEFT_CAP_WRITE | WEFT_CAP_MESSAGE) ? " and no " : "",
             lacking & WEFT_CAP_MESSAGE ? "messages" : "");
}

static void demands(const weft_host_survey *survey, const weft_candidate *candidate, char *text, size_t capacity)
{
    static const struct {
        unsigned bit;
        const char *words;
    } all[] = {{WEFT_MR_PROVIDER_KEY, "it makes the keys itself"},
               {WEFT_MR_ENDPOINT, "it binds regions to endpoints"},
               {WEFT_MR_OTHER, "it wants more of registration than weft offers"}};
    unsigned extra = candidate->registration & ~survey->profile->registration;
    snprintf(text, capacity, "it demands what the profile does not offer");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (extra & all[i].bit) {
            snprintf(text, capacity, "%s", all[i].words);
            return;
        }
}

void weft_verdict_text(const weft_host_survey *survey, size_t index, weft_verdict verdict, char *text, size_t capacity)
{
    const weft_candidate *candidate = &survey->candidates[index];
    switch (verdict) {
    case WEFT_VERDICT_PROVIDER:
        snprintf(text, capacity, "another provider, %s", candidate->provider);
        return;
    case WEFT_VERDICT_FABRIC:
        snprintf(text, capacity, "fabric %s does not talk to the one that is asked for", candidate->fabric);
        return;
    case WEFT_VERDICT_PROTOCOL:
        snprintf(text, capacity,
                 "rxm does not pass through here; it does where FI_OFI_RXM_ENABLE_PASSTHRU=1 was set before this "
                 "process first used libfabric");
        return;
    case WEFT_VERDICT_CAPS:
        lacks(survey, candidate, text, capacity);
        return;
    case WEFT_VERDICT_REGISTRATION:
        demands(survey, candidate, text, capacity);
        return;
    case WEFT_VERDICT_IMMEDIATE:
        snprintf(text, capacity, "its immediates have %u bytes, %u are needed", candidate->immediate_bytes,
                 survey->profile->immediate_bytes);
        return;
    case WEFT_VERDICT_ADDRESS:
        snprintf(text, capacity, "not what address = %s asks for", survey->address);
        return;
    case WEFT_VERDICT_DOWN:
        snprintf(text, capacity, "its link is down; check cable, switch and `rdma link`");
        return;
    case WEFT_VERDICT_LINK_LOCAL:
        snprintf(text, capacity, "address %s is link-local, peers cannot name it; give the interface a routable IP",
                 candidate->address);
        return;
    case WEFT_VERDICT_GID:
        snprintf(text, capacity,
                 "no GID of it is routable; give its interface an IP and check /sys/class/infiniband/%s/ports/1/gids",
                 candidate->domain);
        return;
    case WEFT_VERDICT_FITS:
        snprintf(text, capacity, "would serve too, one before it was taken");
        return;
    case WEFT_VERDICT_TAKEN:
        snprintf(text, capacity, "taken");
        return;
    }
}
