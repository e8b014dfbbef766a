/* fleet_faulty.h - a trainer and two rollouts on a fabric with faults, and deadlines that soon tell of them. */
#ifndef WEFT_TESTS_FLEET_FAULTY_H
#define WEFT_TESTS_FLEET_FAULTY_H

#include "tests/support/fleet.h"

static const char *const faulty_overrides[] = {"session.io_deadline=300ms", "peers.heartbeat=3s",
                                               "commit.deadline=400ms", "provider.loop.chunk=64KiB", NULL};

static const fleet_kind faulty_fleet = {FLEET_TILES, .overrides = faulty_overrides};
/* Deadlines that no busy machine misses, for what must not lose a peer. */
static const fleet_kind patient_fleet = {.size = FLEET_TILES};

/* Two rollouts that hold what the trainer has. */
static inline void faulty_start(fleet *f)
{
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
}

/* Versions on a fabric with these faults, then without: all are identical. */
static inline void faulty_endure(fleet *f, weft_loop_faults faults)
{
    faulty_start(f);
    fleet_suffer(f, 2, faults, 600);
    fleet_recover(f, 2);
}

#endif
