/* check_sources.h - what the sources of a site contribute to one model, and whether that is all of the model. */
#ifndef WEFT_TOOLS_CHECK_SOURCES_H
#define WEFT_TOOLS_CHECK_SOURCES_H

#include <jansson.h>

#include "site/site.h"

/* Reads the holdings of the site's sources, and proves that every element of the model is in exactly one of them.
 * Returns [{source, listen, holding, entries, bytes}] through `sources`, or NULL where the site names no holdings.
 * Errors: WEFT_E_LAYOUT (no source has an element, or two have it: the text names tensor, box and sources),
 * those of weft_holdings_open and weft_cells_open, WEFT_E_MEMORY. */
weft_status weft_check_sources(const weft_site *site, const weft_layout *layout, json_t **sources);
/* `sources`: NULL without any. */
void weft_check_sources_print(const json_t *sources);

#endif
