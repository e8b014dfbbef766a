/* division.h - how a session divides the model of its caller: the cells that its process has, and their layout.
 *
 * Without cuts and without slices nothing is divided, and the session's layout is the model's. */
#ifndef WEFT_CORE_DIVISION_H
#define WEFT_CORE_DIVISION_H

#include "shard/excerpt.h"

typedef struct weft_division {
    weft_layout *model;   /* layout as the caller has it */
    weft_layout *layout;  /* layout of the cells that the process has; the model's, if nothing is divided */
    weft_cells cells;     /* cells of a trainer: all there are; none if nothing is divided, and none of a rollout */
    weft_excerpt excerpt; /* excerpt of a rollout; no cells if nothing is divided */
} weft_division;

/* Divides a model for a trainer, which has all cells.
 *
 * cuts  rules, `count` of them; no rules: nothing is divided
 * The caller gives the division back with weft_division_close. Errors: those of weft_cells_open. */
weft_status weft_division_open_source(const weft_layout *model, const weft_cut *cuts, uint32_t count,
                                      weft_division *division);
/* Divides a model for a rollout, which has whole keys.
 *
 * slices  slices of the process, `slice_count` of them; NULL: all of the model
 * Errors: those of weft_cells_open; WEFT_E_LAYOUT, because the slices have a part of a key, and the text names the
 * cell. */
weft_status weft_division_open_view(const weft_layout *model, const weft_cut *cuts, uint32_t count,
                                    const weft_slice *slices, uint64_t slice_count, weft_division *division);
void weft_division_close(weft_division *division);

/* Returns true if the session's layout is another than the model's. */
static inline bool weft_division_is_cut(const weft_division *division)
{
    return division->layout != division->model;
}

/* Returns the cells of the process, in the order of its layout. */
static inline const weft_cell *weft_division_cells(const weft_division *division, uint64_t *count)
{
    const bool view = division->excerpt.cells != NULL;
    *count = view ? division->excerpt.cell_count : division->cells.count;
    return view ? division->excerpt.cells : division->cells.cells;
}

/* Binds a layout of cells to memory that the caller names by tensors of the model. Either pieces or blocks are given.
 * Errors: those of weft_piece_blocks, weft_cell_blocks_open and weft_binding_open_blocks. */
weft_status weft_division_bind(const weft_division *division, const weft_piece *pieces, const weft_block *blocks,
                               uint64_t count, weft_binding *binding);

#endif
