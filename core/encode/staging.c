#include "encode/staging.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

uint64_t weft_staging_largest(const weft_layout *layout)
{
    uint64_t largest = 0;
    for (uint64_t i = 0; i < layout->unit_count; i++) {
        uint64_t need = weft_staging_need(layout->units[i].count, layout->units[i].width);
        largest = need > largest ? need : largest;
    }
    return largest;
}

weft_status weft_staging_open(weft_staging *staging, const weft_backend *backend, weft_backend_state *device,
                              uint64_t bytes, uint64_t lists, const char *source)
{
    void *memory = NULL;
    *staging = (weft_staging){.backend = backend, .device = device, .bytes = bytes / 16 * 16, .most = lists};
    staging->records = weft_mem_map(lists * sizeof *staging->records);
    weft_status status = staging->records ? backend->memory_take(device, staging->bytes, WEFT_MEMORY_LISTS, &memory)
                                          : weft_fail_quiet(WEFT_E_MEMORY, "no memory for its records");
    staging->memory = memory;
    return status == WEFT_OK ? WEFT_OK
                             : weft_fail(status, "no memory for change lists of %llu bytes (%s): %s",
                                         (unsigned long long)bytes, source, weft_last_error());
}

void weft_staging_close(weft_staging *staging)
{
    if (staging->memory)
        staging->backend->memory_give(staging->device, staging->memory, staging->bytes, WEFT_MEMORY_LISTS);
    weft_mem_unmap(staging->records, staging->most * sizeof *staging->records);
    memset(staging, 0, sizeof *staging);
}

void weft_staging_clear(weft_staging *staging)
{
    staging->used = staging->count = 0;
}

weft_changes *weft_staging_at(weft_staging *staging, uint64_t index)
{
    return &staging->records[index];
}

weft_changes *weft_staging_take(weft_staging *staging, uint32_t unit, uint32_t changed, uint8_t width)
{
    uint64_t taken = staging->used + staging->count * sizeof(weft_changes);
    uint64_t need = weft_staging_need(changed, width), bits = ((uint64_t)changed * width + 7) / 8 * 8;
    if (need > staging->bytes - taken || staging->count == staging->most)
        return NULL;
    uint8_t *at = staging->memory + staging->used;
    weft_changes *changes = weft_staging_at(staging, staging->count++);
    *changes = (weft_changes){.unit = unit,
                              .capacity = changed,
                              .position = (uint32_t *)(void *)(at + 2 * bits),
                              .before = at + bits,
                              .after = at};
    staging->used += need - sizeof(weft_changes);
    return changes;
}
