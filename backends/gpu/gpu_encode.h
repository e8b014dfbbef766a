/* gpu_encode.h - a batch of encode jobs on its way through the device.
 *
 *   diff     all jobs: which elements differ, and how many
 *   lists    a round of jobs, as many as memory allows: the changes, and the counts that decide the parameters
 *   sets     the lists of level tight
 *   planes   payloads, copied to the host, which adds the headers and hands the frames to the sinks
 *
 * Between two steps the host decides, by the same functions as the host backend. A batch that wants level fast alone is
 * one chain, in which the device decides (gpu_encode_chain.c). */
#ifndef WEFT_BACKENDS_GPU_ENCODE_H
#define WEFT_BACKENDS_GPU_ENCODE_H

#include "backends/gpu/gpu_sheet.h"
#include "codec/fast.h"
#include "codec/tight.h"

/* Takes the next `bytes` of a sheet for the caller to fill; `*address` is the device's address, if asked for. */
static inline void *weft_gpu_rows_add(weft_gpu_sheet *rows, uint64_t bytes, uint64_t *address)
{
    void *row;
    uint64_t at = weft_gpu_sheet_take(rows, bytes, &row);
    if (address)
        *address = at;
    return row;
}

/* Two views of the same elements as the kernels see them. */
typedef struct weft_gpu_pair {
    const weft_view *now, *shadow;
    uint64_t *parts;    /* number of the part that each sum belongs to */
    uint32_t sum_count; /* sums, at most one for each piece */
    uint32_t slices;
    uint32_t tile_count;
    uint64_t tiles;  /* rows of weft_k_diff, in a row */
    uint64_t counts; /* u32 for each slice, and one more */
} weft_gpu_pair;

/* The most that a pair takes: rows, device memory and plain memory. */
typedef struct weft_gpu_pair_need {
    uint64_t rows, bits, counts, pieces;
} weft_gpu_pair_need;
weft_gpu_pair_need weft_gpu_pair_needs(const weft_view *now, const weft_view *shadow);

/* Returns the number of tiles of a view. */
uint32_t weft_gpu_tiles(const weft_view *view);
/* Fills the rows of a pair's tiles and pieces, `parts`, and all fields that the caller did not. `bits` and counts are
 * device memory. */
void weft_gpu_pair_make(weft_gpu_pair *pair, weft_gpu_sheet *rows, weft_k_diff *tiles, uint64_t bits);

/* A frame that the device makes. */
typedef struct weft_gpu_frame {
    weft_frame_header header; /* header; payload_bytes 0: no frame */
    uint64_t payload;         /* address on the device, aligned to 16 bytes */
    uint8_t *copy;            /* bytes on the host, after room for the header */
} weft_gpu_frame;

/* The set of a list, and the address of its bits. */
typedef struct weft_gpu_set {
    uint64_t bits;
    uint32_t size, universe;
} weft_gpu_set;

/* Level tight of a job; lists in the order of their descriptors. */
typedef struct weft_gpu_tight {
    uint64_t job; /* weft_k_encode_classes */
    uint64_t class_counts;
    uint32_t classes;
    uint64_t positions, exceptions, further; /* addresses of the sets */
    const weft_k_tight_counts *counts;
    weft_tight_shape shape;
    weft_gpu_set sets[WEFT_TIGHT_LISTS];
    uint64_t members[WEFT_TIGHT_LISTS];
    const uint32_t *gap_ones[WEFT_TIGHT_LISTS];
    uint32_t highs[WEFT_TIGHT_LISTS]; /* bits of the unary plane */
    uint64_t unary_bits;              /* bits of the unary plane, of all lists */
} weft_gpu_tight;

typedef struct weft_gpu_encoding {
    weft_encode_job *job;
    weft_gpu_tight *tight; /* state of level tight; NULL: not wanted */
    weft_gpu_pair pair;
    const uint64_t *sums; /* digest sums of the pair, on the host */
    uint64_t device_sums;
    uint32_t changed;
    uint64_t changes; /* weft_k_changes */
    uint64_t ranks;   /* ranks of the exceptions, for level fast */
    const weft_k_fast_counts *fast_counts;
    bool lent;                               /* the job has frames that are lent */
    bool follows;                            /* the shadow is to follow */
    weft_gpu_frame frames[WEFT_LEVEL_COUNT]; /* last, because only rounds set and read them */
} weft_gpu_encoding;

/* A batch of level fast alone. */
typedef struct weft_gpu_chain {
    uint64_t jobs;             /* weft_k_fast_job for each job; 0: the batch is no chain */
    uint64_t lists;            /* weft_k_fast_lists */
    uint64_t gathers;          /* weft_k_gather for each tile */
    uint64_t made_at;          /* weft_k_fast_made for each job */
    weft_k_fast_job *job_rows; /* on the host, as the next two */
    weft_k_fast_lists *list_row;
    weft_k_gather *next_gather;
    uint64_t frames_most;         /* bytes of the frames of the jobs so far, at most */
    const weft_k_fast_made *made; /* what the device made of each job, on the host */
    uint8_t *frames;              /* the frames on the host, with the quad in front of each for its header */
    uint64_t frame_bytes;         /* the room for them */
    uint32_t tiles;
    uint32_t pending; /* jobs that have changes and no frame yet */
    bool ended;       /* a pass of launches came to its end */
    bool follows;     /* one pass made all frames, so the shadow can follow from the lists */
} weft_gpu_chain;

typedef struct weft_gpu_batch {
    weft_gpu *gpu;
    weft_gpu_slab *slab;
    weft_gpu_encoding *encodings;      /* encodings, one for each job */
    const uint32_t *totals;            /* changes of each job, on the host */
    weft_gpu_sheet sums;               /* all digests, zero at first */
    uint32_t first, end;               /* jobs of the round */
    uint64_t device_used, pinned_used; /* bytes used of the slab before the round */
    uint64_t payload, payload_used;    /* payloads of the round's frames, on the device */
    uint64_t payload_bytes;
    uint8_t *payload_copy;
    uint64_t since_ns;
    weft_gpu_chain chain;
    weft_gpu_classes *classes; /* of the last job of the round at level tight */
} weft_gpu_batch;

/* gpu_encode.c */
/* Returns the changes of a job that are to be coded; 0 too if the job's units go alone. */
uint32_t weft_gpu_coded(const weft_gpu_batch *batch, uint32_t place);
/* Notes the changes that the pass over all elements found. */
void weft_gpu_changed_note(const weft_gpu_batch *batch, uint32_t place);

/* gpu_encode_fast.c */
/* Adds up numbers, each without its lowest bits; ones[b] of the numbers have bit b set. */
uint64_t weft_gpu_ones_sum(const uint32_t ones[32], uint32_t bits);
weft_fast_plan weft_gpu_fast_plan(const weft_gpu_encoding *encoding);
weft_k_fast_write weft_gpu_fast_row(const weft_gpu_encoding *encoding, const weft_fast_plan *plan, uint64_t payload);

/* gpu_encode_tight.c: writes rows at *row and moves *row on. */
uint64_t weft_gpu_tight_zeros(const weft_encode_job *job, uint32_t changed); /* bytes of the sets */
uint64_t weft_gpu_tight_memory(const weft_encode_job *job,
                               uint32_t changed);         /* bytes of device memory, sets included */
uint64_t weft_gpu_tight_rows(const weft_encode_job *job); /* bytes of rows up to the sets */
void weft_gpu_tight_job(weft_gpu_batch *batch, weft_gpu_encoding *encoding, weft_gpu_sheet *rows, uint64_t zeros);
void weft_gpu_tight_ranks(const weft_gpu_encoding *encoding, weft_k_class_rank **row);
void weft_gpu_tight_scans(const weft_gpu_encoding *encoding, weft_k_scan **row);
weft_k_tight_count weft_gpu_tight_count(weft_gpu_batch *batch, const weft_gpu_encoding *encoding);
void weft_gpu_tight_lists(weft_gpu_batch *batch, weft_gpu_encoding *encoding, weft_k_list_make **row);
uint64_t weft_gpu_tight_plan(weft_gpu_encoding *encoding); /* bytes of the payload */
void weft_gpu_tight_planes(const weft_gpu_encoding *encoding, uint64_t payload, weft_k_list_write **list_row,
                           weft_k_tight_write **row);

/* gpu_encode_round.c: the steps of a round. `lists` ends the round after the last job for which there is memory. `sets`
 * is for level tight, and returns WEFT_AGAIN if there is nothing to do. */
weft_status weft_gpu_round_lists(weft_gpu_batch *batch);
weft_status weft_gpu_round_sets(weft_gpu_batch *batch);
weft_status weft_gpu_round_planes(weft_gpu_batch *batch);
void weft_gpu_round_end(weft_gpu_batch *batch);
/* Adds up the bytes of rows for the round's jobs (gpu_encode_frames.c). */
uint64_t weft_gpu_round_bytes(const weft_gpu_batch *batch, uint64_t (*of)(const weft_encode_job *job));
/* Return what a slab must have for one job, and what each job adds to a round beyond its lists and payloads. */
weft_gpu_need weft_gpu_round_least(void);
weft_gpu_need weft_gpu_round_rows(const weft_encode_job *job);
/* Returns the device memory of a job's lists and payloads, if so many of its elements changed. */
uint64_t weft_gpu_round_bytes_of(const weft_encode_job *job, uint32_t changed);

/* gpu_encode.c: fails a batch, because the device counted what cannot be, or made what the host did not ask for. */
weft_status weft_gpu_wrong_fail(const weft_gpu *gpu, const char *what);
/* gpu_encode.c: checks the numbers of changes that the device counted. */
weft_status weft_gpu_totals_check(const weft_gpu_batch *batch);

/* gpu_encode_frames.c */
uint64_t weft_gpu_planes_rows(const weft_encode_job *job);

/* Hand over what came of a job: digests, and each frame, which is lent or put into the job's sink. */
void weft_gpu_digests_end(const weft_gpu_encoding *encoding);
void weft_gpu_frame_end(weft_gpu_slab *slab, weft_gpu_encoding *encoding, weft_level wanted,
                        const weft_gpu_frame *frame, bool lend);

/* gpu_encode_chain.c */
/* Returns true if all jobs of a slab want level fast alone. */
bool weft_gpu_chain_fits(const weft_gpu_slab *slab);
/* Returns what a job adds to the rows of a batch, and to pinned memory beyond them. */
weft_gpu_need weft_gpu_chain_need(const weft_encode_job *job);
/* Returns the bytes of the rows of so many jobs with so many tiles. */
uint64_t weft_gpu_chain_rows(uint32_t jobs, uint32_t tiles);
/* Take the rows of a batch, and fill those of a job. The jobs come in their order. */
void weft_gpu_chain_open(weft_gpu_batch *batch, weft_gpu_sheet *rows, uint32_t tiles);
void weft_gpu_chain_put(weft_gpu_batch *batch, uint32_t place);
/* Takes all memory of the slab that is left. Called when all else was taken. */
void weft_gpu_chain_memory(weft_gpu_batch *batch);
/* Puts the launches for the jobs without a frame on the stream, after the pass over all elements. */
weft_status weft_gpu_chain_launch(weft_gpu_batch *batch);
/* Ends the jobs whose frames the launches made, and adds `each` ms to the time of every job. WEFT_AGAIN: launch once
 * more, because jobs lacked memory. WEFT_OK: what is still changed goes by rounds. */
weft_status weft_gpu_chain_end(weft_gpu_batch *batch, double each);

/* Bytes in front of each payload for its header, so that a frame can be lent where it was copied to. */
#define WEFT_GPU_HEADER_ROOM 16u
_Static_assert(WEFT_GPU_HEADER_ROOM >= WEFT_FRAME_HEADER_BYTES, "a header");

/* Rounds the bytes of a payload up to 16, because payloads are aligned to 16 bytes, as weights usually are. */
static inline uint64_t weft_gpu_payload_room(uint64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static inline bool weft_gpu_wants(const weft_gpu_encoding *encoding, weft_level level)
{
    return encoding->changed > 0 && encoding->job->levels >> level & 1;
}

#endif
