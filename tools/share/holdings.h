/* holdings.h - what the sources of a site contribute: the share files of its [source.R] sections. */
#ifndef WEFT_TOOLS_HOLDINGS_H
#define WEFT_TOOLS_HOLDINGS_H

#include "model/share_file.h"

typedef struct weft_holdings {
    weft_slice *slices[WEFT_SOURCES_MAX]; /* slices that the source contributes */
    weft_trainer_source source[WEFT_SOURCES_MAX];
    uint32_t count; /* number of sources; 0: the site names no holdings, and has one trainer */
} weft_holdings;

/* Returns true if the site's sources have share files. */
bool weft_holdings_named(const weft_site *site);
/* Reads the share files of all sources. The caller gives the holdings back with weft_holdings_close, also after an
 * error. Errors: WEFT_E_CONFIG (a source has no share file), those of weft_share_file_open and weft_share_open. */
weft_status weft_holdings_open(const weft_site *site, const weft_layout *model, weft_holdings *holdings);
void weft_holdings_close(weft_holdings *holdings);

/* Names the place of each slice of a source in the memory of the whole model.
 *
 * pieces  one piece for each tensor, in the layout's order, and each with all of its tensor
 * blocks  receives as many blocks as the source has slices */
void weft_holdings_blocks(const weft_layout *model, const weft_trainer_source *source, const weft_piece *pieces,
                          weft_block *blocks);

#endif
