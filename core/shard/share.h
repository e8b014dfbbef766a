/* share.h - the share of one process: rules that say which elements of each tensor the process has, and its slices.
 *
 * The first rule whose patterns match a tensor's name decides; a tensor that no rule matches is not in the share. A
 * *portion* is what a share has of one tensor: ranges of one dimension, or a range of the elements in row-major order.
 * A trainer process has a share as its holding, a rollout as its view (docs/SHARDING.md). */
#ifndef WEFT_CORE_SHARE_H
#define WEFT_CORE_SHARE_H

#include "shard/cut.h"

#define WEFT_SHARE_RULES_MOST (1u << 20)

/* Numbers in a row. */
typedef struct weft_range {
    uint64_t first;
    uint64_t count;
} weft_range;

typedef enum weft_share_kind {
    WEFT_SHARE_WHOLE,   /* all elements */
    WEFT_SHARE_PART,    /* one of equal parts of a dimension */
    WEFT_SHARE_RANGES,  /* ranges of a dimension */
    WEFT_SHARE_ELEMENTS /* one range of the elements in row-major order */
} weft_share_kind;

/* One rule. Strings and lists stay the caller's. */
typedef struct weft_share_rule {
    const char *patterns; /* patterns of tensors' names between commas, as a cut has them */
    weft_share_kind kind;
    uint32_t dimension;       /* number of the dimension, from 0; of ranges and parts */
    uint64_t part;            /* number of the part, from 0 */
    uint64_t parts;           /* number of equal parts */
    uint64_t pad;             /* size to whose multiple the dimension is rounded up before it is parted; 0: none */
    const weft_range *ranges; /* ranges that rise and do not meet, or the one range of the elements */
    uint64_t range_count;
    bool by_layer;     /* tensors of `layers` alone, by the number in their names */
    weft_range layers; /* numbers of layers */
    uint64_t group;    /* number of the group of experts, from 0 */
    uint64_t groups;   /* number of equal groups of experts; 0: tensors of any expert */
    bool replica;      /* another process contributes these elements */
} weft_share_rule;

/* The part of one tensor that a share has. */
typedef struct weft_portion {
    const weft_share_rule *rule; /* rule that matches the tensor; NULL: none */
    uint32_t dimension;          /* dimension that the ranges are of; not used for elements */
    weft_range only;             /* the one range, unless the rule lists ranges */
    const weft_range *ranges;    /* NULL: `only` */
    uint64_t range_count;        /* 0: the share has nothing of the tensor */
} weft_portion;

typedef struct weft_share {
    const weft_layout *layout; /* borrowed, as the rules are */
    weft_portion *portions;    /* portion of each tensor; NULL: the slices came without rules */
    weft_slice *slices;        /* slices of all portions, in order of tensor, row, column */
    bool *contributed;         /* one flag for each slice: this process contributes the slice */
    uint64_t slice_count;
} weft_share;

/* Opens a share; the caller gives the share back with weft_share_close.
 *
 * rules  rules, `count` of them, at most WEFT_SHARE_RULES_MOST, by falling precedence
 * Errors: WEFT_E_ARGUMENT (a rule contradicts itself: the text has its number, from 1), WEFT_E_LAYOUT (a rule does not
 * fit a tensor: the text names tensor and rule), WEFT_E_MEMORY. */
weft_status weft_share_open(const weft_layout *layout, const weft_share_rule *rules, uint64_t count, weft_share *share);
void weft_share_close(weft_share *share);

/* Returns one range of a portion. */
static inline weft_range weft_portion_range(const weft_portion *portion, uint64_t number)
{
    return portion->ranges ? portion->ranges[number] : portion->only;
}

/* Returns the number of `portion`'s rows or columns of its dimension, or of its elements. */
uint64_t weft_portion_size(const weft_portion *portion);

/* Finds the keys that a share takes, for a rollout's view.
 *
 * wanted  receives one flag for each key of `cells`
 * Errors: WEFT_E_LAYOUT (the share has a part of a key: the text names the cell, and the cut that would part the
 * tensor so), WEFT_E_MEMORY. */
weft_status weft_share_keys(const weft_share *share, const weft_cells *cells, bool *wanted);

#endif
