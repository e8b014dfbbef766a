/* source_world.h - several sources and several ranks over the loop, in one thread, on a clock and a seed of their own.
 *
 * Each process has a part of the model, in a dense model of its own where all else is a canary. Sources publish the
 * same numbers, each when it is told to. */
#ifndef WEFT_TESTS_SOURCE_WORLD_H
#define WEFT_TESTS_SOURCE_WORLD_H

#include "tests/support/fleet.h"

#include "harness/clock.h"
#include "shard/cut.h"

#define SOURCES 4u
#define RANKS   3u
#define SLICES  96u
#define HISTORY 256u

#define TENSORS 32u

/* An order of the tensors that one process has. */
typedef struct source_order {
    weft_layout *layout;
    uint64_t number[TENSORS]; /* of each tensor of the world's layout */
} source_order;

/* The part of the model that one process has, in a dense model of its own where all else is a canary. */
typedef struct part {
    weft_slice slices[SLICES];
    uint64_t count;
    uint8_t *dense;
    const source_order *order; /* by which the process names tensors; NULL: the world's */
} part;

typedef struct source {
    weft_session *session;
    part has;
    uint64_t published; /* number */
    uint64_t strays;    /* a run of its own, which it began with; 0: the world's */
    char listen[96];
} source;

typedef struct rank {
    weft_session *session;
    part has;
    bool named; /* set before it opens */
    bool blocked, held_back;
    bool rotten; /* a weight has other bits than the version held, so that source_check has nothing to say */
    uint64_t wished;
    uint64_t busy_until_ns; /* it commits nothing before that */
} rank;

typedef struct version {
    uint64_t run, number;
    uint8_t *dense;
} version;

typedef struct source_world {
    fleet_clock time;
    uint64_t seed, incarnation;
    source_order orders[SOURCES + RANKS]; /* without layouts: all have the world's order */
    char text[2048];                      /* of the site */
    weft_layout *layout;
    weft_cells cells;
    uint64_t bytes;
    uint64_t run, newest; /* of the sources */
    source sources[SOURCES];
    rank ranks[RANKS];
    unsigned source_count, rank_count;
    version history[HISTORY];
    unsigned history_count;
    uint8_t *dense;
    const char *store_level;
    const char *store;                    /* folder that the sources write their versions into; NULL: none */
    void (*turn)(struct source_world *w); /* one turn of everybody, when a session waits */
} source_world;

/* Gets the lines of ranks and sources; NULL: nobody does. */
extern void (*source_heard)(const char *line);

uint64_t source_below(source_world *w, uint64_t limit);

/* The world's site, with one override or NULL. */
weft_site *source_site(const source_world *w, const char *override);
/* Opens a world without sessions. */
void source_world_open(source_world *w, uint64_t seed);
void source_world_close(source_world *w);
/* Gives each process that opens from now on an order of its own. */
void source_shuffle(source_world *w);
/* The first ranks that open from now on are relays, each behind the one before. The others come through the last. */
void source_relay_begin(source_world *w, unsigned relays);

/* ---- source_part.c */
/* Takes memory that is all canary, for slices that are added. */
void part_open(const source_world *w, part *p);
void part_free(part *p);
/* Copies the memory to another place. The old memory is the caller's. */
void part_move(const source_world *w, part *p);
void part_bind(const source_world *w, const part *p, weft_session *session, uint32_t flags);
/* Writes a block for each slice. */
void part_blocks(const source_world *w, const part *p, weft_block blocks[SLICES]);
void part_add(part *p, weft_slice slice);
/* Writes slices by the part's numbers, and returns them. */
const weft_slice *part_names(const part *p, const part *of, weft_slice slices[SLICES]);
/* Gives a part the bits of a dense model; tells whether it has them, and whether nothing beside it was written. */
void part_put(const source_world *w, part *p, const uint8_t *dense);
bool part_has(const source_world *w, const part *p, const uint8_t *dense);
bool part_is_clean(const source_world *w, const part *p);

/* ---- sources */
/* A run begins: `count` sources of holdings at random, at `number`, whose bits are w->dense. */
void source_run_begin(source_world *w, unsigned count, uint64_t number);
/* The same, of sources that all have something. */
void source_run_whole(source_world *w, unsigned count, uint64_t number);
void source_run_end(source_world *w);
/* The same sources begin a later run, from the bits of a version. */
void source_run_again(source_world *w, const version *from);
/* Opens a source, with the bits of the number that it published last; source_start binds them too. */
void source_open(source_world *w, unsigned i);
void source_start(source_world *w, unsigned i);
/* Ends a source without a goodbye. */
void source_kill(source *s);
/* Starts a source again, in a run of its own, with the bits of a model. What it has then is a version of that run. */
void source_stray(source_world *w, unsigned i, uint64_t run, const uint8_t *dense);
/* Starts a source that strayed again, in the run of the others. */
void source_return(source_world *w, unsigned i);
/* Changes the model, and gives it the next number. No source has published that yet. */
void source_publish(source_world *w, uint32_t per_mille);
/* A source publishes a number, of those that it has not. */
void source_go_to(source_world *w, source *s, uint64_t number);

/* ---- ranks */
/* Opens a rank whose part was drawn already. */
void source_rank_open(source_world *w, unsigned i, const char *override, bool empty);
/* Draws a view: all keys, or some. */
void source_view_draw(source_world *w, rank *r);
/* Draws a view, and opens the rank; `dense` NULL: empty. */
void source_rank_join(source_world *w, unsigned i, const char *override, const uint8_t *dense);
void source_rank_close(rank *r);
void source_rank_kill(rank *r);
/* Returns what a run gave a number; NULL: nothing. */
const version *source_find(const source_world *w, uint64_t run, uint64_t number);
/* A rank that holds a version has its bits. */
void source_check(const source_world *w, const rank *r);
#endif
