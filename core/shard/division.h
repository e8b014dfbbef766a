/* division.h - how a session divides the model of its caller: the cells that its process has, and their layout.
 *
 * Without cuts and without slices nothing is divided, and the session's layout is the model's. One of several sources
 * has a holding: what its cells have in common with the cells of the cuts. A rollout divides the same way for each
 * source, so both ends have one layout. */
#ifndef WEFT_CORE_DIVISION_H
#define WEFT_CORE_DIVISION_H

#include "shard/excerpt.h"

typedef struct weft_division {
    weft_layout *model;   /* layout as the trainer's caller has it */
    uint64_t *order;      /* number in the model of each tensor that this end's caller names; NULL: the same number */
    weft_layout *layout;  /* layout of the cells that the process has; the model's, if nothing is divided */
    weft_cells cells;     /* cells of a trainer, which are all there are, or entries of its holding; none if nothing is
                             divided, and none of a rollout */
    weft_excerpt excerpt; /* excerpt of a rollout; no cells if nothing is divided */
} weft_division;

/* Slices of one process, borrowed. */
typedef struct weft_slice_list {
    const weft_slice *slice; /* NULL: all of the model */
    uint64_t count;
} weft_slice_list;

/* Divides a model for a trainer.
 *
 * cuts     rules, `count` of them; no rules and no holding: nothing is divided
 * holding  slices that this process contributes
 * The caller gives the division back with weft_division_close. Errors: those of weft_cells_open and
 * weft_holding_open. */
weft_status weft_division_open_source(const weft_layout *model, const weft_cut *cuts, uint32_t count,
                                      const weft_slice_list *holding, weft_division *division);
/* Divides a model for a rollout's end at one trainer. The end has what the trainer holds of whole keys, which may be
 * nothing.
 *
 * holding  slices that the trainer contributes
 * view     slices of the rollout
 * Errors: as weft_division_open_source; WEFT_E_LAYOUT, because the view has a part of a key, and the text names the
 * cell. */
weft_status weft_division_open_view(const weft_layout *model, const weft_cut *cuts, uint32_t count,
                                    const weft_slice_list *holding, const weft_slice_list *view,
                                    weft_division *division);
void weft_division_close(weft_division *division);

/* Returns the model's number of a tensor that the caller names. Numbers that are none stay as they are. */
static inline uint64_t weft_division_number(const weft_division *division, uint64_t tensor)
{
    return division->order && tensor < division->model->count ? division->order[tensor] : tensor;
}

/* Matches the tensors of two divisions of one model, of the same cuts and slices, whose models have different orders.
 *
 * from  receives for each tensor of `to`'s layout its number in `before`'s; the caller gives it back with weft_mem_give
 * Errors: WEFT_E_MEMORY, WEFT_E_LAYOUT (they do not have the same parts). */
weft_status weft_division_match(const weft_division *before, const weft_division *to, uint64_t **from);

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
 *
 * beyond  whether memory of other cells is passed over, and not an error
 * Errors: those of weft_piece_blocks, weft_cell_blocks_open and weft_binding_open_blocks. */
weft_status weft_division_bind(const weft_division *division, const weft_piece *pieces, const weft_block *blocks,
                               uint64_t count, bool beyond, weft_binding *binding);

#endif
