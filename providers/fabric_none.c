/* fabric_none.c - a build without libfabric: every link is refused, so no other slot of a profile's table is reached.
 */
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
#else
typedef int weft_fabric_none_is_absent;
#endif
