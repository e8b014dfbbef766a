/* share.h - the part of a made-up model that one end has, where the model lies or in memory of its own. */
#ifndef WEFT_HARNESS_SHARE_H
#define WEFT_HARNESS_SHARE_H

#include "model/safetensors.h"

/* Parts `first` to `first + take` of `of` equal ones, by rows, or by the elements of a vector; of each `each`-th tensor
 * from `at` on. */
typedef struct fleet_cut {
    uint32_t first, take, of;
    uint32_t at, each;
} fleet_cut;

#define FLEET_WHOLE ((fleet_cut){0, 1, 1, 0, 1})

typedef struct fleet_share {
    weft_slice *slices;
    weft_block *blocks; /* where they lie */
    uint64_t count;
    bool whole;     /* it is all of the model */
    uint8_t *image; /* memory of its own; NULL: the model's */
} fleet_share;

void fleet_share_open(fleet_share *share, const weft_model *model, fleet_cut cut, bool own);
void fleet_share_close(fleet_share *share);
/* Copies the model's bits into memory of its own. */
void fleet_share_fill(const fleet_share *share, const weft_model *model);
void fleet_share_bind(const fleet_share *share, weft_session *session, uint32_t flags);

#endif
