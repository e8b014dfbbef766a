/* cell_blocks.h - memory of a model, as its caller names it, as blocks of the cells that a process has. */
#ifndef WEFT_CORE_CELL_BLOCKS_H
#define WEFT_CORE_CELL_BLOCKS_H

#include "shard/cut.h"

/* Blocks of cells: tensors of these slices are numbers of cells, as in the layout that weft_holding_layout makes. */
typedef struct weft_cell_blocks {
    weft_block *blocks;
    uint64_t count;
} weft_cell_blocks;

/* Turns pieces of a model's tensors into blocks of the same tensors. Errors: WEFT_E_LAYOUT (a piece reaches past its
 * tensor), WEFT_E_MEMORY. The caller gives blocks back with weft_cell_blocks_close. */
weft_status weft_piece_blocks(const weft_layout *model, const weft_piece *pieces, uint64_t count,
                              weft_cell_blocks *made);

/* Parts blocks of a model's tensors where cells end. A part keeps the strides of its block; where strides are split and
 * a cell begins within the inner ones, a part becomes several blocks.
 *
 * cells   cells of the process, `cell_count` of them, in the order of its layout
 * blocks  blocks from outside, checked here as far as their slices go
 * beyond  whether elements that are in none of the cells are passed over
 * Errors: WEFT_E_LAYOUT (a slice that reaches past its tensor, or has elements that are in none of the cells: the text
 * names the box), WEFT_E_MEMORY. */
weft_status weft_cell_blocks_open(const weft_layout *model, const weft_cell *cells, uint64_t cell_count,
                                  const weft_block *blocks, uint64_t count, bool beyond, weft_cell_blocks *made);
void weft_cell_blocks_close(weft_cell_blocks *made);

#endif
