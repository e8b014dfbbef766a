/* registry.c - the backends of this build. */
#include <stdio.h>
#include <string.h>

#include "backends/host.h"
#include "status.h"

static const weft_backend *const tables[] = {&weft_backend_host};

/* Backends that weft knows by name and that this build does not hold. */
static const char *const absent[] = {"cuda", "hip"};

static const weft_backend *lent;

#define TABLES (sizeof(tables) / sizeof(tables[0]))
#define ABSENT (sizeof(absent) / sizeof(absent[0]))

const weft_backend *weft_backend_at(size_t index)
{
    return index < TABLES ? tables[index] : NULL;
}

void weft_backend_lend(const weft_backend *backend)
{
    lent = backend;
}

const weft_backend *weft_backend_find(const char *name)
{
    if (lent && strcmp(name, lent->name) == 0)
        return lent;
    if (strcmp(name, "auto") == 0)
        return &weft_backend_host;
    for (size_t i = 0; i < TABLES; i++) {
        if (strcmp(name, tables[i]->name) == 0)
            return tables[i];
    }
    return NULL;
}

static void absent_describe(const char *name, weft_device_info *device)
{
    *device = (weft_device_info){.device = -1};
    snprintf(device->backend, sizeof(device->backend), "%s", name);
    snprintf(device->detail, sizeof(device->detail), "this build has no %s backend", name);
}

weft_status weft_devices(weft_device_info *devices, size_t capacity, size_t *count)
{
    if (!count || (!devices && capacity > 0))
        return weft_fail(WEFT_E_ARGUMENT, "weft_devices: %s is NULL", count ? "devices" : "count");
    size_t found = 0;
    for (size_t i = 0; i < TABLES; i++) {
        size_t room = found < capacity ? capacity - found : 0;
        found += tables[i]->probe(room ? devices + found : NULL, room);
    }
    for (size_t i = 0; i < ABSENT; i++, found++) {
        if (found < capacity)
            absent_describe(absent[i], &devices[found]);
    }
    *count = found;
    return WEFT_OK;
}
