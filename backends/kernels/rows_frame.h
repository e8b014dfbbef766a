/* rows_frame.h - rows for batches of levels fast and tight: the device gives the jobs their memory, and makes whole
 * payloads.
 *
 * The memory of lists and frames is counted in quads of 16 bytes. A frame takes a quad for the header and those of the
 * payload. rows.h includes this file. */
#ifndef WEFT_BACKENDS_KERNELS_ROWS_FRAME_H
#define WEFT_BACKENDS_KERNELS_ROWS_FRAME_H

/* A payload as the device made it. */
typedef struct weft_k_made {
    uint32_t place;      /* the payload's first quad among the frames; 0: nothing was made */
    uint32_t bytes;      /* 0: the payload is not worth a frame */
    uint32_t exceptions; /* level fast; level tight: the header's parameters */
    uint16_t gap_bits;
    uint8_t magnitude_bits;
    uint8_t still; /* 1: the bits of some change are equal, because the weights changed after diff had seen them */
} weft_k_made;

/* Where a payload goes, by frame_lists but for `made`. */
typedef struct weft_k_payload {
    uint64_t device;
    uint64_t copy; /* the same on the host */
    uint64_t made; /* weft_k_made; 0: the level is not wanted */
    uint32_t place;
    uint32_t room; /* bytes, at most */
} weft_k_payload;

/* A job of level fast, tight or both, an array of which is a batch. */
typedef struct weft_k_frame_job {
    weft_k_changes changes; /* by frame_lists: arrays and count; count 0: no memory this time, or none is needed */
    uint64_t ranks;         /* by frame_lists: level fast, u32, room for one each change: ranks of the exceptions */
    weft_k_payload fast;
    uint64_t tight;        /* weft_k_tight_job; 0: the level is not wanted */
    uint64_t total;        /* u32: changes of the job */
    uint32_t done;         /* by frame_lists: 1: the job had its memory */
    uint32_t changed_most; /* a job with more changes gets no memory */
    uint32_t payload_most; /* bytes of a payload that is worth a frame, at most */
    uint32_t unused;
} weft_k_frame_job;

/* Bits of a change in a payload, at most, beyond the low bits of its gap. Level fast: 4.6 for its direction and the
 * gap's high part, at most 1.3 for its rank, and 9 a byte and 3 for its magnitude: what order an encoder chooses costs
 * no more than their mean length. Level tight: 5.2 for the high part, a bit for its direction, 1.3 in each of the sets
 * of exceptions and of further ones, and 16 and two widths for an escaped magnitude. A payload that takes more is
 * refused.
 */
#define WEFT_K_FAST_BITS(width)  (11u + 9u * (width))
#define WEFT_K_TIGHT_BITS(width) (26u + 16u * (width))

/* frame_lists: one block gives memory to jobs that had none, in their order, for as long as there is memory. */
typedef struct weft_k_frame_lists {
    uint64_t jobs; /* weft_k_frame_job[count] */
    uint64_t lists;
    uint64_t payloads; /* of the frames on the device */
    uint64_t copies;   /* and on the host */
    uint32_t count;
    uint32_t list_quads, frame_quads;
    uint32_t unused;
} weft_k_frame_lists;

/* fast_frame: one block a row chooses parameters and leaves the payload on the host. */
typedef weft_k_frame_job weft_k_fast_frame;

/* The planes of level fast: ones are set in a payload that is all zero. */
typedef struct weft_k_fast_planes {
    uint64_t ranks;
    uint64_t payload; /* aligned to 4 bytes */
    uint32_t exceptions;
    uint32_t gap_bits, rank_bits, magnitude_bits;
    uint32_t ranks_at, unary_at, magnitudes_at; /* bytes of the payload before the planes */
    uint32_t unused;
} weft_k_fast_planes;

/* ---- level tight */

#define WEFT_K_TIGHT_LISTS (2u * WEFT_K_CLASSES + 1u) /* positions by class, exceptions by class, further ones */

/* Counts that decide the lists. */
typedef struct weft_k_tight_counts {
    uint32_t population[WEFT_K_CLASSES];
    uint32_t changed[WEFT_K_CLASSES];
    uint32_t exceptions[WEFT_K_CLASSES];
    uint32_t large;      /* exceptions on a base above E */
    uint32_t further;    /* and of more than two steps */
    uint32_t unary_bits; /* of the magnitudes */
    uint32_t magnitude_bits;
} weft_k_tight_counts;

/* Sets are bits, zero at first. Class c of a set begins at the bit after the elements of the classes before it, each
 * rounded up to WEFT_K_SET_ALIGN. */
#define WEFT_K_SET_ALIGN 128u

/* A list, by tight_count, and its gaps' bits, by list_make. */
typedef struct weft_k_set_list {
    uint64_t bits;    /* of the set, aligned to 16 bytes */
    uint64_t members; /* u32 */
    uint32_t universe;
    uint32_t count;        /* of the members; 0: there is nothing to list */
    uint32_t inverted;     /* 1: the members are those outside the set */
    uint32_t there;        /* 1: the payload has a descriptor */
    uint32_t gap_ones[32]; /* as in weft_k_fast_counts */
} weft_k_set_list;

/* Level tight of a job: its classes, and memory by frame_lists. */
typedef struct weft_k_tight_job {
    weft_k_view base; /* the shadow */
    uint64_t of;      /* u8: class of each exponent up to `mask` */
    uint64_t job;     /* weft_k_frame_job */
    uint64_t counts;  /* by frame_lists: u32[WEFT_K_CLASSES][slices + 1] */
    uint64_t ranks;   /* by frame_lists: u32 a change: its rank in its class and slice, its class above 16 bits */
    uint64_t sets;    /* by frame_lists: bits of the changed elements, of the exceptions, and of the further ones */
    uint64_t members; /* by frame_lists: of all lists */
    uint64_t lists;   /* by frame_lists: weft_k_set_list[WEFT_K_TIGHT_LISTS] */
    weft_k_payload payload;
    uint32_t slices; /* of the job */
    uint32_t classes;
    uint32_t shift, mask; /* of the exponent */
    uint32_t magnitude_base, rice_most;
    weft_k_tight_counts numbers; /* by tight_count */
} weft_k_tight_job;

/* class_rank: WEFT_K_SLICES blocks a row count a tile's elements of each class and rank its changes. */
typedef struct weft_k_class_rank {
    uint64_t tile; /* weft_k_diff, whose counts were scanned */
    uint64_t job;  /* weft_k_tight_job */
} weft_k_class_rank;

/* tight_count: one block a row makes the sets. list_make: WEFT_K_TIGHT_LISTS blocks a row list their members.
 * tight_frame: one block a row chooses parameters and leaves the payload on the host. */
typedef weft_k_tight_job weft_k_tight_count, weft_k_list_make, weft_k_tight_frame;

#endif
