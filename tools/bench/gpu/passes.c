/* passes.c - jobs through the backend's table, as sessions submit them. */
#include "base/clock.h"
#include "base/status.h"
#include "tools/bench/gpu/inside.h"

/* ---- frames */

weft_status weft_bench_gpu_encode(weft_bench_gpu *rig, weft_level level, double *ms)
{
    weft_encode_pass pass = {.now = &rig->now_binding,
                             .shadow = &rig->shadow_binding,
                             .parameters = &rig->parameters,
                             .levels = 1u << level,
                             .delta = rig->delta,
                             .emit = weft_bench_frames_put,
                             .user = &rig->frames};
    rig->frames.used = rig->frames.count = 0;
    const uint64_t begun = weft_clock_ns();
    weft_status status =
        weft_encoder_choose(&rig->encoder, &rig->now_binding, &rig->shadow_binding, pass.levels, &rig->parameters);
    if (status == WEFT_OK)
        status = weft_encoder_run(&rig->encoder, &pass);
    *ms = weft_clock_ms(begun, weft_clock_ns());
    return status;
}

static weft_status unchanged_run(weft_bench_gpu *rig, double *ms)
{
    weft_encode_pass pass = {.now = &rig->shadow_binding,
                             .shadow = &rig->shadow_binding,
                             .parameters = &rig->parameters,
                             .levels = 1u << WEFT_LEVEL_FAST,
                             .delta = rig->delta,
                             .emit = weft_bench_frames_put,
                             .user = &rig->frames};
    const uint64_t begun = weft_clock_ns();
    weft_status status = weft_encoder_run(&rig->encoder, &pass);
    *ms = weft_clock_ms(begun, weft_clock_ns());
    return status;
}

/* ---- decode and apply */

static void decode_fill(void *user, uint64_t item, weft_job *job)
{
    weft_bench_gpu *rig = user;
    const weft_bench_frames *frames = &rig->frames;
    job->decode = (weft_decode_job){
        .parameters = &rig->parameters, .changes = weft_staging_at(&rig->staging, item), .tensor_delta = rig->delta};
    weft_frame_admit(rig->layout, frames->data + frames->at[item], frames->at[item + 1] - frames->at[item],
                     &job->decode.frame); /* admitted by lists_place too */
    job->decode.base =
        weft_binding_span(&rig->work_binding, job->decode.frame.header.unit, job->decode.frame.header.units);
}

static void apply_fill(void *user, uint64_t item, weft_job *job)
{
    weft_bench_gpu *rig = user;
    weft_changes *changes = weft_staging_at(&rig->staging, item);
    job->apply = (weft_apply_job){.target = weft_binding_span(&rig->work_binding, changes->unit, changes->units),
                                  .changes = changes};
}

static weft_status apply_done(void *user, uint64_t item, const weft_job *job)
{
    (void)user;
    if (job->status == WEFT_OK && job->apply.mismatch)
        return weft_fail(WEFT_E_BASE, "frame %llu was applied to other weights than it was made for",
                         (unsigned long long)item);
    return job->status;
}

/* Gives each frame room for its changes. */
static weft_status lists_place(weft_bench_gpu *rig)
{
    const weft_bench_frames *frames = &rig->frames;
    weft_status status = WEFT_OK;
    weft_staging_clear(&rig->staging);
    for (uint64_t i = 0; i < frames->count && status == WEFT_OK; i++) {
        weft_frame frame;
        status = weft_frame_admit(rig->layout, frames->data + frames->at[i], frames->at[i + 1] - frames->at[i], &frame);
        if (status == WEFT_OK && !weft_staging_take(&rig->staging, frame.header.unit, frame.header.changed,
                                                    rig->layout->units[frame.header.unit].width))
            status = weft_fail(WEFT_E_BUDGET, "no room for the change lists of %llu frames",
                               (unsigned long long)frames->count);
    }
    return status;
}

static weft_status chore_time(weft_bench_gpu *rig, const weft_chore *chore, double *ms)
{
    const uint64_t begun = weft_clock_ns();
    weft_status status = weft_pipeline_run(&rig->window, chore, 0, rig->frames.count);
    *ms = weft_clock_ms(begun, weft_clock_ns());
    return status;
}

weft_status weft_bench_gpu_apply(weft_bench_gpu *rig, double *decode_ms, double *apply_ms)
{
    const weft_chore decode = {.kind = WEFT_JOB_DECODE, .fill = decode_fill, .user = rig};
    const weft_chore apply = {.kind = WEFT_JOB_APPLY, .fill = apply_fill, .done = apply_done, .user = rig};
    weft_status status = lists_place(rig);
    if (status == WEFT_OK)
        status = chore_time(rig, &decode, decode_ms);
    return status == WEFT_OK ? chore_time(rig, &apply, apply_ms) : status;
}

/* ---- copies */

static weft_status copy_time(weft_bench_gpu *rig, uint64_t to, uint64_t from, double *ms)
{
    const uint64_t begun = weft_clock_ns();
    weft_status status = weft_bench_gpu_copy(rig, to, from);
    *ms = weft_clock_ms(begun, weft_clock_ns());
    return status;
}

/* ---- everything */

static weft_status level_round(weft_bench_gpu *rig, weft_level level, double *encode_ms, double *decode_ms,
                               double *apply_ms)
{
    weft_status status = weft_bench_gpu_copy(rig, rig->work, rig->shadow);
    if (status == WEFT_OK)
        status = weft_bench_gpu_encode(rig, level, encode_ms);
    return status == WEFT_OK ? weft_bench_gpu_apply(rig, decode_ms, apply_ms) : status;
}

weft_status weft_bench_gpu_round(weft_bench_gpu *rig, double ms[WEFT_BENCH_GPU_PASSES])
{
    const uint64_t pinned = (uintptr_t)rig->host_shadow;
    weft_status status = copy_time(rig, rig->work, rig->shadow, &ms[WEFT_BENCH_GPU_COPY]);
    if (status == WEFT_OK)
        status = copy_time(rig, rig->work, pinned, &ms[WEFT_BENCH_GPU_TO_DEVICE]);
    if (status == WEFT_OK)
        status = copy_time(rig, pinned, rig->shadow, &ms[WEFT_BENCH_GPU_TO_HOST]);
    if (status == WEFT_OK)
        status = weft_bench_diff_run(rig, false, &ms[WEFT_BENCH_GPU_DIFF]);
    if (status == WEFT_OK)
        status = weft_bench_diff_run(rig, true, &ms[WEFT_BENCH_GPU_DIFF_HOST]);
    if (status == WEFT_OK)
        status = unchanged_run(rig, &ms[WEFT_BENCH_GPU_UNCHANGED]);
    if (status == WEFT_OK)
        status = level_round(rig, WEFT_LEVEL_FAST, &ms[WEFT_BENCH_GPU_ENCODE_FAST], &ms[WEFT_BENCH_GPU_DECODE_FAST],
                             &ms[WEFT_BENCH_GPU_APPLY_FAST]);
    if (status == WEFT_OK)
        status = level_round(rig, WEFT_LEVEL_TIGHT, &ms[WEFT_BENCH_GPU_ENCODE_TIGHT], &ms[WEFT_BENCH_GPU_DECODE_TIGHT],
                             &ms[WEFT_BENCH_GPU_APPLY_TIGHT]);
    return status;
}
