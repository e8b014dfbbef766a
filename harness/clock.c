#include "harness/clock.h"

#include <stddef.h>

static const fleet_clock *in_place;

static uint64_t now_of(void *user)
{
    return ((const fleet_clock *)user)->now_ns;
}

static void pass_of(void *user, uint64_t ns)
{
    fleet_clock *clock = user;
    if (clock->pass)
        clock->pass(clock->user, ns);
    else
        clock->now_ns += ns < FLEET_TICK_NS ? ns : FLEET_TICK_NS;
}

void fleet_clock_open(fleet_clock *clock, void (*pass)(void *user, uint64_t ns), void *user)
{
    *clock = (fleet_clock){.clock = {now_of, pass_of, clock}, .now_ns = 1, .pass = pass, .user = user};
    in_place = clock;
    weft_clock_own = &clock->clock;
}

void fleet_clock_close(void)
{
    in_place = NULL;
    weft_clock_own = NULL;
}

const fleet_clock *fleet_clock_now(void)
{
    return in_place;
}
