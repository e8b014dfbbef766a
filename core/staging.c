#include "staging.h"

#include <string.h>

#include "mem.h"
#include "status.h"

uint64_t weft_staging_largest(const weft_layout *layout)
{
    uint64_t largest = 0;
    for (uint64_t i = 0; i < layout->unit_count; i++) {
        uint64_t need = weft_staging_need(layout->units[i].count, layout->units[i].width);
        largest = need > largest ? need : largest;
    }
    return largest;
}

weft_status weft_staging_open(weft_staging *staging, uint64_t bytes)
{
    memset(staging, 0, sizeof *staging);
    staging->bytes = bytes / 16 * 16;
    staging->memory = weft_mem_map(staging->bytes);
    return staging->memory ? WEFT_OK
                           : weft_fail(WEFT_E_MEMORY, "no memory for staging = %llu bytes; lower it in the site file",
                                       (unsigned long long)bytes);
}

void weft_staging_close(weft_staging *staging)
{
    if (staging->memory)
        weft_mem_unmap(staging->memory, staging->bytes);
    memset(staging, 0, sizeof *staging);
}

void weft_staging_clear(weft_staging *staging)
{
    staging->used = staging->count = 0;
}

weft_changes *weft_staging_at(weft_staging *staging, uint64_t index)
{
    return (weft_changes *)(void *)(staging->memory + staging->bytes) - 1 - index;
}

weft_changes *weft_staging_take(weft_staging *staging, uint32_t unit, uint32_t changed, uint8_t width)
{
    uint64_t taken = staging->used + staging->count * sizeof(weft_changes);
    uint64_t need = weft_staging_need(changed, width), bits = ((uint64_t)changed * width + 7) / 8 * 8;
    if (need > staging->bytes - taken)
        return NULL;
    uint8_t *at = staging->memory + staging->used;
    weft_changes *changes = weft_staging_at(staging, staging->count++);
    *changes = (weft_changes){.unit = unit, .capacity = changed, .after = at, .before = at + bits};
    changes->position = (uint32_t *)(void *)(at + 2 * bits);
    staging->used += need - sizeof(weft_changes);
    return changes;
}
