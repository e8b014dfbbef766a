/* shard_rules.h - the rules by which `weft shard` parts a model, and the cuts that go with them. */
#ifndef WEFT_TOOLS_SHARD_RULES_H
#define WEFT_TOOLS_SHARD_RULES_H

#include "shard/share.h"

typedef enum weft_shard_kind { WEFT_SHARD_TP, WEFT_SHARD_FSDP, WEFT_SHARD_EXPERTS } weft_shard_kind;

typedef struct weft_shard_plan {
    weft_shard_kind kind;
    uint64_t ranks;
    uint64_t key_heads; /* number of key heads; 0: not known */
    uint64_t pad;       /* size to whose multiple the vocabulary is rounded up */
    char *scalars;      /* patterns of tensors without dimensions; owned */
} weft_shard_plan;

#define WEFT_SHARD_RULES_MOST 8u

/* Completes a plan for a layout. Errors: WEFT_E_ARGUMENT (key heads and ranks do not fit), WEFT_E_LAYOUT (no tensor has
 * a name that the kind knows), WEFT_E_MEMORY. */
weft_status weft_shard_plan_make(const weft_layout *layout, weft_shard_plan *plan);
void weft_shard_plan_close(weft_shard_plan *plan);

/* Writes the rules of a rank, and returns their number. Texts and ranges belong to the plan. */
uint64_t weft_shard_rules(const weft_shard_plan *plan, uint64_t rank, weft_share_rule rules[WEFT_SHARD_RULES_MOST]);

/* Writes the [cut.NAME] sections with which each rank's share is whole keys. */
#define WEFT_SHARD_CUTS 1024u
void weft_shard_cuts(const weft_shard_plan *plan, char text[WEFT_SHARD_CUTS]);

#endif
