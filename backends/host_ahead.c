/* host_ahead.c - which row of host_ahead.h this CPU has. */
#include "backends/host_ahead.h"

#include <pthread.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define AMD "AuthenticAMD"

typedef struct ahead_row {
    const char *vendor;
    unsigned family;
    weft_host_ahead ahead;
} ahead_row;

/* docs/PERFORMANCE.md has the figures: what makes diff and encode a tenth faster on Zen 5 costs a quarter on Zen 4.
 * Scattered elements were not timed both ways on Zen 3, whose loads are much like those of Zen 4. */
static const ahead_row rows[] = {
    {AMD, 0x1a, {"Zen 5", .second = false}},
    {AMD, 0x19, {"Zen 3 and 4", .second = true}},
};

static const weft_host_ahead unknown = {"any", .second = false};

weft_host_ahead weft_host_ahead_here = {"any", .second = false};

const weft_host_ahead *weft_host_ahead_of(const char *vendor, unsigned family)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].vendor, vendor) == 0 && rows[i].family == family)
            return &rows[i].ahead;
    return &unknown;
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
