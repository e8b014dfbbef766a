/* roster.h - the peers of a session as a table that grows, and what the trainer's verbs ask of it. */
#ifndef WEFT_TOOLS_ROSTER_H
#define WEFT_TOOLS_ROSTER_H

#include <jansson.h>
#include <stdbool.h>

#include "weft.h"

typedef struct weft_roster {
    weft_peer_info *peers;
    size_t count;
    size_t room;
} weft_roster;

/* Reads the table afresh. `roster` starts as all zero; weft_roster_close gives it back. */
weft_status weft_roster_read(weft_session *session, weft_roster *roster);
void weft_roster_close(weft_roster *roster);

/* NULL: not there. */
const weft_peer_info *weft_roster_find(const weft_roster *roster, const char *name);

/* Peers that are joined now, neither in handshake nor lost. */
size_t weft_roster_joined(const weft_roster *roster);
bool weft_peer_is_joined(const weft_peer_info *peer);

/* Whether the peer proved that it holds `version` or a later one of its run. */
bool weft_peer_holds(const weft_peer_info *peer, const weft_version *version);

json_t *weft_roster_json(const weft_roster *roster);

#endif
