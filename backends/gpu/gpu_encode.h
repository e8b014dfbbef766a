/* gpu_encode.h - a batch of encode jobs on its way through the device: one chain of launches from the weights to
 * payloads on the host (gpu_encode_chain.c). What is no frame of levels fast and tight is the host's
 * (gpu_encode_rest.c). */
#ifndef WEFT_BACKENDS_GPU_ENCODE_H
#define WEFT_BACKENDS_GPU_ENCODE_H

#include "backends/gpu/gpu_sheet.h"
#include "codec/fast.h"

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

typedef struct weft_gpu_encoding {
    weft_encode_job *job;
    weft_gpu_pair pair;
    const uint64_t *sums; /* digest sums of the pair, on the host */
    uint64_t device_sums;
    uint32_t left;  /* mask of the levels without an outcome */
    uint32_t fresh; /* mask of the levels whose frames the last pass made */
    bool lent;      /* the job has frames that are lent */
    bool follows;   /* the shadow is to follow */
} weft_gpu_encoding;

/* State of a batch's chain of launches. */
typedef struct weft_gpu_chain {
    uint64_t jobs;                /* weft_k_frame_job for each job */
    uint64_t tight;               /* weft_k_tight_job for each job that wants level tight */
    uint64_t lists;               /* weft_k_frame_lists */
    uint64_t gathers;             /* weft_k_gather for each tile */
    uint64_t ranks;               /* weft_k_class_rank for each tile of a job that wants level tight */
    uint64_t fast_at, tight_at;   /* weft_k_made for each job */
    weft_k_frame_job *job_rows;   /* on the host, as the next four */
    weft_k_tight_job *tight_rows; /* the next one */
    weft_k_frame_lists *list_row;
    weft_k_gather *next_gather;
    weft_k_class_rank *next_rank;
    uint64_t frames_most;                      /* bytes of the frames of the jobs so far, at most */
    const weft_k_made *fast_made, *tight_made; /* what the device made of each job, on the host */
    uint8_t *frames;      /* the frames on the host, with the quad in front of each for its header */
    uint64_t frame_bytes; /* the room for them */
    uint32_t tiles, fast_jobs, tight_jobs, tight_tiles;
    uint32_t lacking; /* jobs that had no memory for their lists yet */
    bool ended;       /* a pass of launches came to its end */
    bool follows;     /* one pass made all frames, so the shadow can follow from the lists */
} weft_gpu_chain;

typedef struct weft_gpu_batch {
    weft_gpu *gpu;
    weft_gpu_slab *slab;
    weft_gpu_encoding *encodings;      /* encodings, one for each job */
    const uint32_t *totals;            /* changes of each job, on the host */
    weft_gpu_sheet sums;               /* all digests, zero at first */
    uint32_t first, end;               /* jobs that are the host's in this round */
    uint64_t device_used, pinned_used; /* bytes used of the slab before the memory of a pass, or of a round */
    uint64_t plain_used;
    uint64_t since_ns;
    weft_gpu_chain chain;
    struct weft_gpu_rest *rest; /* of the round */
    weft_gpu_classes *classes;  /* of the last job at level tight */
} weft_gpu_batch;

/* gpu_encode.c: fails a batch, because the device counted what cannot be, or made what the host did not ask for. */
weft_status weft_gpu_wrong_fail(const weft_gpu *gpu, const char *what);

/* gpu_encode_chain.c */
/* Return the memory that a chain must have for one job, and the memory that each job adds, without its lists. */
weft_gpu_need weft_gpu_chain_least(void);
weft_gpu_need weft_gpu_chain_need(const weft_encode_job *job);
/* Returns the device memory of a job's lists and payloads, if so many of its elements changed. */
uint64_t weft_gpu_chain_later(const weft_encode_job *job, uint32_t changed);
/* Returns the bytes of the rows of a slab's jobs, which have so many tiles. */
uint64_t weft_gpu_chain_rows(const weft_gpu_slab *slab, uint32_t tiles);
/* Take the rows of a batch, and fill those of a job. The jobs come in their order. */
void weft_gpu_chain_open(weft_gpu_batch *batch, weft_gpu_sheet *rows, uint32_t tiles);
void weft_gpu_chain_put(weft_gpu_batch *batch, weft_gpu_sheet *rows, uint32_t place);
/* Takes all memory of the slab that is left. Called when all else was taken. */
void weft_gpu_chain_memory(weft_gpu_batch *batch);
/* Puts the launches for the jobs without a frame on the stream, after the pass over all elements. */
weft_status weft_gpu_chain_launch(weft_gpu_batch *batch);
/* Hands over the frames that the launches made, and adds `each` ms to the time of every job. WEFT_AGAIN: launch once
 * more, because jobs lacked memory. WEFT_OK: what is left is the host's. */
weft_status weft_gpu_chain_end(weft_gpu_batch *batch, double each);

/* gpu_encode_lent.c: copies a frame of frame_bytes into the job's sink; none if it does not fit. */
void weft_gpu_frame_put(weft_encode_job *job, weft_level level, const uint8_t *frame);

/* gpu_encode_rest.c: levels of which the device makes no frame, and payloads that are not worth one. The elements of
 * single units come to the host, whose backend codes them. */
/* Return the ordinary memory that a batch has for these units, and the memory that each job adds to a batch. */
uint64_t weft_gpu_rest_plain(void);
weft_gpu_need weft_gpu_rest_need(const weft_encode_job *job);
/* Brings the next jobs, as many as memory allows. WEFT_OK: none is left. */
weft_status weft_gpu_rest_begin(weft_gpu_batch *batch);
weft_status weft_gpu_rest_end(weft_gpu_batch *batch);

/* Bytes in front of each payload for its header, so that a frame can be lent where it was copied to. */
#define WEFT_GPU_HEADER_ROOM 16u
_Static_assert(WEFT_GPU_HEADER_ROOM >= WEFT_FRAME_HEADER_BYTES, "a header");

#endif
