#include "tools/serve/roster.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/output.h"

weft_status weft_roster_read(weft_session *session, weft_roster *roster)
{
    size_t count = 0;
    weft_status status = weft_peers(session, roster->peers, roster->room, &count);
    while (status == WEFT_OK && count > roster->room) {
        weft_peer_info *peers = realloc(roster->peers, count * sizeof *peers);
        if (!peers)
            return weft_fail_quiet(WEFT_E_MEMORY, "no memory to list %zu peers", count);
        roster->peers = peers;
        roster->room = count;
        peers->size = sizeof *peers;
        status = weft_peers(session, roster->peers, roster->room, &count);
    }
    if (status == WEFT_OK)
        roster->count = count;
    return status;
}

void weft_roster_close(weft_roster *roster)
{
    free(roster->peers);
    *roster = (weft_roster){0};
}

const weft_peer_info *weft_roster_find(const weft_roster *roster, const char *name)
{
    for (size_t i = 0; i < roster->count; i++)
        if (strcmp(roster->peers[i].name, name) == 0)
            return &roster->peers[i];
    return NULL;
}

bool weft_peer_is_joined(const weft_peer_info *peer)
{
    return peer->state == WEFT_PEER_LIVE || peer->state == WEFT_PEER_CATCHING_UP;
}

size_t weft_roster_joined(const weft_roster *roster)
{
    size_t joined = 0;
    for (size_t i = 0; i < roster->count; i++)
        joined += weft_peer_is_joined(&roster->peers[i]);
    return joined;
}

bool weft_peer_holds(const weft_peer_info *peer, const weft_version *version)
{
    return peer->held.run == version->run && peer->held.number >= version->number;
}

json_t *weft_roster_json(const weft_roster *roster)
{
    json_t *list = json_array();
    for (size_t i = 0; i < roster->count; i++)
        json_array_append_new(list, weft_json_peer(&roster->peers[i]));
    return list;
}
