#include "base/clock.h"

#include <stddef.h>

const weft_clock *weft_clock_own;

void weft_clock_pass(uint64_t ns)
{
    const struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    if (weft_clock_own)
        weft_clock_own->pass(weft_clock_own->user, ns);
    else
        nanosleep(&time, NULL);
}
