/* sim.h - a trainer and rollouts over the loop, in one thread, on a clock and a seed of their own: one seed is one
 * schedule.
 *
 * Nothing happens but in a round: every end that is neither stopped nor inside a call that waits takes one step, in
 * random order, engines commit what is staged, and a millisecond passes. Every round checks the bits of every end. */
#ifndef WEFT_TESTS_SIM_H
#define WEFT_TESTS_SIM_H

#include "tests/support/fleet.h"
#include "tests/support/sim_view.h"

#include "harness/clock.h"

#define SIM_ROLLOUTS 10

/* Deadlines of the site, in ms of the simulation. */
#define SIM_HEARTBEAT_MS 200u
#define SIM_IO_MS        300u
#define SIM_COMMIT_MS    400u

#define SIM_WISHES 32u

typedef struct sim_end {
    char name[32];
    weft_session *session; /* NULL: not there */
    fleet_model model;
    sim_view *view;              /* the part of the model that it takes; NULL: all, in `model` */
    bool named;                  /* it names the versions that it gets */
    uint64_t wished[SIM_WISHES]; /* numbers that it named, the latest at wishes - 1 modulo SIM_WISHES */
    uint64_t wishes;
    bool wishing;       /* the latest is open still */
    uint64_t held_back; /* root of the version whose commit it holds; 0: none */
    uint8_t *start;     /* the bits bound at first; NULL: none */
    uint64_t start_root;
    bool blocked; /* in a call that waits, which makes its steps */
    bool zombie;  /* stopped for good: another one bears its name now */
    bool rotten;  /* a weight has other bits than what is held, until a scrub finds none such */
    uint64_t stopped_until_ns, stopped_since_ns;
    uint64_t staged_root;   /* root of what was staged last */
    uint64_t busy_until_ns; /* it commits nothing before that */
} sim_end;

typedef struct sim {
    fleet_clock time;
    uint64_t seed;
    char text[2048]; /* of the site */
    char listen[96];
    const char *overrides[4]; /* of the site, for both ends; set before the trainer starts */
    weft_layout *layout;
    uint64_t bytes;
    weft_cells cells;  /* of the site's cuts; none: the site has no cut, and all rollouts take all */
    unsigned named_in; /* one rollout in so many names its versions; 0: none; set before they join */
    /* Takes the place of sim_commit in the rounds; NULL: it does not. */
    void (*commit)(struct sim *s, sim_end *end);
    bool holds; /* some commits are held, and kept or undone later */
    bool rots;  /* weights rot, and are to be repaired */
    bool small; /* bits are compared in every round, not only after a commit */
    uint8_t *dense, *other;
    sim_end trainer;
    uint64_t trainer_steady_ns; /* it has been stepped in every round since then */
    sim_end rollouts[SIM_ROLLOUTS];
    unsigned rollout_count;
    fleet_version history[FLEET_HISTORY];
    uint64_t history_count;
    uint64_t newest, incarnation;
    char attachment[32];
    /* Called within rounds, also while an end is blocked; NULL: calm. */
    void (*act)(struct sim *s);
} sim;

/* Makes it without sessions; `rollouts` at most SIM_ROLLOUTS. */
sim *sim_open(fleet_size size, unsigned rollouts, uint64_t seed);
/* Gives the site cuts: from then on the trainer's layout is one of cells, and rollouts take keys at random. */
void sim_cut(sim *s);
/* Closes what is open. */
void sim_close(sim *s);

uint64_t sim_below(sim *s, uint64_t limit);

void sim_round(sim *s);
void sim_rounds(sim *s, uint64_t count);
/* Does sim_rounds without any end acting meanwhile. */
void sim_calm(sim *s, uint64_t rounds);

/* ---- the trainer; it has the bits of s->dense */
void sim_start_trainer(sim *s);
void sim_stop_trainer(sim *s);
/* A process that dies: no goodbye. */
void sim_kill_trainer(sim *s);
void sim_publish(sim *s, uint32_t per_mille);
/* The trainer's newest version has the bits of s->dense. */
void sim_remember(sim *s);

/* ---- rollouts */
/* Joins under `name` with these bits (NULL: none). */
void sim_join(sim *s, sim_end *end, const char *name, const uint8_t *dense, const char *override);
void sim_leave(sim *s, sim_end *end);
void sim_kill(sim *s, sim_end *end);
/* Takes no step for so long, as a process under SIGSTOP. */
void sim_stop(sim *s, sim_end *end, uint64_t ms);
/* Commits what is staged, as an engine does between two decode steps. */
void sim_commit(sim *s, sim_end *end);
bool sim_awake(const sim *s, const sim_end *end);
/* The trainer's line for a name; false: never seen. */
bool sim_peer(const sim *s, const char *name, weft_peer_info *info);

/* The bits are those of what is held. */
void sim_check(sim *s, const sim_end *end);
/* Ends every stop, and waits until all rollouts that are there hold the newest version. */
void sim_settle(sim *s, uint64_t bound_ms);

#endif
