/* site_resolve.h - what a peer gets: [peer.NAME], the longest [peer.PREFIX*], [peers], default. */
#ifndef WEFT_CORE_SITE_RESOLVE_H
#define WEFT_CORE_SITE_RESOLVE_H

#include "site/site_source.h"

/* The sections that speak for one peer, nearest first; WEFT_SITE_NOWHERE where there is none. */
typedef struct weft_site_layers {
    uint32_t section[3];
} weft_site_layers;

/* Finds the layers of a peer. False: the name has no section of its own, and no pattern admits the name. */
bool weft_site_layers_of(const weft_site_source *source, const char *name, weft_site_layers *layers);

/* Returns the layers of one section of kind PEER or PATTERN. */
weft_site_layers weft_site_layers_at(const weft_site_source *source, uint32_t section);

/* Finds the entry that decides a key. NULL: the default decides. */
const weft_site_entry *weft_site_layers_find(const weft_site_source *source, const weft_site_layers *layers,
                                             const weft_site_field *field);

/* Fills every field of `to` that the table has for `table`. */
void weft_site_fill(const weft_site_source *source, const weft_site_layers *layers, const char *table, void *to);

/* Checks the rules that tie keys together: bucket bounds of every peer and pattern, max_peers, listening beyond
 * loopback, security, relays. Needs `site` filled but for peers. Errors: WEFT_E_CONFIG. */
weft_status weft_site_rules(const weft_site *site);

/* ---- site_cuts.c */
/* Fills site->cuts from the sections. Errors: WEFT_E_CONFIG (keys that do not go together), WEFT_E_MEMORY. */
weft_status weft_site_fill_cuts(weft_site *site);

/* ---- site_sources.c */
/* Fills site->sources from the sections. Errors: WEFT_E_CONFIG (a number is missing, or listen), WEFT_E_MEMORY. */
weft_status weft_site_fill_sources(weft_site *site);

/* ---- site_relays.c */
/* Checks that every `via` names a relay with a section of its own, that no relay stands behind itself, that no chain
 * has more than WEFT_SITE_HOPS, and that no port is that of two relays, or of a relay and a trainer. Errors:
 * WEFT_E_CONFIG, WEFT_E_MEMORY. */
weft_status weft_site_rules_relays(const weft_site *site);
/* ---- site_security.c */
/* Checks that mode = tls names a key for every peer, or all of ca, certificate and key, and that no other mode names
 * any of them, because it would not use them. Errors: WEFT_E_CONFIG. */
weft_status weft_site_rules_security(const weft_site *site);

/* ---- site_rules.c */
/* Finds the place and the value of the first of two keys of a peer that is given. */
void weft_site_place_of(const weft_site *site, const weft_site_layers *layers, const char *const keys[2],
                        char value[64], weft_site_place *place);

#endif
