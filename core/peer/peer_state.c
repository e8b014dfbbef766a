#include "peer/peer_state.h"

#include <stdatomic.h>

#include "base/status.h"
#include "peer/peer.h"

#define NO      0
#define TO(to)  ((uint8_t)(1 + (to)))
#define GUEST   TO(WEFT_PEER_GUEST)
#define JOINING TO(WEFT_PEER_JOINING)
#define BEHIND  TO(WEFT_PEER_CATCHING_UP)
#define LIVE    TO(WEFT_PEER_LIVE)
#define LOST    TO(WEFT_PEER_LOST)

/* A guest's connection ends without a word, because a guest never was a peer. `joining` lasts from an accepted HELLO to
 * WELCOME, within one step. A guest or a lost record may have a connection that only waits for its refusal to leave. */
typedef struct row {
    const char *name;
    uint8_t to[WEFT_PEER_STATES];
} row;

/* clang-format off */
static const row table[WEFT_PEER_EVENTS] = {
    /*                                               guest    joining  behind   live     lost */
    [WEFT_ON_HELLO]        = {"HELLO accepted",       {JOINING, NO,      NO,      NO,      JOINING}},
    [WEFT_ON_REFUSED]      = {"HELLO refused",        {GUEST,   LOST,    NO,      NO,      NO}},
    [WEFT_ON_HELD_NEWEST]  = {"HELD newest",          {NO,      LIVE,    LIVE,    LIVE,    NO}},
    [WEFT_ON_HELD_OLDER]   = {"HELD older",           {NO,      BEHIND,  BEHIND,  NO,      NO}},
    [WEFT_ON_PUBLISH]      = {"a publish",            {NO,      NO,      BEHIND,  BEHIND,  NO}},
    [WEFT_ON_OFFERED]      = {"a snapshot offered",   {NO,      NO,      BEHIND,  NO,      NO}},
    [WEFT_ON_ACCEPTED]     = {"a snapshot accepted",  {NO,      NO,      BEHIND,  NO,      NO}},
    [WEFT_ON_FAULT]        = {"FAULT",                {NO,      NO,      LOST,    LOST,    NO}},
    [WEFT_ON_GOODBYE]      = {"a goodbye",            {NO,      NO,      LOST,    LOST,    NO}},
    [WEFT_ON_SILENCE]      = {"silence",              {NO,      NO,      LOST,    LOST,    NO}},
    [WEFT_ON_STALL]        = {"a stall",              {NO,      NO,      LOST,    LOST,    NO}},
    [WEFT_ON_BROKEN]       = {"a broken protocol",    {NO,      NO,      LOST,    LOST,    NO}},
    [WEFT_ON_CLOSED]       = {"a lost connection",    {NO,      NO,      LOST,    LOST,    NO}},
    [WEFT_ON_EVICTED]      = {"given up",             {NO,      NO,      LOST,    LOST,    NO}},
    [WEFT_ON_REPLACED]     = {"a new connection",     {NO,      NO,      LOST,    LOST,    NO}},
    [WEFT_ON_ENDED]        = {"the trainer's end",    {NO,      NO,      LOST,    LOST,    NO}},
    [WEFT_ON_FORGOTTEN]    = {"record given away",    {NO,      NO,      NO,      NO,      GUEST}},
};
/* clang-format on */

static _Atomic uint64_t moves[WEFT_PEER_EVENTS][WEFT_PEER_STATES];

uint32_t weft_peer_after(weft_peer_state state, weft_peer_event event)
{
    return table[event].to[state] == NO ? UINT32_MAX : table[event].to[state] - 1u;
}

uint64_t weft_peer_moves(weft_peer_state state, weft_peer_event event)
{
    return atomic_load_explicit(&moves[event][state], memory_order_relaxed);
}

const char *weft_peer_event_name(weft_peer_event event)
{
    return table[event].name;
}

static const char *state_name(weft_peer_state state)
{
    return state == WEFT_PEER_GUEST ? "guest" : weft_peer_state_name(state);
}

weft_status weft_peer_move(weft_peer *peer, weft_peer_event event)
{
    uint32_t to = weft_peer_after(peer->state, event);
    atomic_fetch_add_explicit(&moves[event][peer->state], 1, memory_order_relaxed);
    if (to == UINT32_MAX)
        return weft_fail(WEFT_E_PROTOCOL, "%s: %s while %s: out of turn",
                         peer->claim.name[0] ? peer->claim.name : "a guest", weft_peer_event_name(event),
                         state_name(peer->state));
    if (to != (uint32_t)peer->state)
        weft_session_changed(peer->session);
    peer->state = (weft_peer_state)to;
    return WEFT_OK;
}

const char *weft_peer_state_name(weft_peer_state state)
{
    static const char *const names[] = {"unknown", "joining", "catching_up", "live", "lost"};
    return state >= WEFT_PEER_JOINING && state <= WEFT_PEER_LOST ? names[state] : names[0];
}
