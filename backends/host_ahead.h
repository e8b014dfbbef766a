/* host_ahead.h - lines of memory that are asked for before they are used, the way this CPU gains by it: a row. */
#ifndef WEFT_BACKENDS_HOST_AHEAD_H
#define WEFT_BACKENDS_HOST_AHEAD_H

#include "backends/host_element.h"

/* What is known of a kind of CPU. Asking is a hint: no row changes a byte. */
typedef struct weft_host_ahead {
    const char *cpus;
    bool second; /* lines are asked into the second cache: the first takes few at a time */
} weft_host_ahead;

/* The row in use. weft_host_choose takes that of the CPU, once in a process; before that it is the one for CPUs that
 * nothing is known of. */
extern weft_host_ahead weft_host_ahead_here;

void weft_host_ahead_take(void);

/* The row of a CPU by what CPUID tells: the vendor's twelve letters, and the family with its extension. */
const weft_host_ahead *weft_host_ahead_of(const char *vendor, unsigned family);

/* Asks for so many lines of a stream, `distance` bytes behind `at`, while the stream is read. Where that is left to the
 * CPU, it brings streams as fast as memory can. Asking beyond the stream's end does no harm. */
WEFT_ALWAYS_INLINE void weft_ahead_stream(const uint8_t *at, uint32_t distance, unsigned lines)
{
    if (weft_host_ahead_here.second)
        return;
    for (unsigned line = 0; line < lines; line++)
        __builtin_prefetch((const void *)((uintptr_t)at + distance + 64 * (uintptr_t)line), 0);
}

/* The same while nothing is read, when a CPU that is left to itself brings little. */
WEFT_ALWAYS_INLINE void weft_ahead_counting(const uint8_t *at, uint32_t distance, unsigned lines)
{
    if (!weft_host_ahead_here.second)
        return;
    for (unsigned line = 0; line < lines; line++)
        __builtin_prefetch((const void *)((uintptr_t)at + distance + 64 * (uintptr_t)line), 0, 2);
}

/* Asks for the line of one element, which is to be written if `write` says so (known when compiled). */
WEFT_ALWAYS_INLINE void weft_ahead_element(const uint8_t *element, int write)
{
    if (weft_host_ahead_here.second)
        __builtin_prefetch(element, 0, 2);
    else if (write)
        __builtin_prefetch(element, 1);
    else
        __builtin_prefetch(element, 0);
}

#endif
