#include "update/update_keep.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "update/update_work.h"

static const uint8_t *kept_find(const weft_update_keep *keep, uint64_t offset, uint64_t bytes)
{
    for (uint32_t i = 0; i < keep->count; i++) {
        const weft_kept_range *range = &keep->range[i];
        if (offset >= range->offset && offset - range->offset <= range->bytes &&
            bytes <= range->bytes - (offset - range->offset))
            return keep->memory + range->at + (offset - range->offset);
    }
    return NULL;
}

static void kept_add(weft_update_keep *keep, uint64_t offset, const void *data, uint64_t bytes)
{
    weft_kept_range *last = keep->count > 0 ? &keep->range[keep->count - 1] : NULL;
    const bool follows = last && last->offset + last->bytes == offset;
    if (bytes > keep->capacity - keep->used || (!follows && keep->count == WEFT_EXCERPT_RANGES))
        return;
    if (!follows)
        keep->range[keep->count++] = (weft_kept_range){offset, 0, keep->used};
    keep->range[keep->count - 1].bytes += bytes;
    memcpy(keep->memory + keep->used, data, bytes);
    keep->used += bytes;
}

static weft_status keep_read(void *user, uint64_t offset, void *data, uint64_t bytes)
{
    weft_update_keep *keep = user;
    const uint8_t *kept = kept_find(keep, offset, bytes);
    if (kept) {
        memcpy(data, kept, bytes);
        return WEFT_OK;
    }
    const weft_status status = weft_update_read(&keep->source, offset, data, bytes);
    if (status == WEFT_OK)
        kept_add(keep, offset, data, bytes);
    return status;
}

weft_status weft_update_keep_open(weft_update_keep *keep, weft_update_file *file, uint64_t capacity)
{
    *keep = (weft_update_keep){.file = file, .source = file->source, .capacity = capacity};
    keep->memory = weft_mem_map(capacity + 1);
    if (!keep->memory)
        return weft_fail(WEFT_E_MEMORY, "no memory to keep %llu bytes of frames", (unsigned long long)capacity);
    file->source = (weft_source){keep, keep_read, file->source.bytes};
    return WEFT_OK;
}

void weft_update_keep_close(weft_update_keep *keep)
{
    if (!keep->memory)
        return;
    keep->file->source = keep->source;
    weft_mem_unmap(keep->memory, keep->capacity + 1);
    keep->memory = NULL;
}
