/* fabric.c - asking libfabric for one candidate, and telling what is here. */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

void weft_fabric_library(char *text, size_t capacity)
{
    uint32_t version = weft_fabric_version();
    if (version)
        snprintf(text, capacity, "libfabric %u.%u", FI_MAJOR(version), FI_MINOR(version));
    else
        snprintf(text, capacity, "no libfabric");
}

int weft_fabric_modes(unsigned registration)
{
    static const struct {
        unsigned bit;
        int mode;
    } modes[] = {{WEFT_MR_LOCAL, FI_MR_LOCAL},
                 {WEFT_MR_VIRTUAL_ADDRESS, FI_MR_VIRT_ADDR},
                 {WEFT_MR_ALLOCATED, FI_MR_ALLOCATED},
                 {WEFT_MR_PROVIDER_KEY, FI_MR_PROV_KEY},
                 {WEFT_MR_ENDPOINT, FI_MR_ENDPOINT}};
    int result = 0;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (registration & modes[i].bit)
            result |= modes[i].mode;
    return result;
}

static uint64_t caps_asked(const weft_profile *profile)
{
    return (profile->caps & WEFT_CAP_WRITE ? FI_RMA | FI_WRITE | FI_REMOTE_WRITE : 0) |
           (profile->caps & WEFT_CAP_MESSAGE ? FI_MSG : 0) | (profile->reach == WEFT_REACH_REMOTE ? FI_REMOTE_COMM : 0);
}

static void fill_hints(struct fi_info *hints, const weft_profile *profile)
{
    hints->caps = caps_asked(profile);
    hints->mode = FI_CONTEXT | FI_CONTEXT2; /* the operations of a port carry the room */
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = weft_fabric_modes(profile->registration);
    hints->domain_attr->threading = FI_THREAD_DOMAIN; /* a link is used by one thread at a time */
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
}

/* Sets the switches of all profiles, because none can be set later. A value that is there already stands, and is an
 * error for a profile that needs another. */
static void set_switches(void)
{
    const weft_profile *profile;
    for (size_t i = 0; (profile = weft_profile_at(i)); i++)
        for (size_t e = 0; e < WEFT_PROFILE_ENVIRONMENT && profile->environment[e].name; e++)
            if (profile->environment[e].duty == WEFT_DUTY_SET)
                setenv(profile->environment[e].name, profile->environment[e].value, 0);
}

void weft_fabric_switches(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_switches);
}

/* A provider that is asked for by name may also answer as a lower layer of another one. Where the source address says
 * which port is meant, the domain may bear another name than in the wide answer (127.0.0.2). */
static bool serves(const struct fi_info *info, const weft_profile *profile, const weft_candidate *candidate)
{
    return strcmp(info->fabric_attr->prov_name, candidate->provider) == 0 &&
           (profile->addressing != WEFT_ADDRESS_DOMAIN || strcmp(info->domain_attr->name, candidate->domain) == 0) &&
           (!(profile->only || profile->never) || strcmp(info->fabric_attr->name, candidate->fabric) == 0) &&
           (profile->protocol != WEFT_PROTOCOL_RXM_THROUGH || info->ep_attr->protocol == FI_PROTO_RXM_TCP);
}

/* The first that serves, alone. */
static struct fi_info *keep_one(struct fi_info *list, const weft_profile *profile, const weft_candidate *candidate)
{
    struct fi_info *kept = NULL;
    while (list) {
        struct fi_info *next = list->next;
        list->next = NULL;
        if (!kept && serves(list, profile, candidate))
            kept = list;
        else
            weft_fabric_call_freeinfo(list);
        list = next;
    }
    return kept;
}

int weft_fabric_getinfo(const weft_profile *profile, const weft_candidate *candidate, const char *node,
                        struct fi_info **info)
{
    struct fi_info *hints = weft_fabric_call_dupinfo(NULL);
    if (!hints)
        return -FI_ENOMEM;
    fill_hints(hints, profile);
    /* fi_freeinfo frees these: lent for the call. */
    char provider[sizeof candidate->provider], domain[sizeof candidate->domain];
    memcpy(provider, candidate->provider, sizeof provider);
    memcpy(domain, candidate->domain, sizeof domain);
    hints->fabric_attr->prov_name = provider;
    hints->domain_attr->name = profile->addressing == WEFT_ADDRESS_DOMAIN ? domain : NULL;
    struct fi_info *all = NULL;
    int error = weft_fabric_call_getinfo(weft_profile_api(profile, weft_fabric_version(), weft_fabric_header()), node,
                                         NULL, node ? FI_SOURCE | FI_NUMERICHOST : 0, hints, &all);
    hints->fabric_attr->prov_name = NULL;
    hints->domain_attr->name = NULL;
    weft_fabric_call_freeinfo(hints);
    if (error)
        return error;
    *info = keep_one(all, profile, candidate);
    return *info ? 0 : -FI_ENODATA;
}

static void describe(const weft_profile *profile, const weft_candidate *candidate, weft_provider_info *entry)
{
    bool domain = profile->addressing == WEFT_ADDRESS_DOMAIN;
    memset(entry, 0, sizeof *entry);
    snprintf(entry->provider, sizeof entry->provider, "%s", profile->name);
    snprintf(entry->fabric, sizeof entry->fabric, "%s", weft_profile_fabric(profile, weft_fabric_version()));
    if (!candidate)
        return;
    snprintf(entry->address, sizeof entry->address, "%s", domain ? candidate->domain : candidate->address);
    uint64_t largest = candidate->message_bytes;
    entry->message_bytes = profile->chunk_bytes < largest ? profile->chunk_bytes : largest;
    entry->usable = 1;
    snprintf(entry->detail, sizeof entry->detail, "%u writes in flight per peer; %s; abort %s", profile->depth,
             profile->completion, profile->abort);
}

static bool listed(const weft_provider_info *list, size_t count, const char *address)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].address, address) == 0)
            return true;
    return false;
}

static size_t absent(const weft_profile *profile, const char *reason, weft_provider_info *list, size_t capacity)
{
    if (!capacity)
        return 1;
    describe(profile, NULL, list);
    snprintf(list->detail, sizeof list->detail, "%.*s", (int)sizeof list->detail - 1, reason);
    return 1;
}

static size_t list_those_that_fit(const weft_review *review, weft_provider_info *list, size_t capacity)
{
    size_t count = 0;
    for (size_t i = 0; i < review->survey.count; i++) {
        weft_provider_info entry;
        if (review->verdicts[i] < WEFT_VERDICT_FITS)
            continue;
        describe(review->survey.profile, &review->candidates[i], &entry);
        if (listed(list, count < capacity ? count : capacity, entry.address))
            continue;
        if (count < capacity)
            list[count] = entry;
        count++;
    }
    return count;
}

/* One line per address; what does not fit `capacity` is counted as if it were distinct. */
size_t weft_fabric_probe(const weft_profile *profile, weft_provider_info *list, size_t capacity)
{
    weft_review review;
    size_t count;
    if (weft_review_open(&review, profile, "", 0) != WEFT_OK)
        count = absent(profile, weft_last_error(), list, capacity);
    else if (review.selection.missing != WEFT_MISSING_NOTHING)
        count = absent(profile, review.selection.text, list, capacity);
    else
        count = list_those_that_fit(&review, list, capacity);
    weft_review_close(&review);
    return count;
}
#else
typedef int weft_fabric_is_absent;
#endif
