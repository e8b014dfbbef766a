/* gpu_decode.h - a batch of frames on its way to the device: what each frame asks of the kernels. */
#ifndef WEFT_BACKENDS_GPU_DECODE_H
#define WEFT_BACKENDS_GPU_DECODE_H

#include "backends/gpu/gpu_sheet.h"
#include "codec/fast.h"
#include "codec/tight.h"

/* What the blocks of a launch are laid over; launches over the same share their rows. */
typedef enum weft_gpu_cut {
    WEFT_GPU_CUT_UNARY,      /* the unary plane, and what lies behind it */
    WEFT_GPU_CUT_LOWS,       /* members of lists */
    WEFT_GPU_CUT_EXCEPTIONS, /* of level fast */
    WEFT_GPU_CUT_FAST,       /* changes of level fast */
    WEFT_GPU_CUT_BASE,       /* elements of the base, for level tight */
    WEFT_GPU_CUT_FRAME,      /* one block a tight frame */
    WEFT_GPU_CUT_BOUNDS,     /* parts and classes */
    WEFT_GPU_CUT_TIGHT,      /* changes of level tight */
    WEFT_GPU_CUT_FULL,       /* elements of level full */
    WEFT_GPU_CUT_PAIRS,
    WEFT_GPU_CUTS
} weft_gpu_cut;

/* One frame of a batch. */
typedef struct weft_gpu_decoding {
    const weft_decode_job *job;
    uint64_t address; /* of its row on the device; 0: it was refused */
    uint32_t parts[WEFT_GPU_CUTS];
    weft_k_list *lists; /* the row's, for WEFT_GPU_CUT_LOWS */
    uint32_t list_count;
    uint32_t *faults; /* results */
    uint32_t *kept;
    uint64_t *deltas;
} weft_gpu_decoding;

typedef struct weft_gpu_decode_plan {
    weft_gpu_sheet rows;    /* to the device */
    weft_gpu_sheet results; /* from it; cleared first */
    weft_gpu_sheet scratch;
    weft_gpu_decoding frames[WEFT_GPU_JOBS];
} weft_gpu_decode_plan;

/* Bytes that a frame takes of the plan's sheets, at most; rows of parts are in `rows`. */
typedef struct weft_gpu_frame_bytes {
    uint64_t rows, results, scratch;
} weft_gpu_frame_bytes;
weft_gpu_frame_bytes weft_gpu_frame_need(const weft_decode_job *job);

/* Lays out all rows of a frame but those of parts. Errors: WEFT_E_CORRUPT. */
weft_status weft_gpu_decoding_plan(weft_gpu_decode_plan *plan, const weft_decode_job *job, weft_gpu_decoding *frame);

/* Says what the kernels found; WEFT_OK if nothing. */
weft_status weft_gpu_decoding_judge(const weft_gpu_decoding *frame);

#endif
