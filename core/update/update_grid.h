/* update_grid.h - the grid of a layout: dtype and number of elements of every tensor, all that a reader without the
 * model must know.
 *
 * Models repeat their layers, so tensors are written as copies of earlier ones (docs/WIRE_FORMAT.md, Update files). A
 * layout made from a grid has the true units, and made-up names and shapes. */
#ifndef WEFT_CORE_UPDATE_GRID_H
#define WEFT_CORE_UPDATE_GRID_H

#include "layout/layout.h"

/* Checks that a grid has room for the layout. Errors: WEFT_E_LAYOUT (too many tensors). */
weft_status weft_update_grid_room(const weft_layout *layout);

/* Makes the grid of a layout; *bytes comes from weft_mem_take. Errors: as weft_update_grid_room, WEFT_E_MEMORY. */
weft_status weft_update_grid_write(const weft_layout *layout, uint8_t **bytes, uint64_t *length);

/* Reads a grid and trusts nothing. The layout's tensors are named "#0", "#1" and so on, and have one dimension; its
 * hash is of these. Errors: WEFT_E_CORRUPT, WEFT_E_LAYOUT, WEFT_E_MEMORY. */
weft_status weft_update_grid_read(const uint8_t *bytes, uint64_t length, weft_layout **layout);

#endif
