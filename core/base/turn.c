/* turn.c - whose turn it is: refuses a call if another call is in the way, or another process opened the session. */
#include "base/turn.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"

static const char closes[] = "weft_close";

void weft_turn_open(weft_turn *turn)
{
    turn->process = getpid();
}

weft_status weft_turn_here(const weft_turn *turn, const char *call)
{
    const pid_t here = getpid();
    if (here == turn->process)
        return WEFT_OK;
    return weft_fail(
        WEFT_E_STATE,
        "%s: the session belongs to process %ld, which opened it; process %ld was forked from that: execute "
        "a program there, which opens a session of its own",
        call, (long)turn->process, (long)here);
}

static weft_status refuse(const char *call, const char *under_way)
{
    return weft_fail(WEFT_E_STATE, "%s: %s is under way in this session; use a session from one thread at a time", call,
                     under_way);
}

weft_status weft_turn_begin(weft_turn *turn, weft_turn_at at, const char *call)
{
    const char *under_way = NULL;
    weft_status status = weft_turn_here(turn, call);
    if (status != WEFT_OK)
        return status;
    return atomic_compare_exchange_strong(&turn->taken[at], &under_way, call) ? WEFT_OK : refuse(call, under_way);
}

void weft_turn_end(weft_turn *turn, weft_turn_at at)
{
    atomic_store(&turn->taken[at], NULL);
}

const char *weft_turn_name(weft_turn_guest guest)
{
    static const char *const names[WEFT_TURN_GUESTS] = {"weft_wait",     "weft_staged", "weft_offered",   "weft_want",
                                                        "weft_progress", "weft_events", "weft_attachment"};
    return names[guest];
}

/* The call counts itself before it looks, and weft_turn_close marks itself before it counts, so one of the two sees the
 * other. */
weft_status weft_turn_join(weft_turn *turn, weft_turn_guest guest)
{
    weft_status status = weft_turn_here(turn, weft_turn_name(guest));
    if (status != WEFT_OK)
        return status;
    atomic_fetch_add(&turn->guests[guest], 1);
    if (!atomic_load(&turn->closing))
        return WEFT_OK;
    weft_turn_leave(turn, guest);
    return refuse(weft_turn_name(guest), closes);
}

void weft_turn_leave(weft_turn *turn, weft_turn_guest guest)
{
    atomic_fetch_sub(&turn->guests[guest], 1);
}

weft_status weft_turn_close(weft_turn *turn)
{
    weft_status status = weft_turn_begin(turn, WEFT_TURN_WEIGHTS, closes);
    if (status != WEFT_OK)
        return status;
    atomic_store(&turn->closing, true);
    for (weft_turn_guest guest = 0; guest < WEFT_TURN_GUESTS && status == WEFT_OK; guest++)
        if (atomic_load(&turn->guests[guest]))
            status = refuse(closes, weft_turn_name(guest));
    if (status == WEFT_OK)
        return status;
    atomic_store(&turn->closing, false);
    weft_turn_end(turn, WEFT_TURN_WEIGHTS);
    return status;
}

/* ---- handles without turns; a library never ends its process, so that debug builds alone have this */

/* A thread is known by the address of its own byte. */
static uintptr_t this_thread(void)
{
    static _Thread_local char byte;
    return (uintptr_t)&byte;
}

static void end_process(const char *call)
{
#if WEFT_ALONE_LOOKS
    fprintf(stderr, "%s: a call of this handle is under way; use a handle from one thread at a time\n", call);
    abort();
#else
    (void)call;
#endif
}

weft_alone_call weft_alone_begin(const weft_alone *alone, const char *call)
{
    weft_alone *writable = (weft_alone *)(uintptr_t)alone; /* a call that only reads is alone, too */
    uintptr_t in = 0;
    if (atomic_compare_exchange_strong(&writable->thread, &in, this_thread()))
        return (weft_alone_call){writable};
    if (in != this_thread())
        end_process(call);
    return (weft_alone_call){NULL};
}

void weft_alone_last(const weft_alone *alone, const char *call)
{
    if (WEFT_ALONE_LOOKS && !weft_alone_begin(alone, call).alone)
        end_process(call);
}

void weft_alone_end(weft_alone_call *begun)
{
    if (begun->alone)
        atomic_store(&begun->alone->thread, 0);
}
