/* host_ahead.h - lines of memory that are asked for before they are used, the way this CPU gains by it: a row. */
#ifndef WEFT_BACKENDS_HOST_AHEAD_H
#define WEFT_BACKENDS_HOST_AHEAD_H

#include "backends/host/host_element.h"

/* When the lines of blocks to come are asked for by a loop that reads a block, counts what is in it and looks for some
 * of it (host_tight_blocks512.h): eighths of a block's lines, at most, for each of its steps. */
typedef struct weft_ahead_blocks {
    uint32_t distance; /* bytes from the block that is read to the first line asked for */
    bool second;       /* into the second cache */
    uint8_t reading, counting, collecting;
    uint8_t listing; /* if something changed in every word of the block */
} weft_ahead_blocks;

/* Distances that suit a kind of CPU. Asking ahead is a hint: no row changes a byte. */
typedef struct weft_host_ahead {
    const char *cpus;
    const char *vendor; /* as CPUID tells it; NULL: of CPUs that nothing is known of */
    unsigned family;
    bool streams;   /* streams that are read are asked for; left to the CPU if not */
    bool scattered; /* scattered elements are asked into the second cache: the first takes few at a time */
    weft_ahead_blocks blocks;
} weft_host_ahead;

/* The rows, the last of which is for CPUs that nothing is known of. */
#define WEFT_HOST_AHEAD_ROWS 4
extern const weft_host_ahead weft_host_ahead_rows[WEFT_HOST_AHEAD_ROWS];

/* The row in use. weft_host_choose takes that of the CPU, once in a process; before that it is the last. */
extern weft_host_ahead weft_host_ahead_here;

void weft_host_ahead_take(void);

/* The row of a CPU by what CPUID tells: the vendor's twelve letters, and the family with its extension. */
const weft_host_ahead *weft_host_ahead_of(const char *vendor, unsigned family);

/* Asks for so many lines from address `at` on; returns where they end. */
WEFT_ALWAYS_INLINE uintptr_t weft_ahead_lines(uintptr_t at, uint32_t lines, bool second)
{
    const uintptr_t end = at + 64 * (uintptr_t)lines;
    for (; at < end; at += 64)
        if (second)
            __builtin_prefetch((const void *)at, 0, 2);
        else
            __builtin_prefetch((const void *)at, 0);
    return end;
}

/* Asks for so many lines of a stream, `distance` bytes after `at`, while the stream is read. Where that is left to the
 * CPU, it brings streams as fast as memory can. Asking beyond the stream's end does no harm. */
WEFT_ALWAYS_INLINE void weft_ahead_stream(const uint8_t *at, uint32_t distance, unsigned lines)
{
    if (weft_host_ahead_here.streams)
        weft_ahead_lines((uintptr_t)at + distance, lines, false);
}

/* Asks for the line of one element, which is to be written if `write` says so (known when compiled). */
WEFT_ALWAYS_INLINE void weft_ahead_element(const uint8_t *element, int write)
{
    if (weft_host_ahead_here.scattered)
        __builtin_prefetch(element, 0, 2);
    else if (write)
        __builtin_prefetch(element, 1);
    else
        __builtin_prefetch(element, 0);
}

#endif
