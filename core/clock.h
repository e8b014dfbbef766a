/* clock.h - monotonic time. */
#ifndef WEFT_CORE_CLOCK_H
#define WEFT_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define WEFT_NS_PER_MS UINT64_C(1000000)

static inline uint64_t weft_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static inline double weft_clock_ms(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0.0;
}

#endif
