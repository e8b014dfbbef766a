#include "rollout/course.h"

#include <stdatomic.h>

#include "base/status.h"

#define NO     0
#define RECV   TO(WEFT_COURSE_RECEIVING)
#define WEIGH  TO(WEFT_COURSE_WEIGHED)
#define OFFER  TO(WEFT_COURSE_OFFERED)
#define ACCEPT TO(WEFT_COURSE_ACCEPTED)
#define SNAP   TO(WEFT_COURSE_SNAPSHOT)
#define REPAIR TO(WEFT_COURSE_REPAIR)
#define STAGED TO(WEFT_COURSE_STAGED)
#define COMMIT TO(WEFT_COURSE_COMMITTING)
#define TO(to) ((uint8_t)(1 + (to)))

/* The trainer offers a snapshot only to a peer that owes it nothing, so that no update is on its way beside an offer.
 * While a version is staged or committed the next update may be announced: it waits in its slots. */
typedef struct row {
    const char *name;
    uint8_t to[WEFT_COURSE_STATES];
} row;

/* clang-format off */
static const row table[WEFT_COURSE_EVENTS] = {
    /*                                                       recv    weigh   offer   accept  snap    repair  staged  commit */
    [WEFT_COURSE_ON_UPDATE]   = {"an update announced",     {RECV,   NO,     NO,     NO,     NO,     RECV,   STAGED, COMMIT}},
    [WEFT_COURSE_ON_SNAPSHOT] = {"a snapshot announced",    {NO,     NO,     NO,     SNAP,   NO,     NO,     NO,     NO}},
    [WEFT_COURSE_ON_OFFER]    = {"a snapshot offered",      {WEIGH,  NO,     NO,     NO,     NO,     WEIGH,  NO,     NO}},
    [WEFT_COURSE_ON_PUT]      = {"an offer for the caller", {NO,     OFFER,  NO,     NO,     NO,     NO,     NO,     NO}},
    [WEFT_COURSE_ON_ACCEPT]   = {"a snapshot accepted",     {NO,     NO,     ACCEPT, NO,     NO,     NO,     NO,     NO}},
    [WEFT_COURSE_ON_REPAIR]   = {"a repair asked for",      {NO,     REPAIR, NO,     NO,     NO,     NO,     NO,     NO}},
    [WEFT_COURSE_ON_WHOLE]    = {"a version whole",         {STAGED, NO,     NO,     NO,     STAGED, NO,     NO,     NO}},
    [WEFT_COURSE_ON_COMMIT]   = {"a commit",                {NO,     NO,     NO,     NO,     NO,     NO,     COMMIT, NO}},
    [WEFT_COURSE_ON_SETTLED]  = {"a commit settled",        {NO,     NO,     NO,     NO,     NO,     NO,     NO,     RECV}},
    [WEFT_COURSE_ON_UNDONE]   = {"a commit undone",         {NO,     NO,     NO,     NO,     NO,     NO,     NO,     RECV}},
    [WEFT_COURSE_ON_RETURNED] = {"a commit returned",       {NO,     NO,     NO,     NO,     NO,     NO,     NO,     STAGED}},
    [WEFT_COURSE_ON_LOST]     = {"a lost connection",       {RECV,   RECV,   RECV,   RECV,   RECV,   RECV,   STAGED, COMMIT}},
};
/* clang-format on */

static _Atomic uint64_t moves[WEFT_COURSE_EVENTS][WEFT_COURSE_STATES];

uint32_t weft_course_after(weft_course_state state, weft_course_event event)
{
    return table[event].to[state] == NO ? UINT32_MAX : table[event].to[state] - 1u;
}

const char *weft_course_event_name(weft_course_event event)
{
    return table[event].name;
}

const char *weft_course_state_name(weft_course_state state)
{
    static const char *const names[WEFT_COURSE_STATES] = {
        "receiving",        "an offer is weighed",   "an offer waits", "a snapshot is accepted",
        "a snapshot comes", "a repair is asked for", "staged",         "committing"};
    return names[state];
}

weft_status weft_course_move(weft_course *course, weft_course_event event)
{
    const uint32_t to = weft_course_after(course->state, event);
    atomic_fetch_add_explicit(&moves[event][course->state], 1, memory_order_relaxed);
    if (to == UINT32_MAX)
        return weft_fail(WEFT_E_PROTOCOL, "%s while %s: out of turn", weft_course_event_name(event),
                         weft_course_state_name(course->state));
    course->state = (weft_course_state)to;
    return WEFT_OK;
}

bool weft_course_is_proved(const weft_course *course)
{
    return course->state == WEFT_COURSE_STAGED || course->state == WEFT_COURSE_COMMITTING;
}

bool weft_course_takes_snapshot(const weft_course *course)
{
    return course->state == WEFT_COURSE_ACCEPTED || course->state == WEFT_COURSE_SNAPSHOT;
}

uint64_t weft_course_moves(weft_course_state state, weft_course_event event)
{
    return atomic_load_explicit(&moves[event][state], memory_order_relaxed);
}
