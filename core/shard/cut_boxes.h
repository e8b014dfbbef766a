/* cut_boxes.h - what one cut makes of one tensor. Used by cells.c alone. */
#ifndef WEFT_CORE_CUT_BOXES_H
#define WEFT_CORE_CUT_BOXES_H

#include "shard/cut.h"

/* Who takes boxes. */
typedef struct weft_boxes weft_boxes;
struct weft_boxes {
    weft_status (*put)(weft_boxes *boxes, const weft_slice *box, uint32_t part);
};

/* Checks a rule by itself. Errors: WEFT_E_ARGUMENT. */
weft_status weft_cut_check(const weft_cut *cut);

/* Whether a rule makes boxes of tensors; the others take whole tensors by a number in their names. */
bool weft_cut_is_for_boxes(const weft_cut *cut);

/* Puts the boxes that a checked rule for boxes makes of a tensor; those of padding alone are left out. Errors:
 * WEFT_E_LAYOUT (the rule does not fit the tensor), those of put. */
weft_status weft_cut_boxes(const weft_layout *layout, uint64_t tensor, const weft_cut *cut, weft_boxes *boxes);

/* The block of layers or group of experts, from 1, that a checked rule by name puts a tensor in; 0: in none.
 *
 * experts  how many the model has, as weft_cut_expert_of counts them
 * Errors: WEFT_E_LAYOUT (groups that do not fit). */
weft_status weft_cut_block(const weft_cut *cut, const char *name, uint64_t experts, uint32_t *block);

#endif
