/* host_ahead.c - which row of host_ahead.h this CPU has. */
#include "backends/host/host_ahead.h"

#include <pthread.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define AMD   "AuthenticAMD"
#define INTEL "GenuineIntel"

#define NEAR                                                                                                           \
    {                                                                                                                  \
        6144, false, .reading = 8                                                                                      \
    }
#define ANY                                                                                                            \
    {                                                                                                                  \
        "any", NULL, 0, .streams = true, .blocks = NEAR                                                                \
    }

/* Measured: what makes diff and encode a tenth faster on Zen 5 costs a quarter on Zen 4.
 * Scattered elements were not timed both ways on Zen 3, whose loads are much like those of Zen 4. Of Intel's, Emerald
 * Rapids was timed: it gains by lines asked for at an even pace, whatever is done meanwhile. */
const weft_host_ahead weft_host_ahead_rows[WEFT_HOST_AHEAD_ROWS] = {
    {"Zen 5", AMD, 0x1a, .streams = true, .blocks = NEAR},
    {"Zen 3 and 4", AMD, 0x19, .scattered = true, .blocks = {12288, true, .counting = 8}},
    {"Intel's family 6", INTEL, 6, .streams = true, .scattered = true,
     .blocks = {6144, false, .reading = 2, .counting = 2, .collecting = 1, .listing = 4}},
    ANY,
};

weft_host_ahead weft_host_ahead_here = ANY;

const weft_host_ahead *weft_host_ahead_of(const char *vendor, unsigned family)
{
    const weft_host_ahead *row = weft_host_ahead_rows;
    while (row->vendor && (strcmp(row->vendor, vendor) != 0 || row->family != family))
        row++;
    return row;
}

#if defined(__x86_64__)
static void here_find(void)
{
    unsigned top, words[3], signature, other[3];
    char vendor[sizeof words + 1] = {0};
    if (!__get_cpuid(0, &top, &words[0], &words[2], &words[1]) ||
        !__get_cpuid(1, &signature, &other[0], &other[1], &other[2]))
        return;
    memcpy(vendor, words, sizeof words);
    const unsigned family = (signature >> 8 & 0xf) + ((signature >> 8 & 0xf) == 0xf ? signature >> 20 & 0xff : 0);
    weft_host_ahead_here = *weft_host_ahead_of(vendor, family);
}
#else
static void here_find(void)
{
}
#endif

void weft_host_ahead_take(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, here_find);
}
