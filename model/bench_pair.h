/* bench_pair.h - weights to measure with: a pair in memory, and updates between them.
 *
 * All is measured on memory of one kind (anonymous, huge pages where they can be had), and in rounds: each round does
 * everything once, so that a disturbance of the machine disturbs weft and yardstick alike. */
#ifndef WEFT_MODEL_BENCH_PAIR_H
#define WEFT_MODEL_BENCH_PAIR_H

#include <stdbool.h>

#include "weft.h"

#define WEFT_BENCH_ROUNDS_MAX 99u
#define WEFT_BENCH_TEAMS_MAX  4u /* thread counts in one run */
#define WEFT_BENCH_CASES_MAX  8u

typedef struct weft_bench_terms {
    uint32_t rounds;
    uint32_t teams;
    uint32_t threads[WEFT_BENCH_TEAMS_MAX];
} weft_bench_terms;

/* Median of `count` values, at most WEFT_BENCH_ROUNDS_MAX. */
double weft_bench_median(const double *values, uint32_t count);

/* ---- weights */

/* Old and new weights and a third set to work on: images of one layout, tensors in its order, each from a multiple of 8
 * bytes on. */
typedef struct weft_bench_pair {
    char name[256];
    weft_layout *layout;
    uint64_t bytes; /* of an image */
    bool words;     /* all elements have 16 bits: the image is an array of them */
    uint8_t *before, *after, *work;
    weft_piece *pieces_before, *pieces_after, *pieces_work;
    uint64_t count;   /* pieces */
    uint64_t *places; /* of the lines of memory in which before and after differ, in bytes from the image's first */
    uint64_t place_count;
} weft_bench_pair;

/* Errors: WEFT_E_MEMORY, WEFT_E_LAYOUT (two layouts), those of the model files. */
weft_status weft_bench_pair_open(weft_bench_pair *pair, const char *before, const char *after);
/* A made-up model (model/synth.h) and one step of it; `share` in 0..1. */
weft_status weft_bench_pair_make(weft_bench_pair *pair, uint64_t params, double share, uint64_t seed);
/* Lists the places, which the yardsticks need. Errors: WEFT_E_MEMORY. */
weft_status weft_bench_pair_compare(weft_bench_pair *pair);
void weft_bench_pair_close(weft_bench_pair *pair);

/* ---- updates in memory */

typedef struct weft_bench_bytes {
    uint8_t *data; /* from weft_mem_map: untouched pages cost nothing */
    uint64_t used, capacity;
} weft_bench_bytes;

weft_status weft_bench_bytes_open(weft_bench_bytes *bytes, uint64_t capacity);
void weft_bench_bytes_close(weft_bench_bytes *bytes);
/* Errors: WEFT_E_MEMORY (no room). */
weft_status weft_bench_bytes_put(weft_bench_bytes *bytes, const void *data, uint64_t count);

/* Writes the update of a pair at a level over what is in `file`. */
weft_status weft_bench_diff(const weft_bench_pair *pair, const char *level, uint32_t threads, weft_bench_bytes *file,
                            weft_update_info *info);
/* Makes the new weights of it and compares them. Errors: also WEFT_E_TARGET (they differ). */
weft_status weft_bench_rewrite(const weft_bench_pair *pair, const weft_bench_bytes *file, uint32_t threads,
                               weft_apply_info *info);
weft_status weft_bench_describe(const weft_bench_bytes *file, weft_update_header *header);

#endif
