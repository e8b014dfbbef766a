/* gpu_backend.c - the tables of the device backends. */
#include "backends/gpu_backend.h"

#include "backends/cuda.h"
#include "backends/hip.h"
#include "backends/host.h"

/* The port's state is the backend's own record. */
static weft_gpu *gpu_of(weft_backend_state *state)
{
    return (weft_gpu *)(void *)state;
}

static weft_status open_with(const weft_gpu_driver *driver, const weft_backend_options *options,
                             weft_backend_state **state)
{
    weft_gpu *gpu;
    weft_status status = weft_gpu_open(driver, options, &gpu);
    *state = (weft_backend_state *)(void *)gpu;
    return status;
}

void weft_gpu_slot_close(weft_backend_state *state)
{
    weft_gpu_close(gpu_of(state));
}

const char *weft_gpu_slot_kernels(const weft_backend_state *state)
{
    const weft_gpu *gpu = (const weft_gpu *)(const void *)state;
    return gpu->driver->image(gpu->device);
}

weft_status weft_gpu_slot_memory_take(weft_backend_state *state, uint64_t bytes, weft_memory_kind kind, void **memory)
{
    return weft_gpu_memory_take(gpu_of(state), bytes, kind == WEFT_MEMORY_HOST, memory);
}

void weft_gpu_slot_memory_give(weft_backend_state *state, void *memory, uint64_t bytes, weft_memory_kind kind)
{
    (void)bytes;
    (void)kind;
    weft_gpu_memory_give(gpu_of(state), memory);
}

const char *weft_gpu_slot_check(weft_backend_state *state, const void *data, uint64_t bytes)
{
    weft_gpu *gpu = gpu_of(state);
    return bytes ? gpu->driver->reaches(gpu->device, (uintptr_t)data, bytes, gpu->reason, sizeof gpu->reason) : NULL;
}

/* ---- jobs on the device */

weft_status weft_gpu_slot_encode(weft_backend_state *state, weft_encode_job *job)
{
    return weft_gpu_submit(gpu_of(state), &weft_gpu_encode, job);
}

weft_status weft_gpu_slot_decode(weft_backend_state *state, weft_decode_job *job)
{
    return weft_gpu_submit(gpu_of(state), &weft_gpu_decode, job);
}

weft_status weft_gpu_slot_survey(weft_backend_state *state, weft_survey_job *job)
{
    return weft_gpu_submit(gpu_of(state), &weft_gpu_survey, job);
}

weft_status weft_gpu_slot_apply(weft_backend_state *state, weft_apply_job *job)
{
    return weft_gpu_submit(gpu_of(state), &weft_gpu_apply, job);
}

weft_status weft_gpu_slot_undo(weft_backend_state *state, weft_undo_job *job)
{
    return weft_gpu_submit(gpu_of(state), &weft_gpu_undo, job);
}

weft_status weft_gpu_slot_digest(weft_backend_state *state, weft_digest_job *job)
{
    return weft_gpu_submit(gpu_of(state), &weft_gpu_digest, job);
}

weft_status weft_gpu_slot_load(weft_backend_state *state, weft_load_job *job)
{
    return weft_gpu_submit(gpu_of(state), &weft_gpu_load, job);
}

weft_status weft_gpu_slot_store(weft_backend_state *state, weft_store_job *job)
{
    return weft_gpu_submit(gpu_of(state), &weft_gpu_store, job);
}

weft_status weft_gpu_slot_poll(weft_backend_state *state, void *job)
{
    return weft_gpu_poll(gpu_of(state), job);
}

/* ---- jobs on frames in host memory, which the host does */

weft_status weft_gpu_slot_merge(weft_backend_state *state, weft_merge_job *job)
{
    return weft_backend_host.merge(gpu_of(state)->host, job);
}

weft_status weft_gpu_slot_drain(weft_backend_state *state, weft_drain_job *job)
{
    return weft_backend_host.drain(gpu_of(state)->host, job);
}

/* ---- the vendors */

static size_t cuda_probe(weft_device_info *devices, size_t capacity)
{
    return weft_gpu_driver_cuda.probe(devices, capacity);
}

static weft_status cuda_open(const weft_backend_options *options, weft_backend_state **state)
{
    return open_with(&weft_gpu_driver_cuda, options, state);
}

const weft_backend weft_backend_cuda = {.name = "cuda", .probe = cuda_probe, .open = cuda_open, WEFT_GPU_SLOTS};

static size_t hip_probe(weft_device_info *devices, size_t capacity)
{
    return weft_gpu_driver_hip.probe(devices, capacity);
}

static weft_status hip_open(const weft_backend_options *options, weft_backend_state **state)
{
    return open_with(&weft_gpu_driver_hip, options, state);
}

const weft_backend weft_backend_hip = {.name = "hip", .probe = hip_probe, .open = hip_open, WEFT_GPU_SLOTS};
