/* update_cells.h - the section of an update file that says which cells of a model the update is of.
 *
 * A trainer of a site with cuts, or one of several sources, publishes cells. Its layout has one tensor for each cell.
 * The section lists the cells, and what each key adds to the roots of base and target. So a reader that takes a few
 * keys proves these keys alone (docs/WIRE_FORMAT.md, Update files). */
#ifndef WEFT_CORE_UPDATE_CELLS_H
#define WEFT_CORE_UPDATE_CELLS_H

#include "shard/cut.h"

/* The share of one key in an update. */
typedef struct weft_key_share {
    uint32_t key;
    uint64_t cells;        /* number of its cells, at least 1 */
    uint64_t base, target; /* what its cells add to the roots */
    uint64_t frames, bytes;
} weft_key_share;

typedef struct weft_update_cells {
    weft_layout *model;     /* layout of the whole model */
    weft_cells cells;       /* cells in the order of the update's layout, without `keys` */
    weft_key_share *shares; /* shares of the keys that have cells, in rising order */
    uint32_t share_count;
} weft_update_cells;

/* Describes the cells of a layout, with shares of 0. The layout and the cells stay the caller's.
 *
 * layout  layout that weft_holding_layout made of the cells
 * The caller gives the description back with weft_update_cells_close. Errors: WEFT_E_MEMORY. */
weft_status weft_update_cells_open(const weft_layout *model, const weft_cells *cells, weft_update_cells *made);
void weft_update_cells_close(weft_update_cells *made);
/* Gives back what weft_update_cells_read made. */
void weft_update_cells_free(weft_update_cells *made);

/* Adds up what each key of a layout of cells adds to the root, from the digests of parts: as the shares of the base, or
 * of the target. */
void weft_update_cells_base(weft_update_cells *cells, const weft_layout *layout, const uint64_t *digests);
void weft_update_cells_target(weft_update_cells *cells, const weft_layout *layout, const uint64_t *digests);

/* Begins to count frames anew, and counts frames, which come in order: *at is the number of the share that had the last
 * one. */
void weft_update_cells_begin(weft_update_cells *cells);
void weft_update_cells_note(weft_update_cells *cells, uint32_t *at, uint32_t key, uint64_t bytes);

/* Writes the section. *bytes comes from weft_mem_take. Errors: WEFT_E_MEMORY. */
weft_status weft_update_cells_write(const weft_update_cells *cells, uint8_t **bytes, uint64_t *length);
/* Reads a section, and trusts nothing: cells lie within tensors of the model, and stand in order. The model is held.
 * Errors: WEFT_E_CORRUPT, WEFT_E_MEMORY. */
weft_status weft_update_cells_read(const uint8_t *bytes, uint64_t length, weft_layout *model, weft_update_cells *made);
/* Reads the shares alone, without the model. *shares comes from weft_mem_take. Errors: as weft_update_cells_read. */
weft_status weft_update_shares_read(const uint8_t *bytes, uint64_t length, weft_key_share **shares, uint32_t *count);

#endif
