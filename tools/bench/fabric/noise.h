/* noise.h - what else the machine did while a fabric was measured, and whether the figures are worth anything then. */
#ifndef WEFT_BENCH_FABRIC_NOISE_H
#define WEFT_BENCH_FABRIC_NOISE_H

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds for which a thread wanted a processor, and had one. */
typedef struct weft_bench_turns {
    uint64_t wanted_ns, had_ns;
} weft_bench_turns;

/* Time that all processors of the host spent so far; below 0: the system does not tell. */
typedef struct weft_bench_ticks {
    double all, stolen; /* of them a hypervisor's for others */
} weft_bench_ticks;

/* Shares of 1; below 0 what is not known. */
typedef struct weft_bench_noise {
    double waited_here, waited_there; /* of the time that an end wanted a processor, without one */
    double stolen_here;               /* of the processors' time, by a hypervisor */
    double rate_spread;               /* of a rate: what lies between the quarters of its runs, in the middle */
} weft_bench_noise;

/* Wants a processor for `ms` milliseconds, and adds up. */
void weft_bench_spin(uint32_t ms, weft_bench_turns *turns);
/* The share of the time without one. */
double weft_bench_waited(const weft_bench_turns *turns);

weft_bench_ticks weft_bench_ticks_now(void);
/* The stolen share of what lies between. */
double weft_bench_stolen(const weft_bench_ticks *from, const weft_bench_ticks *to);

/* The distance between the quarters of what was measured several times, of its middle; `values` rise. Below 0: fewer
 * than 4. */
double weft_bench_spread(const double *values, uint32_t count);

/* Whether figures that were measured amid this say something of the fabric. `why`: else what they say it of. */
bool weft_bench_noise_passes(const weft_bench_noise *noise, char why[200]);

#endif
