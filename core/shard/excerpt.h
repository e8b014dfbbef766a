/* excerpt.h - the part of a cut model that one rollout takes: whole keys, and a layout of their cells alone.
 *
 * A trainer has the layout of all cells, and numbers units, tensors and parts by that. A rollout with a view has the
 * layout of its own cells, so that its memory grows with the view. Units, stretches and packs end where the key
 * changes, so a key has the same units in both layouts. Numbers of one layout become numbers of the other by ranges:
 * cells stand in the order of their keys, so a range is a few keys that follow each other. */
#ifndef WEFT_CORE_EXCERPT_H
#define WEFT_CORE_EXCERPT_H

#include "shard/cut.h"

#define WEFT_EXCERPT_RANGES 64u /* ranges of keys that one view has, at most */

/* Keys that follow each other. */
typedef struct weft_key_range {
    uint32_t first;
    uint32_t count; /* number of keys, at least 1 */
} weft_key_range;

/* Keys of a view: ranges that rise and neither meet nor touch. No ranges: the view takes all keys. */
typedef struct weft_view_keys {
    weft_key_range range[WEFT_EXCERPT_RANGES];
    uint32_t count;
} weft_view_keys;

/* Numbers that follow each other in the layout of all cells, and where they begin in the excerpt's. */
typedef struct weft_number_range {
    uint64_t first;
    uint64_t count;
    uint64_t own;
} weft_number_range;

/* Ranges of one kind of number, in rising order. */
typedef struct weft_number_map {
    weft_number_range range[WEFT_EXCERPT_RANGES];
    uint32_t count;
} weft_number_map;

typedef struct weft_excerpt {
    weft_view_keys keys;
    weft_cell *cells; /* cells of the keys, in order */
    uint64_t cell_count;
    weft_layout *layout; /* layout of these cells; its hash has the numbers below too */
    weft_number_map units, tensors, parts;
} weft_excerpt;

/* Turns one flag for each key into ranges. Flags that are all set become no ranges, which means all keys. Errors:
 * WEFT_E_LAYOUT, because there is no key, or the keys take more ranges than a view may have. */
weft_status weft_view_keys_of(const bool *wanted, uint32_t key_count, weft_view_keys *keys);
/* Checks ranges from outside: they rise, do not touch, and are keys of `key_count`. */
bool weft_view_keys_fit(const weft_view_keys *keys, uint32_t key_count);
bool weft_view_keys_equal(const weft_view_keys *a, const weft_view_keys *b);

/* Makes the excerpt of ranges that fit.
 *
 * model  layout that the cells are of
 * whole  layout of all cells, as weft_holding_layout makes it
 * The caller gives the excerpt back with weft_excerpt_close. Errors: WEFT_E_MEMORY, those of weft_layout_create. */
weft_status weft_excerpt_open(const weft_layout *model, const weft_cells *cells, const weft_layout *whole,
                              const weft_view_keys *keys, weft_excerpt *excerpt);
void weft_excerpt_close(weft_excerpt *excerpt);

/* Returns the root of the excerpt's layout, from the digests of the parts of `whole`. */
uint64_t weft_excerpt_root(const weft_excerpt *excerpt, const weft_layout *whole, const uint64_t *digests);

/* Turns a number of the layout of all cells into the excerpt's own. False: the excerpt has no such thing. */
bool weft_number_to_own(const weft_number_map *map, uint64_t number, uint64_t *own);
/* Turns an own number into one of the layout of all cells. *left receives how many numbers from there on are in the
 * same range, this one too. */
uint64_t weft_number_of_own(const weft_number_map *map, uint64_t own, uint64_t *left);
/* Returns the first number from `number` on that the excerpt has; UINT64_MAX: none. *end receives the end of its
 * range. */
uint64_t weft_number_next(const weft_number_map *map, uint64_t number, uint64_t *end);

#endif
