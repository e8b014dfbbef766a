/* clock.h - the simulator's clock: time passes when its owner says so, and while a session waits. */
#ifndef WEFT_HARNESS_CLOCK_H
#define WEFT_HARNESS_CLOCK_H

#include "base/clock.h"

typedef struct fleet_clock {
    weft_clock clock;
    _Atomic uint64_t now_ns;     /* threads of a store read it */
    uint64_t first_seed, rounds; /* what a failure says of itself; 0: no seed leads to it */
    /* Called when a session waits for `ns`: lets time pass, or gives the others their turn. */
    void (*pass)(void *user, uint64_t ns);
    void *user;
} fleet_clock;

/* Puts the clock in place of the system's, until fleet_clock_close; `pass` NULL: time passes by a tick of 100 us. */
void fleet_clock_open(fleet_clock *clock, void (*pass)(void *user, uint64_t ns), void *user);
void fleet_clock_close(void);
/* The clock that is in place; NULL: the system's. */
const fleet_clock *fleet_clock_now(void);

#define FLEET_TICK_NS (100 * UINT64_C(1000))

#endif
