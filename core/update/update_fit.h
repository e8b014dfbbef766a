/* update_fit.h - whether an update is for the weights at hand: the same layout, or the same tensors in another order.
 */
#ifndef WEFT_CORE_UPDATE_FIT_H
#define WEFT_CORE_UPDATE_FIT_H

#include "update/update_format.h"

/* Checks that the update is for this layout. Errors: WEFT_E_LAYOUT. */
weft_status weft_update_layout_fits(weft_update_file *file, const weft_layout *layout);

/* Matches weights whose tensors the update has in another order: `layout` becomes the update's, and *renumbered
 * receives the pieces by its numbers, which the caller gives back with weft_mem_give; NULL: the layout is the update's.
 * Errors: WEFT_E_LAYOUT (other tensors, or a file without names), WEFT_E_MEMORY, those of weft_update_layout. */
weft_status weft_update_pieces_match(weft_update_file *file, const weft_layout **layout, const weft_piece *pieces,
                                     uint64_t count, weft_piece **renumbered);

#endif
