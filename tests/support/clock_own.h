/* clock_own.h - a clock of the test's own, which stands still until the test or a pause moves it. */
#ifndef WEFT_TESTS_CLOCK_OWN_H
#define WEFT_TESTS_CLOCK_OWN_H

#include "base/clock.h"

static uint64_t own_now = 5000 * WEFT_NS_PER_MS;

static inline uint64_t tell_now(void *user)
{
    (void)user;
    return own_now;
}

static inline void pass_on(void *user, uint64_t ns)
{
    (void)user;
    own_now += ns;
}

static const weft_clock own_clock = {tell_now, pass_on, NULL};

static inline int set_clock(void **state)
{
    (void)state;
    weft_clock_own = &own_clock;
    return 0;
}

static inline int give_clock(void **state)
{
    (void)state;
    weft_clock_own = NULL;
    return 0;
}

#endif
