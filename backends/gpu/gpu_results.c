/* gpu_results.c - jobs that are done, until they are asked for. */
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
    for (uint32_t i = 0; i < slab->count; i++)
        gpu->results[gpu->result_count++] =
            (weft_gpu_result){.job = slab->jobs[i], .status = slab->status[i], .trouble = trouble};
}

/* Repeats a failed job's error for the polling thread, which may have decided others since. */
static weft_status result_tell(const weft_gpu *gpu, const weft_gpu_result *result, char *trouble)
{
    bool kept = gpu->trouble_count - result->trouble <= WEFT_GPU_TROUBLES;
    snprintf(trouble, sizeof gpu->troubles[0], "%s",
             kept ? gpu->troubles[result->trouble % WEFT_GPU_TROUBLES] : "a job on the device failed");
    return result->status;
}

weft_status weft_gpu_result_take(weft_gpu *gpu, const void *job)
{
    char trouble[sizeof gpu->troubles[0]] = "";
    weft_status status = WEFT_AGAIN;
    pthread_mutex_lock(&gpu->mutex);
    for (uint32_t i = 0; i < gpu->result_count && status == WEFT_AGAIN; i++) {
        weft_gpu_result *result = &gpu->results[i];
        if (result->job != job)
            continue;
        status = result->status == WEFT_OK ? WEFT_OK : result_tell(gpu, result, trouble);
        *result = gpu->results[--gpu->result_count];
        gpu->taken--;
    }
    pthread_mutex_unlock(&gpu->mutex);
    if (status < WEFT_OK && strcmp(weft_last_error(), trouble) != 0)
        return weft_fail_quiet(status, "%s", trouble);
    return status;
}
