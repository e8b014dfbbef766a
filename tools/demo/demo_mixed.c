#include "tools/demo/demo_mixed.h"

#include <string.h>

#include "tools/demo/demo_files.h"
#include "tools/output.h"

enum { LISTED = 64, KINDS = sizeof((weft_demo_mixed *)0)->kinds / sizeof(weft_demo_kind) };

static bool is_known(const weft_demo_mixed *mixed, const char *backend)
{
    bool known = mixed->count == KINDS;
    for (size_t i = 0; i < mixed->count; i++)
        known = known || strcmp(mixed->kinds[i].backend, backend) == 0;
    return known;
}

static void add(weft_demo_mixed *mixed, const char *backend, const char *kernels)
{
    weft_demo_kind *kind = &mixed->kinds[mixed->count++];
    snprintf(kind->backend, sizeof kind->backend, "%.15s", backend);
    snprintf(kind->kernels, sizeof kind->kernels, "%.15s", kernels);
}

/* The host's line names the set that it takes, and of each other whether that can run. */
static void add_host(weft_demo_mixed *mixed, const char *detail)
{
    static const char *const sets[] = {"avx512", "avx2", "portable"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets && mixed->count < KINDS; i++) {
        char taken[40], can[40];
        snprintf(taken, sizeof taken, "kernels %s;", sets[i]);
        snprintf(can, sizeof can, "; %s can run", sets[i]);
        if (strstr(detail, taken) || strstr(detail, can))
            add(mixed, "host", sets[i]);
    }
    if (mixed->count == mixed->devices)
        add(mixed, "host", "");
}

void weft_demo_mixed_find(weft_demo_mixed *mixed)
{
    weft_device_info found[LISTED];
    const char *host = "";
    size_t count = 0;
    *mixed = (weft_demo_mixed){0};
    if (weft_devices(found, LISTED, &count) != WEFT_OK)
        count = 0;
    for (size_t i = 0; i < count && i < LISTED; i++)
        if (strcmp(found[i].backend, "host") == 0)
            host = found[i].detail;
        else if (found[i].usable && !is_known(mixed, found[i].backend))
            add(mixed, found[i].backend, "");
    mixed->devices = mixed->count;
    add_host(mixed, host);
}

const weft_demo_kind *weft_demo_mixed_at(const weft_demo_mixed *mixed, size_t index)
{
    return &mixed->kinds[index % mixed->count];
}

void weft_demo_mixed_say(const weft_demo_plan *plan)
{
    char text[2048] = "";
    size_t used = 0;
    for (size_t i = 0; i < plan->args->peers && used < sizeof text; i++) {
        char name[32];
        const weft_demo_kind *kind = weft_demo_mixed_at(&plan->mixed, i);
        weft_demo_peer_name(i, name, sizeof name);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s on %s%s%s", i ? ", " : "", name, kind->backend,
                                 *kind->kernels ? "/" : "", kind->kernels);
    }
    weft_output_say("weft: mixed: %s%s", text,
                    plan->mixed.devices ? "" : "; no device is here, so kernel sets of the host stand in for one");
}
