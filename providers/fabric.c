/* fabric.c - asking libfabric: versions, names, what is here. */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The version whose rules are asked for: never above the header this was compiled with, nor above 2.0, the newest
 * rules that weft was tried under. */
static uint32_t api_version(void)
{
    return least(fi_version(), least(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(2, 0)));
}

void weft_fabric_library(char *text, size_t capacity)
{
    snprintf(text, capacity, "libfabric %u.%u", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
}

const char *weft_fabric_name(const weft_profile *profile, char *text, size_t capacity)
{
    uint32_t have = fi_version();
    if (have < profile->oldest) {
        snprintf(text, capacity, "libfabric %u.%u is too old, %u.%u or later is needed: %s", FI_MAJOR(have),
                 FI_MINOR(have), profile->oldest >> 16, profile->oldest & 0xffff, profile->oldest_reason);
        return NULL;
    }
    size_t i = 0;
    while (profile->names[i].since > have)
        i++;
    return profile->names[i].fabric;
}

static int registration_modes(unsigned registration)
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

static void fill_hints(struct fi_info *hints, const weft_profile *profile)
{
    hints->caps = FI_RMA | FI_WRITE | FI_REMOTE_WRITE | (profile->message_caps ? FI_MSG : 0);
    hints->mode = FI_CONTEXT | FI_CONTEXT2; /* fabric_port.c's operations carry the room */
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = registration_modes(profile->registration);
    hints->domain_attr->threading = FI_THREAD_DOMAIN; /* a link is used by one thread at a time */
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
}

/* libfabric reads its switches once, in its first call. rxm's pass-through is off by default and only a switch turns it
 * on; a value that is there already stands, and is then an error where a profile needs another. */
static void set_switches(void)
{
    setenv("FI_OFI_RXM_ENABLE_PASSTHRU", "1", 0);
}

/* A provider that is asked for by name may also answer as a lower layer of another one. */
static bool serves(const struct fi_info *info, const weft_profile *profile, const char *fabric)
{
    return strcmp(info->fabric_attr->prov_name, fabric) == 0 &&
           (!profile->pass_through || info->ep_attr->protocol == FI_PROTO_RXM_TCP);
}

static struct fi_info *keep_serving(struct fi_info *list, const weft_profile *profile, const char *fabric)
{
    struct fi_info *kept = NULL;
    struct fi_info **end = &kept;
    while (list) {
        struct fi_info *next = list->next;
        list->next = NULL;
        if (serves(list, profile, fabric)) {
            *end = list;
            end = &list->next;
        } else {
            fi_freeinfo(list);
        }
        list = next;
    }
    return kept;
}

int weft_fabric_getinfo(const weft_profile *profile, const char *fabric, const char *node, const char *domain,
                        struct fi_info **list)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_switches);
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        return -FI_ENOMEM;
    fill_hints(hints, profile);
    /* fi_freeinfo frees these two: lent for the call. */
    char fabric_room[64], domain_room[256];
    snprintf(fabric_room, sizeof fabric_room, "%s", fabric);
    snprintf(domain_room, sizeof domain_room, "%s", domain ? domain : "");
    hints->fabric_attr->prov_name = fabric_room;
    hints->domain_attr->name = domain ? domain_room : NULL;
    struct fi_info *all = NULL;
    int error = fi_getinfo(api_version(), node, NULL, node ? FI_SOURCE | FI_NUMERICHOST : 0, hints, &all);
    hints->fabric_attr->prov_name = NULL;
    hints->domain_attr->name = NULL;
    fi_freeinfo(hints);
    if (error)
        return error;
    *list = keep_serving(all, profile, fabric);
    return *list ? 0 : -FI_ENODATA;
}

static void describe(const weft_profile *profile, const char *fabric, const struct fi_info *info,
                     weft_provider_info *entry)
{
    memset(entry, 0, sizeof *entry);
    snprintf(entry->provider, sizeof entry->provider, "%s", profile->name);
    snprintf(entry->fabric, sizeof entry->fabric, "%s", fabric ? fabric : profile->names[0].fabric);
    if (!info)
        return;
    if (!weft_interface_text(info->src_addr, entry->address) && profile->addressing == WEFT_ADDRESS_DOMAIN)
        snprintf(entry->address, sizeof entry->address, "%s", info->domain_attr->name);
    uint64_t largest = info->ep_attr->max_msg_size;
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

static size_t absent(const weft_profile *profile, const char *fabric, const char *reason, weft_provider_info *list,
                     size_t capacity)
{
    if (!capacity)
        return 1;
    describe(profile, fabric, NULL, list);
    snprintf(list->detail, sizeof list->detail, "%s", reason);
    return 1;
}

/* One line per address; what does not fit `capacity` is counted as if it were distinct. */
size_t weft_fabric_probe(const weft_profile *profile, weft_provider_info *list, size_t capacity)
{
    char reason[sizeof list->detail];
    const char *fabric = weft_fabric_name(profile, reason, sizeof reason);
    if (!fabric)
        return absent(profile, NULL, reason, list, capacity);
    struct fi_info *all = NULL;
    int error = weft_fabric_getinfo(profile, fabric, NULL, NULL, &all);
    if (error) {
        snprintf(reason, sizeof reason, "fi_getinfo: %s; %s", fi_strerror(-error), profile->absent);
        return absent(profile, fabric, reason, list, capacity);
    }
    size_t count = 0;
    for (const struct fi_info *info = all; info; info = info->next) {
        weft_provider_info entry;
        describe(profile, fabric, info, &entry);
        if (!entry.address[0] && profile->addressing == WEFT_ADDRESS_SOURCE)
            continue;
        if (listed(list, count < capacity ? count : capacity, entry.address))
            continue;
        if (count < capacity)
            list[count] = entry;
        count++;
    }
    fi_freeinfo(all);
    return count ? count : absent(profile, fabric, "no interface with a routable address is up", list, capacity);
}
#else
typedef int weft_fabric_is_absent;
#endif
