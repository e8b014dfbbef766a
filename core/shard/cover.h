/* cover.h - the proof that sources together have all elements that a process takes, each once. */
#ifndef WEFT_CORE_COVER_H
#define WEFT_CORE_COVER_H

#include "shard/cut.h"

/* The contribution of one source: its entries (holding.h), borrowed. */
typedef struct weft_contribution {
    const weft_cell *entries;
    uint64_t count;
} weft_contribution;

/* Proves that every element of the wanted keys is in exactly one contribution.
 *
 * wanted   one flag for each key of `cells`
 * sources  contributions of `count` sources, by number; entries of keys that are not wanted do not count
 * Errors: WEFT_E_LAYOUT (no source has an element, or two sources have it: the text names tensor, box and sources),
 * WEFT_E_MEMORY. */
weft_status weft_cover_check(const weft_layout *layout, const weft_cells *cells, const bool *wanted,
                             const weft_contribution *sources, uint32_t count);

#endif
