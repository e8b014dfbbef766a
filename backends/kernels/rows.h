/* rows.h - what the host tells a kernel: its argument is the device address of rows, an array of which each block takes
 * one. Plain C for host and device; the host fills them in memory that the device reads.
 *
 * Addresses are the device's, as uint64_t; elements are of `width` 1, 2, 4 or 8 bytes and aligned to that, no more. */
#ifndef WEFT_BACKENDS_KERNELS_ROWS_H
#define WEFT_BACKENDS_KERNELS_ROWS_H

#include <stdint.h>

/* In the place of a width: elements of 2 bytes whose memory is F32 in part or in all. A bit of its own, because
 * compilers join a fifth case to the switch over widths, and each kernel then takes an instruction more to its width.
 */
#define WEFT_K_CAST 16u

/* What F32 is read as: the numbers of weft_cast. 0: memory is not cast. */
#define WEFT_K_BF16 1u
#define WEFT_K_F16  2u

/* digest: one block a row sums the terms of elements that lie consecutively in one tensor. */
#define WEFT_K_DIGEST_ELEMENTS (1u << 15) /* as many as are worth a block */

typedef struct weft_k_digest {
    uint64_t data;    /* the first element */
    uint64_t element; /* its index in the tensor */
    uint64_t sum;     /* the u64 word to which they are added */
    uint32_t count;
    uint32_t width; /* WEFT_K_CAST and what F32 is read as: memory is F32 */
} weft_k_digest;

/* A view: elements in runs. Position 0 is the view's first element. */
typedef struct weft_k_run {
    uint64_t data;
    uint64_t element;  /* index in the tensor of the first */
    uint32_t position; /* and in the view: runs cover it in order, from 0 on */
    uint32_t count;    /* at least 1 */
} weft_k_run;

typedef struct weft_k_view {
    uint64_t runs; /* weft_k_run[run_count], at least one */
    uint32_t run_count;
    uint32_t count; /* elements, at most 2^24 */
    uint32_t width;
    uint32_t is_float;
} weft_k_view;

/* Share of one block in a job that takes several. The rows of all kernels below are such shares. */
typedef struct weft_k_part {
    uint64_t job;
    uint32_t index; /* part of the job */
    uint32_t list;  /* decode_lows: of this list; else 0 */
} weft_k_part;

/* Sizes of parts: one block does so much. */
#define WEFT_K_UNARY_BITS (32u * 256u) /* of a unary plane, from the word on in which it begins */
#define WEFT_K_MEMBERS    2048u        /* of a list */
#define WEFT_K_CHANGES    1024u        /* or pairs, or exceptions */
#define WEFT_K_ELEMENTS   8192u        /* of a view */
#define WEFT_K_SWAPS      1024u        /* changes put in place or taken back */

/* apply, undo: `before` and `after` are put where the changes are. prove: the weights are compared with `before`. Parts
 * of WEFT_K_SWAPS. A run of elements that lie in boxes with strides has no `data`, and as `element` the address of its
 * weft_k_boxed, whose first element is the run's. */
typedef struct weft_k_swap {
    weft_k_view view;
    uint64_t position, before, after;
    uint64_t mismatch; /* u32: set by apply and prove if some element was not `before` */
    uint64_t guard;    /* u32: set by prove with `mismatch`; apply does nothing if it is set. 0: apply without proof */
    uint32_t count;
    uint32_t boxed; /* 1: some runs have boxes */
} weft_k_swap;

/* load, store: dense bytes, aligned to the width; parts of WEFT_K_ELEMENTS. */
typedef struct weft_k_copy {
    weft_k_view view; /* load: its width may be WEFT_K_CAST */
    uint64_t bytes;
    uint64_t casts; /* WEFT_K_CAST: u8 for each run, what its F32 is read as */
} weft_k_copy;

/* boxes_load, boxes_store: elements of one tensor that lie in boxes (core/layout/box.h), out of them into dense memory,
 * and back; parts of WEFT_K_ELEMENTS. apply and its like find single elements there. Rows and columns count from the
 * job's first row, and from the tensor's first column or, in a job of one row, from the job's first. So numbers have 32
 * bits, and a division is a product. */
#define WEFT_K_BOX_DIGITS 4u
#define WEFT_K_BOX_ROW    (1u << 24) /* elements of a row beyond which a job has one row alone */

/* A number to divide by, as a product and shifts: Granlund and Montgomery, Division by invariant integers using
 * multiplication, 1994, figure 4.1. */
typedef struct weft_k_divisor {
    uint32_t by; /* 0: never divided by */
    uint32_t factor;
    uint32_t first, second; /* shifts */
} weft_k_divisor;

/* One digit of an index, the outermost first: `start` is the digit of the box's first row or column that counts. */
typedef struct weft_k_digit {
    uint64_t extent, stride, start; /* stride in bytes */
    weft_k_divisor divisor;         /* the extent, if that is at most 2 * WEFT_K_BOX_ROW */
} weft_k_digit;

typedef struct weft_k_box {
    uint64_t data;                       /* the box's very first element */
    uint32_t row, rows, column, columns; /* of the job that the box has */
    uint32_t row_digits, column_digits;  /* at least 1 each */
    weft_k_digit row_at[WEFT_K_BOX_DIGITS], column_at[WEFT_K_BOX_DIGITS];
    uint32_t beside; /* 1: columns that differ in the last digit alone lie side by side */
    uint32_t cast;   /* what F32 is read as */
} weft_k_box;

typedef struct weft_k_boxed {
    uint64_t boxes;     /* weft_k_box[box_count], which have all of the elements */
    uint64_t dense;     /* aligned to the width; of no use to apply and its like */
    weft_k_divisor all; /* elements of a row; by 0: the job has one row */
    uint32_t column;    /* of the first element; 0 in a job of one row */
    uint32_t count;     /* elements, at most 2^24 */
    uint32_t width;     /* of the dense elements */
    uint32_t box_count;
} weft_k_boxed;

/* One list of Rice-coded ranks (docs/WIRE_FORMAT.md: Lists), or the gaps of level fast, which are one. */
typedef struct weft_k_list {
    uint64_t lows;  /* bit of the payload at which the first member's low bits are */
    uint64_t ranks; /* out: u32 a member */
    uint64_t sums;  /* scratch: u32 for each WEFT_K_MEMBERS of them */
    uint32_t stride, low_bits;
    uint32_t one; /* number of its first one in the unary plane */
    uint32_t members;
    uint32_t directions; /* the bit below a member's low bits goes to `after`, as one step up or down */
    uint32_t spare;
} weft_k_list;

/* Launches of decode that can find a fault: each has a word. */
enum weft_k_launch {
    WEFT_K_LAUNCH_SUMS,
    WEFT_K_LAUNCH_LISTS,
    WEFT_K_LAUNCH_POPULATIONS,
    WEFT_K_LAUNCH_BOUNDS,
    WEFT_K_LAUNCH_PLACES,
    WEFT_K_LAUNCH_FURTHER,
    WEFT_K_LAUNCH_SIZES,
    WEFT_K_LAUNCH_LENGTHS,
    WEFT_K_LAUNCH_EXCEPTIONS,
    WEFT_K_LAUNCH_MAGNITUDES,
    WEFT_K_LAUNCH_STEPS,
    WEFT_K_LAUNCHES
};

/* Faults of a frame, one bit each. */
#define WEFT_K_FAULT_RANK      1u  /* a position or rank beyond the unit */
#define WEFT_K_FAULT_ORDER     2u  /* positions that do not rise */
#define WEFT_K_FAULT_SHORT     4u  /* too few ones in the unary plane */
#define WEFT_K_FAULT_EXCEPTION 8u  /* an exception beyond the changes */
#define WEFT_K_FAULT_MAGNITUDE 16u /* a magnitude out of range */
#define WEFT_K_FAULT_END       32u /* planes that do not end where the payload does */
#define WEFT_K_FAULT_PADDING   64u
#define WEFT_K_FAULT_BASE      128u /* lists that the base contradicts */

/* A frame to be read against a base. The host has checked header, counts and descriptors. */
typedef struct weft_k_decode {
    weft_k_view view;  /* the base */
    uint64_t payload;  /* aligned to 16 bytes */
    uint64_t position; /* out: u32 a change, and its elements' bits */
    uint64_t before, after;
    uint64_t faults;  /* out: u32[WEFT_K_LAUNCHES], zero at first */
    uint64_t deltas;  /* out: u64 a run, zero at first: digest(after) - digest(before) */
    uint64_t kept;    /* out: u32, zero at first: changes at positions before `limit`; no others are in `deltas` */
    uint64_t level;   /* weft_k_fast, weft_k_tight or weft_k_dense */
    uint32_t words;   /* of the payload, 4 bytes each */
    uint32_t changed; /* elements coded */
    uint32_t limit;
    /* Fields of levels fast and tight: */
    uint32_t unary;       /* bit of the payload at which the unary plane begins, on a byte */
    uint64_t ones;        /* scratch: u32 for each part */
    uint64_t ends;        /* scratch: u32[tail_most + 1]: bits of the unary plane up to and with each one behind the
                             lists, from the last of the lists on */
    uint64_t lists;       /* weft_k_list[list_count] */
    uint64_t lengths;     /* scratch: u32 for each WEFT_K_CHANGES exceptions (fast) or changes (tight) */
    uint32_t unary_parts; /* of WEFT_K_UNARY_BITS, to the payload's end */
    uint32_t list_count;
    uint32_t list_ones;             /* of all lists */
    uint32_t tail_least, tail_most; /* ones after them */
    uint32_t spare;
} weft_k_decode;

/* Level fast. */
typedef struct weft_k_fast {
    uint64_t ranks; /* bit of the payload at which the exceptions' low bits begin */
    uint64_t gaps;  /* scratch: u32 for each WEFT_K_CHANGES exceptions */
    uint32_t exceptions, rank_bits, magnitude_bits;
    uint32_t field_bits; /* of a change */
} weft_k_fast;

#define WEFT_K_CLASSES    16u
#define WEFT_K_EXPONENTS  2048u
#define WEFT_K_ESCAPE     8u
#define WEFT_K_ESCAPE_LOW 4u

/* A set by its list. */
typedef struct weft_k_set {
    uint64_t ranks; /* u32[count], rising */
    uint32_t count;
    uint32_t inverted;
} weft_k_set;

/* Members of one class that come before a part of the base. */
typedef struct weft_k_bound {
    uint32_t positions, exceptions; /* members of these lists */
    uint32_t changed;
    uint32_t spare;
} weft_k_bound;

/* Kinds of a change. The magnitude of an exception is coded less 2 or less 3, or is 2. */
#define WEFT_K_STATE_STEP  0u
#define WEFT_K_STATE_TWO   1u
#define WEFT_K_STATE_SMALL 2u
#define WEFT_K_STATE_LARGE 3u

/* Level tight. */
typedef struct weft_k_tight {
    weft_k_set positions[WEFT_K_CLASSES];
    weft_k_set exceptions[WEFT_K_CLASSES];
    weft_k_set further;
    uint64_t of;          /* u8: class of each exponent up to `mask` */
    uint64_t planes;      /* scratch: 16 bytes for each thread of each part (classes.h) */
    uint64_t populations; /* scratch: u32[parts][WEFT_K_CLASSES] */
    uint64_t starts;      /* scratch: u32[parts + 1][WEFT_K_CLASSES] */
    uint64_t bounds;      /* scratch: weft_k_bound[parts + 1][WEFT_K_CLASSES] */
    uint64_t states;      /* scratch: u8 a change */
    uint64_t large;       /* scratch: u32 for each WEFT_K_CHANGES changes, zero at first */
    uint64_t coded;       /* scratch: u32 for each WEFT_K_CHANGES changes */
    uint64_t directions;  /* bit of the payload at which they begin */
    uint64_t lows_end;    /* bit at which the low bits end */
    uint32_t parts;       /* of the base */
    uint32_t classes;
    uint32_t shift, mask; /* of the exponent */
    uint32_t magnitude_base, rice_most;
} weft_k_tight;

/* Levels full and pairs. */
typedef struct weft_k_dense {
    uint64_t masks;  /* scratch: u32 for each thread of each part */
    uint64_t counts; /* scratch: u32 for each part */
    uint32_t parts;  /* of WEFT_K_ELEMENTS elements, or of WEFT_K_CHANGES pairs */
    uint32_t steps;  /* level full: the payload has steps, and not new bits */
} weft_k_dense;

/* Rows by kernel. */
typedef weft_k_part weft_k_decode_ones, weft_k_decode_lows, weft_k_decode_lists;
typedef weft_k_part weft_k_decode_sizes, weft_k_decode_exceptions, weft_k_decode_steps;
typedef weft_k_part weft_k_decode_classes, weft_k_decode_populations, weft_k_decode_bounds, weft_k_decode_places;
typedef weft_k_part weft_k_decode_further, weft_k_decode_lengths, weft_k_decode_magnitudes;
typedef weft_k_part weft_k_decode_differ, weft_k_decode_elements, weft_k_decode_pairs, weft_k_decode_kept;
typedef weft_k_part weft_k_prove, weft_k_apply, weft_k_undo, weft_k_load, weft_k_store;
typedef weft_k_part weft_k_boxes_load, weft_k_boxes_store;

/* ---- encode: host side in gpu_encode.c
 *
 * The elements of a job, which is a unit or a run of units, are numbered from 0. They are worked on in tiles, a row
 * each, and within a tile in slices, a block each. */
#define WEFT_K_SLICE  (1u << 15)
#define WEFT_K_TILE   (1u << 18)
#define WEFT_K_SLICES (WEFT_K_TILE / WEFT_K_SLICE)

/* Elements that lie consecutively in both views and in one tensor. */
typedef struct weft_k_piece {
    uint64_t now, shadow; /* the first */
    uint64_t element;     /* its index in the tensor */
    uint32_t position;    /* its number in the job */
    uint32_t count;
    uint32_t sum;  /* number of the word that its digest goes to */
    uint32_t cast; /* what `now` of F32 is read as, in a tile of WEFT_K_CAST */
} weft_k_piece;

/* diff: WEFT_K_SLICES blocks a row find what differs. */
typedef struct weft_k_diff {
    uint64_t pieces;      /* weft_k_piece, those of the tile, in order */
    uint64_t bitmap;      /* WEFT_K_SLICE bits in u32 words for each slice that has elements: 1 where they differ */
    uint64_t counts;      /* u32 for each such slice: how many do */
    uint32_t piece_count; /* at least 1 */
    uint32_t first;       /* element of the job with which the tile begins */
    uint32_t count;       /* elements of the tile */
    uint32_t width;       /* WEFT_K_CAST: of some pieces `now` is F32 */
} weft_k_diff;

/* scan: one block a row puts in place of each word the sum of those before it, and after them that of all. */
typedef struct weft_k_scan {
    uint64_t words; /* u32, count + 1 */
    uint64_t total; /* u32: the sum of all once more */
    uint32_t count;
    uint32_t unused;
} weft_k_scan;

/* The changes of a job, in order of position: what weft_changes is on the host. */
typedef struct weft_k_changes {
    uint64_t position; /* u32 */
    uint64_t before, after;
    uint32_t count; /* at least 1 */
    uint32_t width;
    uint32_t is_float;
    uint32_t elements; /* of the job */
} weft_k_changes;

/* gather: WEFT_K_SLICES blocks a row list the changes of a tile, whose counts were scanned. */
typedef struct weft_k_gather {
    uint64_t tile;    /* its weft_k_diff */
    uint64_t changes; /* weft_k_changes of the job: arrays to fill */
    uint64_t sums;    /* u64 words: digest(now) - digest(shadow) is added */
} weft_k_gather;

/* follow: WEFT_K_SLICES blocks a row put the changes that gather listed into the shadow. */
typedef weft_k_gather weft_k_follow;

/* Counts that decide the parameters of level fast. */
#define WEFT_K_LENGTHS 65u

typedef struct weft_k_fast_counts {
    uint32_t exceptions;
    uint32_t gap_ones[32];           /* how many of the gaps between positions have bit b set */
    uint32_t rank_ones[32];          /* the same of the gaps between ranks of exceptions */
    uint32_t length[WEFT_K_LENGTHS]; /* exceptions whose magnitude - 2 has so many bits */
    uint32_t under[WEFT_K_LENGTHS];  /* and so many under the ones with which it begins */
} weft_k_fast_counts;

#include "backends/kernels/rows_frame.h"

#endif
