/* sim_tick.h - a simulation in which nothing happens but time, and a look into its trainer. */
#ifndef WEFT_TESTS_SIM_TICK_H
#define WEFT_TESTS_SIM_TICK_H

#include "tests/support/sim.h"

#include <string.h>

#include "peer/peer.h"

/* The time that an end may be silent for, or may take for its work. */
#define SIM_PATIENCE_MS (SIM_IO_MS + SIM_HEARTBEAT_MS)

static inline uint64_t sim_ms(const sim *s)
{
    return s->time.now_ns / WEFT_NS_PER_MS;
}

/* Lets a millisecond pass in which no end commits. */
static inline void sim_tick(sim *s)
{
    s->time.now_ns += WEFT_NS_PER_MS;
    fleet_step(s->trainer.session);
    for (unsigned i = 0; i < s->rollout_count; i++)
        if (s->rollouts[i].session)
            fleet_step(s->rollouts[i].session);
}

static inline uint64_t sim_lost(const sim *s)
{
    return fleet_stats(s->trainer.session).peers_lost;
}

static inline weft_peer *sim_record(const sim *s, const char *name)
{
    weft_trainer *trainer = s->trainer.session->trainer;
    for (uint32_t i = 0; i < trainer->peers.count; i++)
        if (strcmp(trainer->peers.list[i].claim.name, name) == 0)
            return &trainer->peers.list[i];
    fleet_fail("no peer %s", name);
}

#endif
