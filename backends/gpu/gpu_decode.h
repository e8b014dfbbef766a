/* gpu_decode.h - a batch of frames to decode: the rows that the kernels need for each frame. */
#ifndef WEFT_BACKENDS_GPU_DECODE_H
#define WEFT_BACKENDS_GPU_DECODE_H

#include "backends/gpu/gpu_sheet.h"
#include "codec/fast.h"
#include "codec/tight.h"

/* The things that the blocks of a launch are laid over. Launches over the same things share their rows. */
typedef enum weft_gpu_cut {
    WEFT_GPU_CUT_UNARY,      /* words of the unary plane, and of the planes after it */
    WEFT_GPU_CUT_LOWS,       /* members of lists */
    WEFT_GPU_CUT_EXCEPTIONS, /* exceptions of level fast */
    WEFT_GPU_CUT_FAST,       /* changes of level fast */
    WEFT_GPU_CUT_BASE,       /* elements of the base, for level tight */
    WEFT_GPU_CUT_FRAME,      /* one block for each tight frame */
    WEFT_GPU_CUT_BOUNDS,     /* parts and classes */
    WEFT_GPU_CUT_TIGHT,      /* changes of level tight */
    WEFT_GPU_CUT_FULL,       /* elements of level full */
    WEFT_GPU_CUT_PAIRS,
    WEFT_GPU_CUTS
} weft_gpu_cut;

/* One frame of a batch to decode. */
typedef struct weft_gpu_decoding {
    const weft_decode_job *job;
    uint64_t address; /* address of its row on the device; 0: the frame was refused */
    uint32_t parts[WEFT_GPU_CUTS];
    weft_k_list *lists; /* lists of the row, for WEFT_GPU_CUT_LOWS */
    uint32_t list_count;
    uint32_t *faults; /* results */
    uint32_t *kept;
    uint64_t *deltas;
} weft_gpu_decoding;

typedef struct weft_gpu_decode_plan {
    weft_gpu_sheet rows;     /* all that goes to the device: zeros of `results`, payloads, rows of frames and parts */
    weft_gpu_sheet results;  /* results that come from the device, zero at first */
    weft_gpu_sheet payloads; /* not between the rows of frames, because rows stay in a cache and payloads do not */
    weft_gpu_sheet scratch;
    weft_gpu_classes classes;       /* of the last frame of level tight */
    uint32_t blocks[WEFT_GPU_CUTS]; /* parts of all frames */
    weft_gpu_decoding frames[WEFT_GPU_JOBS];
} weft_gpu_decode_plan;

/* The most bytes that a frame takes of the plan's sheets; rows of parts are in `rows`. */
typedef struct weft_gpu_frame_bytes {
    uint64_t rows, payload, results, scratch;
} weft_gpu_frame_bytes;
weft_gpu_frame_bytes weft_gpu_frame_need(const weft_decode_job *job);

/* Lays out all rows of a frame but the rows of parts. Errors: WEFT_E_CORRUPT. */
weft_status weft_gpu_decoding_plan(weft_gpu_decode_plan *plan, const weft_decode_job *job, weft_gpu_decoding *frame);

/* Decides the error that the kernels found; WEFT_OK if they found none. */
weft_status weft_gpu_decoding_judge(const weft_gpu_decoding *frame);

#endif
