/* staging.h - change lists of one update, decoded and proved, in memory taken at open.
 *
 * Lists grow in one slab, which is the backend's and is read by its jobs alone, their records in host memory: together
 * they take no more than `bytes`. What a peer's staging must hold is known to the trainer (weft_staging_need), so that
 * it never sends a transactional update that does not fit. */
#ifndef WEFT_CORE_STAGING_H
#define WEFT_CORE_STAGING_H

#include "port/port_backend.h"

typedef struct weft_staging {
    const weft_backend *backend;
    weft_backend_state *device; /* borrowed */
    uint8_t *memory;            /* of kind LISTS */
    weft_changes *records;
    uint64_t most;  /* of them */
    uint64_t bytes; /* of memory and records */
    uint64_t used;  /* of the memory, from its front */
    uint64_t count; /* lists */
} weft_staging;

/* Bytes that the changes of one frame of `changed` elements of `width` bytes take. */
static inline uint64_t weft_staging_need(uint64_t changed, uint8_t width)
{
    uint64_t positions = (changed * 4 + 7) / 8 * 8, bits = (changed * width + 7) / 8 * 8;
    return positions + 2 * bits + sizeof(weft_changes);
}

/* The most that the changes of one unit of the layout can take: less staging than that is of no use. */
uint64_t weft_staging_largest(const weft_layout *layout);

/* For at most `lists` lists; `source` says where `bytes` come from, for the error. Errors: WEFT_E_MEMORY. */
weft_status weft_staging_open(weft_staging *staging, const weft_backend *backend, weft_backend_state *device,
                              uint64_t bytes, uint64_t lists, const char *source);
void weft_staging_close(weft_staging *staging);
void weft_staging_clear(weft_staging *staging);
/* Room for the changes of one frame; NULL if there is none (WEFT_E_BUDGET is the caller's to say). */
weft_changes *weft_staging_take(weft_staging *staging, uint32_t unit, uint32_t changed, uint8_t width);
weft_changes *weft_staging_at(weft_staging *staging, uint64_t index);

#endif
