/* gpu_results.c - what became of jobs stands in their tickets, and the error texts here. */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu.h"
#include "base/status.h"

void weft_gpu_job_fail(weft_gpu_slab *slab, uint32_t job, weft_status status)
{
    slab->status[job] = status;
    if (!slab->trouble[0])
        snprintf(slab->trouble, sizeof slab->trouble, "%s", weft_last_error());
}

void weft_gpu_results_put(weft_gpu *gpu, const weft_gpu_slab *slab)
{
    const uint32_t trouble = gpu->trouble_count;
    if (slab->trouble[0])
        memcpy(gpu->troubles[gpu->trouble_count++ % WEFT_GPU_TROUBLES], slab->trouble, sizeof slab->trouble);
    for (uint32_t i = 0; i < slab->count; i++) {
        weft_ticket *ticket = slab->jobs[i];
        ticket->status = slab->status[i];
        ticket->trouble = trouble;
    }
}

/* Repeats a failed job's error for the polling thread, which may have decided others since. */
weft_status weft_gpu_result_of(weft_gpu *gpu, const weft_ticket *ticket)
{
    char trouble[sizeof gpu->troubles[0]];
    if (ticket->status >= WEFT_OK)
        return ticket->status;
    pthread_mutex_lock(&gpu->mutex);
    const bool kept = gpu->trouble_count - ticket->trouble <= WEFT_GPU_TROUBLES;
    snprintf(trouble, sizeof trouble, "%s",
             kept ? gpu->troubles[ticket->trouble % WEFT_GPU_TROUBLES] : "a job on the device failed");
    pthread_mutex_unlock(&gpu->mutex);
    if (strcmp(weft_last_error(), trouble) != 0)
        return weft_fail_quiet(ticket->status, "%s", trouble);
    return ticket->status;
}
