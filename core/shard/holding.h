/* holding.h - what one process has of a model that is cut: its slices met with the cells, and the layout of that.
 *
 * An *entry* is what a slice has of a cell. Entries stand in the order of key, tensor, row, column; the layout of a
 * process has one tensor an entry, named by its tensor and box, and its units end where the key changes. */
#ifndef WEFT_CORE_HOLDING_H
#define WEFT_CORE_HOLDING_H

#include "shard/cut.h"

/* Makes the entries of one process.
 *
 * slices   `count` of them, in any order
 * entries  receives what weft_mem_give takes back; as cells, of which these are parts
 * Errors: WEFT_E_LAYOUT (a slice that reaches past its tensor, two that share elements; with tensor and box),
 * WEFT_E_MEMORY. */
weft_status weft_holding_open(const weft_layout *layout, const weft_cells *cells, const weft_slice *slices,
                              uint64_t count, weft_cell **entries, uint64_t *entry_count);

/* Makes the layout of entries: what their process diffs, encodes and keeps a shadow of. Errors: those of
 * weft_layout_create. */
weft_status weft_holding_layout(const weft_layout *layout, const weft_cell *entries, uint64_t count,
                                weft_layout **made);

#endif
