/* fleet.h - a trainer and rollouts in one process over the loop, on small odd models, for tests of whole sessions.
 *
 * Weights are kept twice: scattered in memory as an engine binds them, and as dense bytes (the tensors in layout order)
 * that tests change and compare. Every wait has a bound.
 *
 * WEFT_TEST_DEVICE = trainer, rollouts or both gives these ends the deferred backend (deferred.h), of a depth of
 * WEFT_TEST_DEPTH (8). The trainer's shadow is as WEFT_TEST_SHADOW says (host). With WEFT_TEST_BLOCKS all ends bind by
 * blocks with strides. With WEFT_TEST_ORDER rollouts have the tensors in another order than the trainer. */
#ifndef WEFT_TESTS_FLEET_H
#define WEFT_TESTS_FLEET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness/session.h"
#include "providers/loop.h"
#include "weft.h"

#define FLEET_ROLLOUTS 7
#define FLEET_PIECES   256
#define FLEET_HISTORY  512
/* Bound of a wait that should succeed at once; the thread checker makes it many times slower. */
#if defined(WEFT_SANITIZE_THREAD)
#define FLEET_WAIT_MS 240000u
#else
#define FLEET_WAIT_MS 60000u
#endif

/* The tensors: a few thousand bytes of every dtype; those and a tensor of several tiles; megabytes of one. */
typedef enum fleet_size { FLEET_SMALL, FLEET_TILES, FLEET_LARGE } fleet_size;

/* The weights that a rollout binds: the trainer's present bits, others, or nothing. */
typedef enum fleet_start { FLEET_SAME, FLEET_OTHER, FLEET_EMPTY } fleet_start;

/* Memory that a device has and the host does not reach. */
typedef struct fleet_far {
    void *(*take)(uint64_t bytes);
    void (*give)(void *memory);
    void (*write)(void *to, const void *from, uint64_t bytes);
    void (*read)(void *to, const void *from, uint64_t bytes);
} fleet_far;

typedef struct fleet_model {
    weft_layout *layout; /* borrowed */
    uint64_t bytes;
    uint8_t *memory;      /* the scattered weights, with gaps between pieces */
    uint8_t *bound;       /* where they are bound: memory, or a device's address for it */
    const fleet_far *far; /* where `bound` lies and `memory` is a copy; NULL: they are the same bytes */
    uint64_t memory_bytes;
    weft_piece pieces[FLEET_PIECES];
    uint64_t piece_count;
    uint64_t places[FLEET_PIECES]; /* of a piece's bytes in the dense image */
    struct block_world *blocks;    /* the weights lie in boxes with strides; NULL: in the pieces */
} fleet_model;

typedef struct fleet_end {
    char name[32];
    weft_session *session;
    fleet_model model;
    const fleet_far *far; /* set before it starts or joins: where its weights lie */
} fleet_end;

/* A version that was published, to compare with. */
typedef struct fleet_version {
    uint64_t root;
    uint64_t number;
    uint8_t *dense;
} fleet_version;

typedef struct fleet {
    char listen[96]; /* "trainer.listen=..." of the trainer that is open */
    const char *overrides[32];
    size_t override_count;
    weft_layout *layout;
    uint64_t bytes;
    uint64_t seed;
    uint8_t *dense, *scratch_dense; /* the trainer's next bits */
    fleet_end trainer;
    fleet_end rollouts[FLEET_ROLLOUTS];
    fleet_version history[FLEET_HISTORY];
    uint64_t history_count;
    uint64_t newest;
    bool trainer_device, rollout_device; /* they have the deferred backend */
    uint64_t first_version;              /* number that a trainer which opens from now on begins with */
    bool wants;                          /* rollouts that open from now on name their versions */
    bool tells;                          /* rollouts that open from now on report that the trainer is away */
    const struct fleet_kind *kind;       /* of a test that has one */
    char relays[2][48];                  /* "peer.NAME.relay=127.0.0.1:PORT" */
    bool blocks;                         /* ends that bind from now on do so by blocks with strides */
    weft_layout *other; /* layout of rollouts that open from now on, which the fleet frees; NULL: the trainer's */
    /* Gets the trainer's lines, with the fleet; NULL: no call. Set it before the trainer starts. */
    void (*heard)(void *f, weft_log_level level, const char *line);
    weft_log_fn log; /* of ends that open; its user is the end's name. NULL: standard error */
} fleet;

uint64_t fleet_random(uint64_t *seed);
uint64_t fleet_below(uint64_t *seed, uint64_t limit);
uint64_t fleet_now_ms(void);
void fleet_sleep_ms(uint32_t ms);
/* Takes lines of an end, whose name is `user`: standard error gets them with WEFT_TEST_LOG=1. */
void fleet_hear(void *user, weft_log_level level, const char *line);
/* Cuts all connections of a session, so that a goodbye finds no way out, as of a process that dies. */
void fleet_cut(const weft_session *session);

/* ---- fleet_model.c */
weft_layout *fleet_layout(fleet_size size);
/* The same tensors in another order. */
weft_layout *fleet_layout_shuffled(const weft_layout *layout, uint64_t seed);
/* From now on dense bytes are those of a layout with the same tensors in another order. */
void fleet_model_dense_of(fleet_model *model, const weft_layout *layout);
/* Scatters the layout over memory; each `style` cuts and orders the pieces in another way (0: whole tensors). */
void fleet_model_open(fleet_model *model, weft_layout *layout, unsigned style);
/* The same, over memory of the deferred device. */
void fleet_model_open_device(fleet_model *model, weft_layout *layout, unsigned style);
/* The same, in memory of another kind. */
void fleet_model_open_far(fleet_model *model, weft_layout *layout, unsigned style, const fleet_far *far);
/* The same in boxes with strides (block_world.h), in memory of another kind if `far` says so. */
void fleet_model_open_blocks(fleet_model *model, weft_layout *layout, unsigned style, const fleet_far *far);
void fleet_model_close(fleet_model *model);
/* Binds the weights, by pieces or by blocks; attachment: NULL: none. */
weft_status fleet_model_bind(const fleet_model *model, weft_session *session, const char *attachment, uint32_t flags);
void fleet_model_put(fleet_model *model, const uint8_t *dense);
/* A test failure if a byte was written that is no weight of a box. */
void fleet_model_get(const fleet_model *model, uint8_t *dense);
/* Random bits with many that floats find special. */
void fleet_fill(const weft_layout *layout, uint8_t *dense, uint64_t *seed);
/* Gives about `per_mille` of the elements other bits; 1000: all. */
void fleet_change(const weft_layout *layout, uint8_t *dense, uint32_t per_mille, uint64_t *seed);
/* First byte of a tensor in the dense image. */
uint64_t fleet_tensor_at(const weft_layout *layout, const char *name);
/* Address of the dense byte `at` in the scattered weights. */
uint8_t *fleet_model_at(fleet_model *model, uint64_t at);

/* ---- fleet.c */
/* Makes a fleet without sessions; `overrides` end with NULL and must live as long as it. */
fleet *fleet_open(fleet_size size, const char *const *overrides);
void fleet_close(fleet *f);
/* Opens a fleet whose named ends have the deferred backend, of this depth. */
fleet *fleet_open_device(fleet_size size, const char *const *overrides, bool trainer, bool rollouts, uint32_t depth);
/* A fleet that is opened before a test, and closed after the test. */
typedef struct fleet_kind {
    fleet_size size;
    bool starts; /* its trainer is started */
    const char *const *overrides;
    const char *relays;       /* rollouts that are relays, a letter each */
    const char *attachment;   /* of the trainer that starts */
    bool wants, tells;        /* as in the fleet */
    bool device;              /* rollouts have the deferred backend, of depth 5 */
    unsigned joins;           /* the first rollouts join with the trainer's bits, and hold its version */
    void (*open)(fleet *f);   /* before the trainer starts */
    void (*opened)(fleet *f); /* at the end */
    void (*close)(fleet *f);  /* before the fleet closes */
} fleet_kind;
#define FLEET_WITH(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FLEET_TEST(test, kind)                                                                                         \
    cmocka_unit_test_prestate_setup_teardown(test, fleet_setup, fleet_teardown, (void *)&(kind))
/* A setup that finds a kind at *state, and leaves the fleet there; the teardown that closes a fleet. */
int fleet_setup(void **state);
/* Adds relays to the site, on ports that are free now, because others must know them beforehand. */
void fleet_add_relays(fleet *f, const char *names);
int fleet_teardown(void **state);
weft_site *fleet_site(const fleet *f, const char *extra);
/* Opens the trainer and binds its bits, with an attachment (NULL: none). */
void fleet_start_trainer(fleet *f, const char *attachment);
/* Open a fleet in two steps. Between them the trainer listens, and no rollout can join. */
void fleet_open_trainer(fleet *f);
void fleet_bind_trainer(fleet *f, const char *attachment);
/* Closes it in good order; fleet_start_trainer may follow, on the same port. */
void fleet_stop_trainer(fleet *f);
/* Opens rollout `at`, named a, b, c and x1 to x4 (which the site admits by a pattern); `extra`: one more override or
 * NULL. */
void fleet_open_rollout(fleet *f, unsigned at, const char *extra);
void fleet_bind_rollout(fleet *f, unsigned at, fleet_start start, const char *attachment);
void fleet_join(fleet *f, unsigned at, fleet_start start);
/* Joins with `dense` as its bits. */
void fleet_join_bits(fleet *f, unsigned at, uint8_t *dense);
void fleet_leave(fleet *f, unsigned at);
/* Changes the trainer's bits and publishes them as the next version. */
void fleet_publish(fleet *f, uint32_t per_mille);
/* Publishes, and overwrites the weights as soon as they are free. Returns how often weft said so. `look`: NULL, or
 * called after that. */
uint32_t fleet_publish_over(fleet *f, uint32_t per_mille, void (*look)(fleet *f));
/* Publishes so, and the first `count` rollouts end with these bits. */
void fleet_publish_all(fleet *f, unsigned count, uint32_t per_mille);
/* Joins rollout `at` behind relay a. */
void fleet_join_behind(fleet *f, unsigned at);
/* Drops the events that the trainer has, and with them their lines. */
void fleet_drop_events(const fleet *f);
/* Publishes the trainer's bits as they stand in f->dense. */
void fleet_publish_dense(fleet *f, const char *attachment);
/* Waits in slices until weft_staged has another answer than WEFT_AGAIN, and returns that answer. */
weft_status fleet_alone(fleet *f, unsigned at);
/* Waits for something to commit and commits it; the status of what failed, WEFT_AGAIN at the bound. Checks the bits. */
weft_status fleet_commit(fleet *f, unsigned at, uint32_t bound_ms);
/* Commits until the rollout holds the newest version; a test failure at the bound. */
void fleet_catch_up(fleet *f, unsigned at);
void fleet_catch_up_within(fleet *f, unsigned at, uint32_t bound_ms);
/* Publishes under the faults for `ms` and commits what comes at the first `count` rollouts. */
void fleet_suffer(fleet *f, unsigned count, weft_loop_faults faults, uint32_t ms);
/* The same until `enough` says so; a test failure after hundreds of versions. */
void fleet_suffer_until(fleet *f, unsigned count, weft_loop_faults faults, bool (*enough)(fleet *f));
/* Without faults all catch up, with what was published and with one more version. */
void fleet_recover(fleet *f, unsigned count);
/* The rollout's bytes are those of a published version, the one it says it holds. */
void fleet_check(fleet *f, unsigned at);
/* The rollout's bytes are `dense`. */
void fleet_check_bytes(fleet *f, unsigned at, const uint8_t *dense);
/* Takes events until one of `kind` comes (of `peer`, unless NULL). */
bool fleet_event(weft_session *session, weft_event_kind kind, const char *peer, uint32_t bound_ms, weft_event *event);
/* The trainer's line for a peer; false: never seen. */
bool fleet_peer(fleet *f, const char *name, weft_peer_info *info);
/* The same of a peer that was seen. */
weft_peer_info fleet_line(fleet *f, const char *name);
void fleet_wait_state(fleet *f, const char *name, weft_peer_state state, uint32_t bound_ms);
#endif
