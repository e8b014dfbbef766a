/* check_cuts.h - the cuts of a site, and what they make of one model. */
#ifndef WEFT_TOOLS_CHECK_CUTS_H
#define WEFT_TOOLS_CHECK_CUTS_H

#include <jansson.h>

#include "shard/cut.h"
#include "site/site.h"

/* [{name, and each key that the section gives}] in the order of the rules. */
json_t *weft_check_cuts(const weft_site *site);
/* {cells, keys: [{key, experts, cut, part, layers, cells, bytes}]}; `cut` is a name, null for none. Errors:
 * WEFT_E_LAYOUT (a cut does not fit a tensor), WEFT_E_MEMORY. */
weft_status weft_check_cells(const weft_site *site, const weft_layout *layout, json_t **cells);
/* Cuts a model by the rules of a site. The caller gives the cells back with weft_cells_close. Errors: as
 * weft_check_cells. */
weft_status weft_check_cells_open(const weft_site *site, const weft_layout *layout, weft_cells *cells);
/* Returns the bytes of a slice, dense. */
uint64_t weft_check_slice_bytes(const weft_layout *layout, const weft_slice *slice);
/* Reads share files. Returns [{share, tensors, slices, bytes, contributed_bytes, keys, missing_cut}] through `shares`.
 * Of a share that has a part of a key, keys are null and missing_cut is the text that says which cut would part the
 * key. Errors: WEFT_E_FILE, WEFT_E_LAYOUT (a file is wrong, or does not fit the model), WEFT_E_MEMORY. */
weft_status weft_check_shares(const weft_site *site, const weft_layout *layout, const char *const *paths, size_t count,
                              json_t **shares);
void weft_check_shares_print(const json_t *shares);
/* `cells`: NULL without a model. */
void weft_check_cuts_print(const json_t *cuts, const json_t *cells);

#endif
