/* measure.h - what is found out about one fabric between two ends. */
#ifndef WEFT_BENCH_FABRIC_MEASURE_H
#define WEFT_BENCH_FABRIC_MEASURE_H

#include <stdbool.h>

#include "tools/bench/fabric/line.h"
#include "tools/bench/fabric/noise.h"

#define WEFT_BENCH_CHUNKS  4u /* message sizes */
#define WEFT_BENCH_DEPTHS  5u /* 1, 2, 4, 8, 16 in flight */
#define WEFT_BENCH_REGIONS 3u

typedef struct weft_bench_fabric_terms {
    const char *provider;   /* weft's name */
    weft_link_options link; /* of this end, as a session asks for it */
    uint32_t runs;          /* rounds of which medians are taken, 1 to 15 */
    uint64_t bytes;         /* of one rate's measurement, at least */
    weft_bench_line *line;  /* to the other end */
} weft_bench_fabric_terms;

typedef struct weft_bench_fabric_figures {
    char fabric[48]; /* libfabric's name */
    bool raw;        /* the link is TCP: the yardstick below was measured */
    uint32_t chunks, depths;
    uint64_t chunk[WEFT_BENCH_CHUNKS];
    uint32_t depth[WEFT_BENCH_DEPTHS];
    double rate[WEFT_BENCH_CHUNKS][WEFT_BENCH_DEPTHS]; /* bytes/s from the first post until all is there */
    uint32_t enough[WEFT_BENCH_CHUNKS];                /* in flight for 90 % of that size's peak */
    double latency_us, woken_us; /* half of a round trip of 64 bytes: both ends polling; both asleep until it comes */
    double raw_rate, raw_latency_us;
    uint64_t region_bytes[WEFT_BENCH_REGIONS];
    double region_ms[WEFT_BENCH_REGIONS]; /* opened and closed */
    weft_bench_noise noise;
    /* Keys of the site that follow from the figures; none if the noise does not pass. */
    uint64_t best_chunk; /* the smallest with 95 % of the peak at some depth */
    uint32_t best_depth; /* the smallest with 90 % of it */
    uint64_t bucket_min; /* what that is together: a smaller bucket alone does not fill the link */
    double peak;
} weft_bench_fabric_figures;

/* Measures with an end that serves (bench/fabric/end.h). Errors: the provider's, WEFT_E_UNREACHABLE, WEFT_E_TIMEOUT. */
weft_status weft_bench_fabric_measure(const weft_bench_fabric_terms *terms, weft_bench_fabric_figures *figures);

#endif
