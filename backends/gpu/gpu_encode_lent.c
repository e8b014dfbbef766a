/* gpu_encode_lent.c - frames are lent where the device left them, or put into the sinks. */
#include <string.h>

#include "backends/gpu/gpu_encode.h"
#include "backends/host/host_state.h"

void weft_gpu_frame_put(weft_encode_job *job, weft_level level, const uint8_t *frame)
{
    uint8_t *out = weft_host_sink_take(&job->sinks[level], job->frame_bytes[level]);
    if (out)
        memcpy(out, frame, job->frame_bytes[level]);
    else
        job->frame_bytes[level] = 0;
}

void weft_gpu_lent_end(weft_gpu_slab *slab, uint32_t place, bool follow)
{
    weft_gpu_batch *batch = slab->plan;
    batch->encodings[place].lent = false;
    batch->encodings[place].follows = follow;
    slab->follows += follow;
    slab->lent--;
}

/* Touches no byte of a job that has nothing on loan, because the caller has that job again. */
void weft_gpu_lent_settle(weft_gpu_slab *slab)
{
    const weft_gpu_batch *batch = slab->plan;
    for (uint32_t i = 0; i < slab->count; i++) {
        weft_encode_job *job = batch->encodings[i].job;
        for (unsigned level = 0; batch->encodings[i].lent && level < WEFT_LEVEL_COUNT; level++) {
            if (job->lent[level])
                weft_gpu_frame_put(job, (weft_level)level, job->lent[level]);
            job->lent[level] = NULL;
            job->follows = false;
        }
    }
    slab->lent = 0;
}
