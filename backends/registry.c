/* registry.c - the backends of this build. */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "backends/host/host.h"
#include "base/status.h"

#define TABLE(name, symbol) &weft_backend_##symbol,
static const weft_backend *const tables[] = {WEFT_EACH_BACKEND(TABLE, TABLE)};

static const weft_backend *lent;

#define TABLES (sizeof(tables) / sizeof(tables[0]))

const weft_backend *weft_backend_at(size_t index)
{
    return index < TABLES ? tables[index] : NULL;
}

void weft_backend_lend(const weft_backend *backend)
{
    lent = backend;
}

/* Returns the number of the table with this name; TABLES: there is none. "auto" is the backend that the process uses
 * besides weft, because its weights lie there. */
static size_t index_of(const char *name)
{
    if (strcmp(name, "auto") == 0)
        name = weft_gpu_driver_cuda.in_use() ? "cuda" : weft_gpu_driver_hip.in_use() ? "hip" : "host";
    size_t index = 0;
    while (index < TABLES && strcmp(name, tables[index]->name) != 0)
        index++;
    return index;
}

const weft_backend *weft_backend_find(const char *name)
{
    if (lent && strcmp(name, lent->name) == 0)
        return lent;
    return weft_backend_at(index_of(name));
}

const weft_gpu_driver *weft_gpu_driver_find(const char *name)
{
#define NO_DRIVER(name, symbol) NULL,
#define DRIVER(name, symbol)    &weft_gpu_driver_##symbol,
    static const weft_gpu_driver *const drivers[] = {WEFT_EACH_BACKEND(NO_DRIVER, DRIVER)};
    size_t index = index_of(name);
    return index < TABLES ? drivers[index] : NULL;
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
    *count = found;
    return WEFT_OK;
}
