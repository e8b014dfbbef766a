/* check_backend.h - whether this host has the backends and devices that a site names for its trainer and its peers. */
#ifndef WEFT_TOOLS_CHECK_BACKEND_H
#define WEFT_TOOLS_CHECK_BACKEND_H

#include <jansson.h>

#include "site/site.h"

/* An array of {backend, device, usable, text, ends}: one for each backend and device that is named; what is `auto` or
 * `host` is had everywhere and left out. `device` null: the current one. */
json_t *weft_check_backends(const weft_site *site);
void weft_check_backends_print(const json_t *backends);

#endif
