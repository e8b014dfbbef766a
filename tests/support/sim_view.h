/* sim_view.h - the part of a model that one rollout of a simulation takes: its cells, their bits in boxes with strides,
 * and the root that they must have. Cells are picked here by their keys, and by no code that a session uses for that.
 */
#ifndef WEFT_TESTS_SIM_VIEW_H
#define WEFT_TESTS_SIM_VIEW_H

#include "shard/cut.h"
#include "tests/support/block_world.h"

typedef struct sim_view {
    const weft_layout *model; /* borrowed */
    weft_cell *cells;
    weft_slice *slices;
    uint64_t count;
    uint64_t *
        roots; /* roots of versions by their place in the simulation's history, as far as they were asked for; 0: not */
    weft_layout *layout; /* of these cells */
    uint8_t *image;      /* their bits, by weft_layout_entry.offset */
    block_world world;   /* where a session has them */
} sim_view;

/* Takes the cells whose keys are wanted. */
sim_view *sim_view_open(const weft_layout *model, const weft_cells *cells, const bool *wanted, uint64_t seed);
void sim_view_close(sim_view *view);
/* Binds the boxes, by slices of the model. */
weft_status sim_view_bind(const sim_view *view, weft_session *session, uint32_t flags);
/* Gives the boxes the bits of a dense model. */
void sim_view_put(sim_view *view, const uint8_t *dense);
/* Returns whether the boxes have the bits of a dense model. */
bool sim_view_has(sim_view *view, const uint8_t *dense);
/* Returns the root that a dense model has in this view. */
uint64_t sim_view_root(sim_view *view, const uint8_t *dense);

#endif
