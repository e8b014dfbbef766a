/* registry.c - the backends of this build. */
#include <string.h>

#include "backends/cuda.h"
#include "backends/gpu_backend.h"
#include "backends/hip.h"
#include "backends/host.h"
#include "status.h"

static const weft_backend *const tables[] = {&weft_backend_host, &weft_backend_cuda, &weft_backend_hip};

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

/* What the process works with by other means than weft: its weights lie there. */
static const weft_backend *in_use(void)
{
    if (weft_gpu_driver_cuda.in_use())
        return &weft_backend_cuda;
    return weft_gpu_driver_hip.in_use() ? &weft_backend_hip : &weft_backend_host;
}

const weft_backend *weft_backend_find(const char *name)
{
    if (lent && strcmp(name, lent->name) == 0)
        return lent;
    if (strcmp(name, "auto") == 0)
        return in_use();
    for (size_t i = 0; i < TABLES; i++) {
        if (strcmp(name, tables[i]->name) == 0)
            return tables[i];
    }
    return NULL;
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
