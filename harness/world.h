/* world.h - sources and ranks of a made-up model in one thread, over provider loop and on a clock of their own. */
#ifndef WEFT_HARNESS_WORLD_H
#define WEFT_HARNESS_WORLD_H

#include "harness/clock.h"
#include "harness/share.h"

typedef struct fleet_member {
    weft_session *session;
    fleet_share share;
    char listen[64]; /* of a source */
} fleet_member;

typedef struct fleet_world {
    fleet_clock *clock;
    weft_model *model;
    fleet_member *sources, *ranks;
    uint32_t source_count, rank_count;
    double sources_us; /* CPU in the sources' steps, summed up */
    bool alone;        /* the sources take a step after every rank's step */
} fleet_world;

/* Room for so many of both; none is open. */
void fleet_world_open(fleet_world *w, fleet_clock *clock, weft_model *model, uint32_t sources, uint32_t ranks);
void fleet_world_close(fleet_world *w);
/* Opens one more source, in the model's own memory; `run` 0: it draws one. */
void fleet_source_add(fleet_world *w, const weft_site *site, fleet_cut cut, uint64_t run);
/* Opens one more rank, p0, p1, ..., with a copy of its part. It joins all sources; one alone is where the site says. */
void fleet_rank_add(fleet_world *w, const weft_site *site, fleet_cut cut);
/* Publishes the model as it stands at all sources; `info` (NULL: no matter) is the last one's. Returns the CPU time in
 * ms. */
double fleet_world_publish(fleet_world *w, uint64_t version, weft_update_info *info);
/* Rounds until all ranks hold the version. */
void fleet_world_settle(fleet_world *w, uint64_t version);
/* CPU time of this process. */
double fleet_cpu_us(void);

#endif
