/* clock.h - monotonic time, which a test may own. */
#ifndef WEFT_CORE_CLOCK_H
#define WEFT_CORE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define WEFT_NS_PER_MS UINT64_C(1000000)

/* A clock of the caller's own. Everything that waits in core asks it and none other; a session then has no thread
 * (`progress = manual` is a must), so that whoever owns the clock owns every step too. */
typedef struct weft_clock {
    uint64_t (*now_ns)(void *user); /* never goes back, never 0 */
    /* A session has nothing to do for `ns`: lets that time pass, or less, or steps other sessions meanwhile. */
    void (*pass)(void *user, uint64_t ns);
    void *user;
} weft_clock;

/* Set before the first session is opened, NULL (the system's clock) again after the last is closed. Borrowed. */
extern const weft_clock *weft_clock_own;

static inline uint64_t weft_clock_ns(void)
{
    struct timespec t;
    if (weft_clock_own)
        return weft_clock_own->now_ns(weft_clock_own->user);
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Sleeps for about so long. */
void weft_clock_pass(uint64_t ns);

static inline double weft_clock_ms(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0.0;
}

#endif
