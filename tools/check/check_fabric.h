/* check_fabric.h - what this host has for the peers of a site: one question for each provider, address and device that
 * they ask for. A site is one file for many hosts: an address of another host is told as such. */
#ifndef WEFT_TOOLS_CHECK_FABRIC_H
#define WEFT_TOOLS_CHECK_FABRIC_H

#include <jansson.h>

#include "site/site.h"

/* An array of weft_fabric_json's objects, each with the names of its peers in "peers". `journal`: the trainer's bytes.
 */
json_t *weft_check_fabrics(const weft_site *site, uint64_t journal);
void weft_check_fabrics_print(const json_t *fabrics);

#endif
