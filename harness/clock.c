#include "harness/clock.h"

#include <stddef.h>

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
    clock->clock = (weft_clock){now_of, pass_of, clock};
    clock->now_ns = 1;
    clock->pass = pass;
    clock->user = user;
    weft_clock_own = &clock->clock;
}

void fleet_clock_close(void)
{
    weft_clock_own = NULL;
}
