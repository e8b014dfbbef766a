/* holding.h - the holding of one process: the parts of a cut model that the process has, and a layout of these parts.
 *
 * An *entry* is the part of a cell that lies in one slice. Entries stand in the order of key, tensor, row, column. The
 * layout of a process has one tensor for each entry, named by tensor and box. Its units end where the key changes. */
#ifndef WEFT_CORE_HOLDING_H
#define WEFT_CORE_HOLDING_H

#include "shard/cut.h"

/* Makes the entries of one process.
 *
 * slices   slices of the process, `count` of them, in any order
 * entries  receives the entries; the caller gives them back with weft_mem_give
 * Errors: WEFT_E_LAYOUT (a slice reaches past its tensor, or two slices share elements: the text names tensor and box),
 * WEFT_E_MEMORY. */
weft_status weft_holding_open(const weft_layout *layout, const weft_cells *cells, const weft_slice *slices,
                              uint64_t count, weft_cell **entries, uint64_t *entry_count);

/* Makes the layout of entries. The process diffs and encodes this layout, and keeps its shadow. Errors: those of
 * weft_layout_create. */
weft_status weft_holding_layout(const weft_layout *layout, const weft_cell *entries, uint64_t count,
                                weft_layout **made);

#endif
