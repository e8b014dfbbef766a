/* fabric_none.c - the profiles' slots in a build without libfabric: every link is refused, so the rest is never
 * reached. */
#ifdef WEFT_NO_FABRIC
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "providers/profile.h"
#include "providers/review.h"

#define REASON "this build has no libfabric"

uint32_t weft_fabric_version(void)
{
    return 0;
}

const char *weft_fabric_absence(void)
{
    return REASON;
}

uint32_t weft_fabric_header(void)
{
    return 0;
}

size_t weft_fabric_candidates(const weft_profile *profile, weft_candidate *list, size_t capacity, bool *known,
                              char *error, size_t error_capacity)
{
    (void)profile;
    (void)list;
    (void)capacity;
    *known = false;
    snprintf(error, error_capacity, REASON);
    return 0;
}

void weft_fabric_library(char *text, size_t capacity)
{
    snprintf(text, capacity, "no libfabric");
}

const void *weft_fabric_anchor(void)
{
    return NULL;
}

size_t weft_fabric_probe(const weft_profile *profile, weft_provider_info *list, size_t capacity)
{
    if (capacity) {
        memset(list, 0, sizeof *list);
        snprintf(list->provider, sizeof list->provider, "%s", profile->name);
        snprintf(list->fabric, sizeof list->fabric, "%s", profile->names[0].fabric);
        snprintf(list->detail, sizeof list->detail, REASON);
    }
    return 1;
}

weft_status weft_fabric_link_open(const weft_profile *profile, const weft_link_options *options, weft_link **link)
{
    (void)options;
    (void)link;
    return weft_fail(WEFT_E_MISSING, "provider %s: " REASON, profile->name);
}

void weft_fabric_link_close(weft_link *link)
{
    (void)link;
}

void weft_fabric_link_facts(const weft_link *link, weft_link_facts *facts)
{
    (void)link;
    memset(facts, 0, sizeof *facts);
}

weft_status weft_fabric_link_here(const weft_link *link)
{
    (void)link;
    return WEFT_E_MISSING;
}

weft_status weft_fabric_region_open(weft_link *link, weft_port *port, void *memory, uint64_t bytes, bool remote,
                                    weft_region **region)
{
    (void)link;
    (void)port;
    (void)memory;
    (void)bytes;
    (void)remote;
    (void)region;
    return WEFT_E_MISSING;
}

void weft_fabric_region_close(weft_region *region)
{
    (void)region;
}

void weft_fabric_region_remote(const weft_region *region, uint64_t *address, uint64_t *key)
{
    (void)region;
    *address = *key = 0;
}

weft_status weft_fabric_port_open(weft_link *link, weft_port **port)
{
    (void)link;
    (void)port;
    return WEFT_E_MISSING;
}

void weft_fabric_port_close(weft_port *port)
{
    (void)port;
}

weft_status weft_fabric_port_address(const weft_port *port, uint8_t *address, uint32_t *length)
{
    (void)port;
    (void)address;
    *length = 0;
    return WEFT_E_MISSING;
}

weft_status weft_fabric_port_connect(weft_port *port, const uint8_t *address, uint32_t length)
{
    (void)port;
    (void)address;
    (void)length;
    return WEFT_E_MISSING;
}

weft_status weft_fabric_write(weft_port *port, const weft_write *write)
{
    (void)port;
    (void)write;
    return WEFT_E_MISSING;
}

size_t weft_fabric_poll(weft_port *port, weft_completion *completions, size_t capacity)
{
    (void)port;
    (void)completions;
    (void)capacity;
    return 0;
}

int weft_fabric_wait_fd(const weft_port *port)
{
    (void)port;
    return -1;
}

weft_status weft_fabric_wait_arm(weft_port *port)
{
    (void)port;
    return WEFT_AGAIN;
}
#else
typedef int weft_fabric_none_is_absent;
#endif
