/* codec.h - the files of bench_codec share these: floors, planes, other methods, yardsticks and stages. */
#ifndef WEFT_BENCH_CODEC_CODEC_H
#define WEFT_BENCH_CODEC_CODEC_H

#include "model/bench_pair.h"

#define WEFT_BENCH_SETS 3u /* kernel sets */

/* ---- floors */

/* Bits per changed element for a code that knows the shares of this very update and of an element its old exponent, or,
 * free of a base, nothing; what changes from tile to tile it does not know, so that a code which follows that may go
 * below. */
typedef struct weft_bench_floor {
    uint64_t elements, changed;
    double position, direction, magnitude; /* exponent known */
    double position_free, magnitude_free;  /* nothing known */
    double one_step;                       /* share of the changes that are of one step */
} weft_bench_floor;

weft_status weft_bench_floor_find(const weft_bench_pair *pair, weft_bench_floor *floor);

/* ---- where the bits go */

typedef enum weft_bench_plane {
    WEFT_BENCH_HEADERS,    /* of frames */
    WEFT_BENCH_LISTS,      /* descriptors of level tight */
    WEFT_BENCH_POSITIONS,  /* which elements changed */
    WEFT_BENCH_DIRECTIONS, /* up or down */
    WEFT_BENCH_EXCEPTIONS, /* which changes are of more than one step */
    WEFT_BENCH_MAGNITUDES, /* by how many; and what fills the frame up to a word */
    WEFT_BENCH_PADDING,    /* other planes up to a byte */
    WEFT_BENCH_DENSE,      /* frames of level full or pairs */
    WEFT_BENCH_CHECKS,     /* of frames, after them */
    WEFT_BENCH_REST,       /* header, parameters, shape, tail, trailer */
    WEFT_BENCH_PLANES
} weft_bench_plane;

const char *weft_bench_plane_name(weft_bench_plane plane);
/* Bits of an update file by plane; they sum up to the file. Errors: WEFT_E_CORRUPT. */
weft_status weft_bench_planes_count(const weft_bench_bytes *file, const weft_layout *layout,
                                    uint64_t bits[WEFT_BENCH_PLANES]);

/* ---- other methods */

#define WEFT_BENCH_RIVALS 5u

typedef struct weft_bench_rival {
    const char *name;
    const char *skipped; /* why it was not run; NULL: it was */
    uint64_t bytes;
    double encode_ms, decode_ms; /* medians; one thread; compare and apply included */
} weft_bench_rival;

/* Runs the published methods on a pair, each decoded back and compared with the new weights.
 * Errors: WEFT_E_TARGET (one of them gave other weights), WEFT_E_MEMORY, WEFT_E_FILE, WEFT_E_SYSTEM. */
weft_status weft_bench_rivals_run(weft_bench_pair *pair, uint32_t rounds, weft_bench_rival rivals[WEFT_BENCH_RIVALS]);

/* ---- speed */

typedef enum weft_bench_yard {
    WEFT_BENCH_COPY,
    WEFT_BENCH_READ_ONE, /* in order */
    WEFT_BENCH_READ_TWO,
    WEFT_BENCH_READ_ONE_WIDE, /* at four places at once: the most that memory gives */
    WEFT_BENCH_READ_TWO_WIDE,
    WEFT_BENCH_VISIT,      /* the lines that change are read; when all are, they are written */
    WEFT_BENCH_READ_VISIT, /* one stream is read in order; when all is, the lines that change are written */
    WEFT_BENCH_YARDS
} weft_bench_yard;

const char *weft_bench_yard_name(weft_bench_yard yard);
/* Times each yardstick once, on the pair's images, which keep their bits. Errors: WEFT_E_MEMORY, WEFT_E_SYSTEM. */
weft_status weft_bench_yards_time(weft_bench_pair *pair, uint32_t threads, double ms[WEFT_BENCH_YARDS]);
/* Sees to it that no image is in a cache, some of which hold more than three small models; on x86-64 and aarch64 alone:
 * elsewhere they are read, so that little of `work` is near. */
void weft_bench_cool(const weft_bench_pair *pair);

typedef enum weft_bench_stage {
    WEFT_BENCH_ENCODE_TIGHT, /* parameters chosen, compared and encoded: bench/codec/rig.h */
    WEFT_BENCH_ENCODE_FAST,
    WEFT_BENCH_DECODE_TIGHT, /* frames checked, decoded and applied */
    WEFT_BENCH_DECODE_FAST,
    WEFT_BENCH_CHOOSE, /* the parameters of tight; in its first stage */
    WEFT_BENCH_DIGEST,
    WEFT_BENCH_PACK, /* weights into byte planes */
    WEFT_BENCH_UNPACK,
    WEFT_BENCH_STAGES
} weft_bench_stage;

typedef struct weft_bench_stage_row {
    const char *name;
    weft_bench_yard yard; /* the bar is a ratio to it */
    double bar;           /* 0: none */
    weft_bench_yard most; /* what the stage cannot do without, as fast as memory can */
} weft_bench_stage_row;

extern const weft_bench_stage_row weft_bench_stages[WEFT_BENCH_STAGES];

typedef struct weft_bench_speed {
    uint32_t rounds, teams, sets;
    double waited; /* share of the time for which the measuring thread was ready but had no core */
    uint32_t threads[WEFT_BENCH_TEAMS_MAX];
    char kernels[WEFT_BENCH_SETS][16];
    double yard[WEFT_BENCH_TEAMS_MAX][WEFT_BENCH_YARDS][WEFT_BENCH_ROUNDS_MAX];
    double stage[WEFT_BENCH_SETS][WEFT_BENCH_TEAMS_MAX][WEFT_BENCH_STAGES][WEFT_BENCH_ROUNDS_MAX]; /* 0: not run */
} weft_bench_speed;

weft_status weft_bench_speed_run(weft_bench_pair *pair, const weft_bench_terms *terms, weft_bench_speed *speed);

/* How long the calling thread was ready but without a core so far; 0 where the system does not tell. */
double weft_bench_waited_ms(void);
/* Median over the rounds of yardstick / stage. */
double weft_bench_ratio(const weft_bench_speed *speed, uint32_t set, uint32_t team, weft_bench_stage stage,
                        weft_bench_yard yard);
/* How much faster a team is than the first one; 0 for that. */
double weft_bench_gain(const weft_bench_speed *speed, uint32_t set, uint32_t team, weft_bench_stage stage);
/* Bar of two threads against one: 1.7, or 0.85 of the yardstick of two if that is less; 0: none. */
double weft_bench_gain_bar(const weft_bench_speed *speed, uint32_t set, uint32_t team, weft_bench_stage stage);

#endif
