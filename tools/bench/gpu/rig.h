/* rig.h - a device backend's passes over weights by the clock, beside what its memory and its link give.
 *
 * Weights lie in device memory as a framework has them, beside a shadow on the device and one in pinned host memory.
 * What the device makes is held against the host backend when the rig is opened: frames, digests and applied weights
 * are equal to the byte, or open fails. */
#ifndef WEFT_BENCH_GPU_RIG_H
#define WEFT_BENCH_GPU_RIG_H

#include "port/port_backend.h"

/* One layout bound twice in host memory; pieces may share memory, as copies of a smaller model do. */
typedef struct weft_bench_gpu_weights {
    weft_layout *layout;
    const weft_piece *before, *after;
    uint64_t count; /* pieces of each */
} weft_bench_gpu_weights;

typedef enum weft_bench_gpu_pass {
    WEFT_BENCH_GPU_COPY,      /* the weights' bytes, from device memory to device memory */
    WEFT_BENCH_GPU_TO_DEVICE, /* from pinned host memory */
    WEFT_BENCH_GPU_TO_HOST,
    WEFT_BENCH_GPU_DIFF,        /* the bitmap pass alone, one launch over all weights */
    WEFT_BENCH_GPU_DIFF_HOST,   /* the same against the shadow in host memory */
    WEFT_BENCH_GPU_UNCHANGED,   /* encode jobs over weights of which none changed */
    WEFT_BENCH_GPU_ENCODE_FAST, /* parameters chosen, compared, encoded, frames in host memory */
    WEFT_BENCH_GPU_ENCODE_TIGHT,
    WEFT_BENCH_GPU_DECODE_FAST, /* frames in host memory to change lists */
    WEFT_BENCH_GPU_APPLY_FAST,
    WEFT_BENCH_GPU_DECODE_TIGHT,
    WEFT_BENCH_GPU_APPLY_TIGHT,
    WEFT_BENCH_GPU_PASSES
} weft_bench_gpu_pass;

/* An update at one level. */
typedef struct weft_bench_gpu_size {
    uint64_t frames, bytes;
} weft_bench_gpu_size;

typedef struct weft_bench_gpu_facts {
    char image[32];
    int device;
    uint64_t changed; /* elements */
    uint64_t sectors; /* of 32 bytes of the weights in which something changed */
    weft_bench_gpu_size fast, tight;
} weft_bench_gpu_facts;

typedef struct weft_bench_gpu weft_bench_gpu;

/* backend  "cuda" or "hip"
 * budget   bytes of device memory that weft may take, weights not counted; 0: what it wants
 * rig      receives it; give it back with weft_bench_gpu_close. Errors: WEFT_E_MISSING (no such device), WEFT_E_MEMORY,
 *          WEFT_E_DEVICE, WEFT_E_CONFIG and WEFT_E_BUDGET (the budget is too little), WEFT_E_TARGET (the device makes
 *          other bytes than the host). */
weft_status weft_bench_gpu_open(const weft_bench_gpu_weights *weights, const char *backend, uint64_t budget,
                                weft_bench_gpu **rig);
/* NULL is allowed. */
void weft_bench_gpu_close(weft_bench_gpu *rig);

const weft_bench_gpu_facts *weft_bench_gpu_facts_of(const weft_bench_gpu *rig);

/* Everything once: what each pass took. */
weft_status weft_bench_gpu_round(weft_bench_gpu *rig, double ms[WEFT_BENCH_GPU_PASSES]);

#endif
