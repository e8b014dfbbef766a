/* check_sizes.h - what the ends of a site take for one model, and what of it will not do. */
#ifndef WEFT_TOOLS_CHECK_SIZES_H
#define WEFT_TOOLS_CHECK_SIZES_H

#include <jansson.h>

#include "site/site.h"

/* {model, host, trainer, peers, warnings}: of each end the bytes and their parts, what its `auto` comes to on this host
 * and why. `journal` receives the trainer's. */
json_t *weft_check_sizes(const weft_site *site, const char *path, const weft_layout *layout, uint64_t *journal);
void weft_check_sizes_print(const json_t *sizes);

#endif
