/* clock.h - monotonic time. A test may put its own clock in place of the system's. */
#ifndef WEFT_CORE_CLOCK_H
#define WEFT_CORE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define WEFT_NS_PER_MS UINT64_C(1000000)

/* A clock of the caller's own. Every wait in core asks this clock alone. Sessions then have no thread (`progress =
 * manual` is a must), so that the owner of the clock also owns every step. */
typedef struct weft_clock {
    uint64_t (*now_ns)(void *user); /* the time in ns; never goes back, never 0 */
    /* Called when a session has nothing to do for `ns`. Lets that time pass, or less, or steps other sessions
     * meanwhile. */
    void (*pass)(void *user, uint64_t ns);
    void *user;
} weft_clock;

/* The caller's clock; NULL: the system's. Set it before the first session opens, and to NULL after the last one closes.
 * Borrowed. */
extern const weft_clock *weft_clock_own;

static inline uint64_t weft_clock_ns(void)
{
    struct timespec t;
    if (weft_clock_own)
        return weft_clock_own->now_ns(weft_clock_own->user);
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Sleeps for about `ns`. */
void weft_clock_pass(uint64_t ns);

static inline double weft_clock_ms(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0.0;
}

#endif
