/* check.h - the parts of weft check: each answers one question about a site as JSON, and prints that for people. */
#ifndef WEFT_TOOLS_CHECK_H
#define WEFT_TOOLS_CHECK_H

#include <jansson.h>

#include "shard/cut.h"
#include "site/site.h"

/* ---- check_backend.c: whether this host has the backends and devices that a site names for its trainer and peers */

/* An array of {backend, device, usable, text, ends}: one for each backend and device that is named; what is `auto` or
 * `host` is had everywhere and left out. `device` null: the current one. */
json_t *weft_check_backends(const weft_site *site);
void weft_check_backends_print(const json_t *backends);

/* ---- check_fabric.c: what this host has for the peers of a site, with one question for each provider, address and
 * device that they ask for. A site is one file for many hosts: an address of another host is told as such. */

/* An array of weft_fabric_json's objects, each with the names of its peers in "peers". `journal`: the trainer's bytes.
 */
json_t *weft_check_fabrics(const weft_site *site, uint64_t journal);
void weft_check_fabrics_print(const json_t *fabrics);

/* ---- check_sizes.c: what the ends of a site take for one model, and what of it will not do */

/* {model, host, trainer, peers, warnings}: of each end the bytes and their parts, what its `auto` comes to on this host
 * and why. `journal` receives the trainer's. */
json_t *weft_check_sizes(const weft_site *site, const char *path, const weft_layout *layout, uint64_t *journal);
void weft_check_sizes_print(const json_t *sizes);

/* ---- check_cuts.c, check_shares.c: the cuts of a site, and what they make of one model */

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

/* ---- check_sources.c: what the sources of a site contribute to one model, and whether that is all of the model */

/* Reads the holdings of the site's sources, and proves that every element of the model is in exactly one of them.
 * Returns [{source, listen, holding, entries, bytes}] through `sources`, or NULL where the site names no holdings.
 * Errors: WEFT_E_LAYOUT (no source has an element, or two have it: the text names tensor, box and sources),
 * those of weft_holdings_open and weft_cells_open, WEFT_E_MEMORY. */
weft_status weft_check_sources(const weft_site *site, const weft_layout *layout, json_t **sources);
/* `sources`: NULL without any. */
void weft_check_sources_print(const json_t *sources);

#endif
