/* cover.h - whether sources have together what a process takes, each element once. */
#ifndef WEFT_CORE_COVER_H
#define WEFT_CORE_COVER_H

#include "shard/cut.h"

/* What one source contributes: its entries (holding.h), borrowed. */
typedef struct weft_contribution {
    const weft_cell *entries;
    uint64_t count;
} weft_contribution;

/* Proves that every element of the wanted keys is in exactly one contribution.
 *
 * wanted   one flag a key of `cells`
 * sources  `count` of them, by their numbers; entries of keys that are not wanted do not count
 * Errors: WEFT_E_LAYOUT (the first element that no source has, or two have: the text names tensor, box and sources),
 * WEFT_E_MEMORY. */
weft_status weft_cover_check(const weft_layout *layout, const weft_cells *cells, const bool *wanted,
                             const weft_contribution *sources, uint32_t count);

#endif
