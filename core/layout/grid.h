/* grid.h - the units of a layout; the rule is at the head of layout.h. Only layout.c uses this header. */
#ifndef WEFT_CORE_GRID_H
#define WEFT_CORE_GRID_H

#include "layout/layout.h"

/* Most units of a layout: 2^24 tiles are 4 Ti elements. The bound limits what a layout from the network can allocate.
 */
#define WEFT_MAX_UNITS (UINT64_C(1) << 24)

/* Counts the units of `count` entries without making them; *largest_bytes receives the dense bytes of the largest. */
uint64_t weft_grid_count(const weft_layout_entry *entries, uint64_t count, uint64_t *largest_bytes);

/* Writes the units: `units` has room for weft_grid_count of them. */
void weft_grid_fill(const weft_layout_entry *entries, uint64_t count, weft_unit *units);

#endif
