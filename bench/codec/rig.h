/* rig.h - the library's encoder and the host backend's decode and apply, on weights in memory, by the clock.
 *
 * What `weft_diff` and `weft_update_apply` do beside that (the digests that prove a base, which also bring half of the
 * weights near before they are compared) is not in the way here; a trainer that publishes and a rollout that commits do
 * not do it either. All memory is taken at open and is warm after the first turn. */
#ifndef WEFT_BENCH_CODEC_RIG_H
#define WEFT_BENCH_CODEC_RIG_H

#include "weft.h"

/* The weights it works on: one layout bound three times. `work` holds what `before` does when apply begins. */
typedef struct weft_bench_weights {
    weft_layout *layout;
    const weft_piece *before, *after, *work;
    uint64_t count; /* pieces of each */
} weft_bench_weights;

typedef struct weft_bench_rig weft_bench_rig;

/* kernels  a kernel set that can run here
 * rig      receives it; give it back with weft_bench_rig_close. Errors: WEFT_E_MEMORY, WEFT_E_SYSTEM, WEFT_E_MISSING,
 *          WEFT_E_LAYOUT. */
weft_status weft_bench_rig_open(const weft_bench_weights *weights, const char *kernels, uint32_t threads,
                                weft_bench_rig **rig);
/* NULL is allowed. */
void weft_bench_rig_close(weft_bench_rig *rig);

/* Chooses the parameters, compares `after` with `before` and encodes; keeps the frames. `ms` receives what the clock
 * says from beginning to end, `choose_ms` what of it the choice took, which is one thread's work. Errors:
 * WEFT_E_ARGUMENT (no such level), the backend's. */
weft_status weft_bench_rig_encode(weft_bench_rig *rig, const char *level, double *ms, double *choose_ms);

/* Checks and decodes the frames against `work`, digests what changes, then applies all of it. */
weft_status weft_bench_rig_apply(weft_bench_rig *rig, double *ms);

#endif
