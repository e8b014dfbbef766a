/* cut_boxes.h - the boxes that one cut makes of one tensor. */
#ifndef WEFT_CORE_CUT_BOXES_H
#define WEFT_CORE_CUT_BOXES_H

#include "shard/cut.h"

/* A taker of boxes. */
typedef struct weft_box_taker weft_box_taker;
struct weft_box_taker {
    weft_status (*put)(weft_box_taker *boxes, const weft_slice *box, uint32_t part);
};

/* Checks a rule by itself. Errors: WEFT_E_ARGUMENT. */
weft_status weft_cut_check(const weft_cut *cut);

/* Tells whether a rule makes boxes of tensors. Other rules take whole tensors by a number in their names. */
bool weft_cut_is_for_boxes(const weft_cut *cut);

/* Puts the boxes that a checked rule for boxes makes of a tensor. Boxes that are all padding are left out. Errors:
 * WEFT_E_LAYOUT (the rule does not fit the tensor), and those of put. */
weft_status weft_cut_boxes(const weft_layout *layout, uint64_t tensor, const weft_cut *cut, weft_box_taker *boxes);

/* Finds the block of layers or the group of experts, from 1, that a checked rule by name puts a tensor in. 0: none.
 *
 * experts  number of experts that the model has, as weft_cut_expert_of counts them
 * Errors: WEFT_E_LAYOUT (groups that do not fit). */
weft_status weft_cut_block(const weft_cut *cut, const char *name, uint64_t experts, uint32_t *block);

#endif
