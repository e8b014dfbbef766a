/* eager.h - a simulation whose trainer takes a step with everyone else before each run that it encodes, so that updates
 * go out while they are encoded. */
#ifndef WEFT_TESTS_EARLY_H
#define WEFT_TESTS_EARLY_H

#include "tests/support/sim.h"

#include "peer/peer.h"
#include "rollout/rollout.h"

#define EARLY_SETTLE_MS 60000u

/* The script of events while the trainer encodes. */
typedef struct early {
    sim *s;
    const weft_backend *real;
    uint64_t runs;    /* encoded in this publish */
    uint64_t fail_at; /* the run that fails; 0: none */
    unsigned rounds;  /* of the others before each */
    void (*act)(sim *s, uint64_t run);
    uint64_t buckets; /* that rollout 0 had taken of the update, the most seen */
    bool staged;      /* a rollout had all of the update */
} early;

extern early early_script;
extern weft_backend early_backend;    /* the trainer's */
extern const char early_tight_site[]; /* a site with two peers; a format of the journal's size and of staging's */

/* The trainer, on a site of this text (NULL: the simulation's own). */
void early_start(sim *s, const char *text);

/* The same with two rollouts that hold what it has. */
sim *early_open_two(fleet_size size, uint64_t seed);

/* Changes so many of a thousand elements and publishes; the run `fail_at` fails, 0: none. */
weft_status early_publish(sim *s, uint32_t per_mille, uint64_t fail_at);

weft_trainer *early_trainer(sim *s);

/* Fail the test: what a rollout holds, what state the trainer has it in, whether anything is left of an update that
 * came to nothing. */
void early_must_hold(sim *s, unsigned at, uint64_t number);
void early_must_be(sim *s, unsigned at, weft_peer_state state);
void early_must_be_clean(sim *s);

#endif
