/* plan.h - what the ends of a site ask of their hosts, before any is opened: for whoever looks whether they can have
 * it. */
#ifndef WEFT_CORE_PLAN_H
#define WEFT_CORE_PLAN_H

#include "site/site.h"

/* Bytes that a rollout registers for each of its ports: its slots, as large as `auto` has them at most. */
uint64_t weft_plan_slots(const weft_site_peer *peer);
/* Bytes that the trainer registers for each of its addresses of each provider: a journal of `journal` bytes, headers,
 * and the most slabs that a layout of ordinary frames has. */
uint64_t weft_plan_trainer(const weft_site *site, uint64_t journal);
/* The local address from which this host reaches where the peer joins. Blocks for the name server, at most
 * `patience_ms`. False: not known. */
bool weft_plan_address(const weft_site *site, const weft_site_peer *peer, uint64_t patience_ms,
                       char address[WEFT_SITE_NAME]);

/* True if `provider = auto` of that peer takes stream on this host, and `why`: no way leads from its addresses to where
 * it joins, or no other provider serves there. Blocks for the name server, at most `patience_ms`. */
bool weft_plan_stream(const weft_site *site, const weft_site_peer *peer, uint64_t patience_ms, char *why,
                      uint64_t capacity);

#endif
