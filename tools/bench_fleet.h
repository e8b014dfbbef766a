/* bench_fleet.h - what the files of `weft bench fleet` share: what a fleet of so many rollouts costs its trainer. */
#ifndef WEFT_TOOLS_BENCH_FLEET_H
#define WEFT_TOOLS_BENCH_FLEET_H

#include <limits.h>

#include "args.h"
#include "bench.h"

#define WEFT_BENCH_FLEETS_MAX 8u

typedef struct weft_fleet_terms {
    const weft_bench_pair *pair; /* each update goes from one of its models to the other */
    uint32_t updates;
    char folder[PATH_MAX]; /* for the site file */
} weft_fleet_terms;

/* One fleet, medians over its updates. CPU times are the trainer's, in its own calls and threads. */
typedef struct weft_fleet_row {
    uint32_t peers;
    bool processes;
    uint64_t peer_bytes;    /* trainer's memory for one more peer */
    uint64_t rollout_bytes; /* a rollout's, weights not counted */
    uint64_t update_bytes;  /* to one peer */
    double publish_ms;      /* CPU of weft_publish */
    double together_us;     /* CPU of serving one peer one update when a step finds all of them with news */
    double alone_us;        /* the same when each has its news for itself, the worst case; 0: not measured */
    double join_us;         /* CPU of one join */
    double held_ms;         /* publish to all hold it, on this machine's clock, all rollouts on its cores too */
} weft_fleet_row;

/* All in one thread over the provider loop, on a clock of its own. */
weft_status weft_fleet_simulate(const weft_fleet_terms *terms, uint32_t peers, weft_fleet_row *row);
/* Each rollout a process of this program, over tcp. */
weft_status weft_fleet_run(const weft_fleet_terms *terms, uint32_t peers, weft_fleet_row *row);

/* Writes FOLDER/site.ini. Errors: WEFT_E_FILE. */
weft_status weft_fleet_site_write(const weft_fleet_terms *terms, const char *listen, const char *provider,
                                  uint32_t max_peers, bool manual);
weft_status weft_fleet_site_load(const weft_fleet_terms *terms, weft_site **site);
/* Writes the trainer's next bits over `image`. */
void weft_fleet_turn(const weft_fleet_terms *terms, uint64_t version, uint8_t *image);

int weft_bench_fleet(const weft_args *args);

#endif
