/* inside.h - what the files of this folder share. */
#ifndef WEFT_BENCH_GPU_INSIDE_H
#define WEFT_BENCH_GPU_INSIDE_H

#include "backends/gpu/gpu.h"
#include "encode/encode.h"
#include "encode/staging.h"
#include "tools/bench/gpu/rig.h"

/* Frames of one update, back to back. */
typedef struct weft_bench_frames {
    uint8_t *data; /* pages never touched cost nothing */
    uint64_t capacity, used;
    uint64_t *at; /* where each begins, and the end; one more than the layout has units */
    uint64_t most, count;
} weft_bench_frames;

/* Rows of the bitmap pass, on the device. */
typedef struct weft_bench_diff {
    weft_gpu_slab slab; /* its memory and stream */
    void *pinned;
    uint64_t rows[2]; /* against the shadow on the device, and in host memory */
    uint64_t counts, counts_bytes;
    uint64_t copy; /* of the counts, the device's address; `host_copy` is the same memory */
    const uint32_t *host_copy;
    uint32_t blocks;
} weft_bench_diff;

struct weft_bench_gpu {
    const weft_bench_gpu_weights *weights;
    weft_layout *layout;
    weft_bench_gpu_facts facts;
    const weft_backend *backend;
    weft_backend_state *state;
    weft_gpu *gpu; /* the same as `state` */
    void *stream, *mark;
    uint64_t now, shadow, work; /* images in device memory */
    uint8_t *host_shadow;       /* in pinned memory */
    weft_binding now_binding, shadow_binding, work_binding, host_binding;
    weft_encoder encoder;
    weft_pipeline window;
    weft_parameters parameters;
    uint64_t *delta, *wanted_delta; /* a word for each part */
    weft_bench_frames frames, wanted_fast, wanted_tight;
    weft_staging staging;
    weft_bench_diff diff;
};

/* Runs what was queued on the rig's stream to its end. */
weft_status weft_bench_gpu_settle(weft_bench_gpu *rig);
weft_status weft_bench_gpu_copy(weft_bench_gpu *rig, uint64_t to, uint64_t from);

weft_status weft_bench_frames_open(weft_bench_frames *frames, const weft_layout *layout);
void weft_bench_frames_close(weft_bench_frames *frames);
weft_status weft_bench_frames_put(void *frames, weft_level level, const uint8_t *frame, uint32_t bytes);

/* diff.c: `shift` of the runs that the pass is to be cut into. */
weft_status weft_bench_diff_open(weft_bench_gpu *rig, uint32_t shift);
void weft_bench_diff_close(weft_bench_gpu *rig);
weft_status weft_bench_diff_run(weft_bench_gpu *rig, bool host, double *ms);
/* The counts of the last pass. */
weft_status weft_bench_diff_count(weft_bench_gpu *rig, uint64_t *changed);

/* passes.c */
weft_status weft_bench_gpu_encode(weft_bench_gpu *rig, weft_level level, double *ms);
weft_status weft_bench_gpu_apply(weft_bench_gpu *rig, double *decode_ms, double *apply_ms);

/* proof.c: what the host makes of the weights, and that the device makes the same. */
weft_status weft_bench_gpu_expect(weft_bench_gpu *rig);
weft_status weft_bench_gpu_prove(weft_bench_gpu *rig);

#endif
