/* gpu_slab.h - between the queue and its slabs: waits for a device, and which thread has which slab. */
#ifndef WEFT_BACKENDS_GPU_SLAB_H
#define WEFT_BACKENDS_GPU_SLAB_H

#include "backends/gpu/gpu.h"

void weft_gpu_wait_begin(weft_gpu_wait *wait);
/* Returns true if the wait was too long. Call this before asking whether the work is done. */
bool weft_gpu_wait_ends(weft_gpu_wait *wait, uint64_t most_ns);

/* Remembers what a driver's error means for the device, and returns the error. */
weft_status weft_gpu_noted(weft_gpu *gpu, weft_status status);
/* Says once more why the device was lost. */
weft_status weft_gpu_lost_fail(weft_gpu *gpu);
/* Loses the device, because work does not end that cannot be given up. */
weft_status weft_gpu_hang(weft_gpu *gpu, uint64_t waited_ns);
/* Fails a job that waits too long for other work on the device. `what` became of the job. */
weft_status weft_gpu_late_fail(const weft_gpu *gpu, const char *what);

/* Asks whether the device has done the work on a slab's stream: WEFT_OK, WEFT_AGAIN, or the device's error. `*late` if
 * that takes longer than `most_ns`. While the driver gives no answer the work may have ended long ago. */
weft_status weft_gpu_slab_ask(const weft_gpu *gpu, weft_gpu_slab *slab, uint64_t most_ns, bool *late);
/* Returns true if no work that was given up is on the device any more. */
bool weft_gpu_nothing_is_late(weft_gpu *gpu);
/* Waits for that, at most device_deadline. Errors: WEFT_E_TIMEOUT. */
weft_status weft_gpu_rest(weft_gpu *gpu);

/* Return a slab of the calling thread: the next one under way from number `*index` on, which moves on past that; and
 * the one that is being filled. NULL: there is none. */
weft_gpu_slab *weft_gpu_slab_under_way(weft_gpu *gpu, uint32_t *index);
weft_gpu_slab *weft_gpu_slab_filling(weft_gpu *gpu);
/* Returns a slab that the calling thread may fill; NULL if there is none now. What the thread was lent is put into the
 * jobs' sinks if no other slab can be had. */
weft_gpu_slab *weft_gpu_slab_free(weft_gpu *gpu);
/* True if there is one without that. */
bool weft_gpu_slab_spare(weft_gpu *gpu);
/* Waits for such a slab, and takes steps of the thread's own meanwhile. Errors: WEFT_E_TIMEOUT. */
weft_status weft_gpu_slab_wait(weft_gpu *gpu, weft_gpu_slab **slab);
/* Empties a slab that was taken. */
void weft_gpu_slab_begin(weft_gpu_slab *slab);
void weft_gpu_slab_stage(weft_gpu *gpu, weft_gpu_slab *slab, weft_gpu_stage stage);
/* Tells the jobs their results, and leaves the slab in a stage. */
void weft_gpu_slab_end(weft_gpu *gpu, weft_gpu_slab *slab, weft_gpu_stage stage);

#endif
