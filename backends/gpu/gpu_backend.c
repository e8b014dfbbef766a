/* gpu_backend.c - the tables of the device backends. */
#include "backends/gpu/gpu.h"
#include "backends/gpu/gpu_slab.h"
#include "backends/host/host.h"

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

static void slot_close(weft_backend_state *state)
{
    weft_gpu_close(gpu_of(state));
}

static const char *slot_kernels(const weft_backend_state *state)
{
    const weft_gpu *gpu = (const weft_gpu *)(const void *)state;
    return gpu->driver->image(gpu->device);
}

static weft_status slot_memory_take(weft_backend_state *state, uint64_t bytes, weft_memory_kind kind, void **memory)
{
    return weft_gpu_memory_take(gpu_of(state), bytes, kind == WEFT_MEMORY_HOST, memory);
}

static void slot_memory_give(weft_backend_state *state, void *memory, uint64_t bytes, weft_memory_kind kind)
{
    (void)bytes;
    (void)kind;
    weft_gpu_memory_give(gpu_of(state), memory);
}

static uint64_t slot_memory_left(weft_backend_state *state)
{
    return weft_gpu_memory_left(gpu_of(state));
}

static weft_status slot_rest(weft_backend_state *state)
{
    return weft_gpu_rest(gpu_of(state));
}

static uint64_t slot_runs(const weft_backend_state *state)
{
    return weft_gpu_runs((const weft_gpu *)(const void *)state);
}

static const char *slot_check(weft_backend_state *state, const void *data, uint64_t bytes)
{
    static _Thread_local char reason[192];
    const weft_gpu *gpu = gpu_of(state);
    return bytes ? gpu->driver->reaches(gpu->device, (uintptr_t)data, bytes, reason, sizeof reason) : NULL;
}

/* ---- jobs on the device */

#define KINDS(ROW) ROW(encode) ROW(decode) ROW(survey) ROW(apply) ROW(undo) ROW(digest) ROW(load) ROW(store)

#define SUBMIT(kind)                                                                                                   \
    static weft_status slot_##kind(weft_backend_state *state, weft_##kind##_job *job)                                  \
    {                                                                                                                  \
        return weft_gpu_submit(gpu_of(state), &weft_gpu_##kind, job);                                                  \
    }
KINDS(SUBMIT)

static weft_status slot_queue(weft_backend_state *state, weft_queued_commit *commit)
{
    return weft_gpu_commit_queue(gpu_of(state), commit);
}

static weft_status slot_queued(weft_backend_state *state, weft_queued_commit *commit)
{
    return weft_gpu_commit_ask(gpu_of(state), commit);
}

static weft_status slot_poll(weft_backend_state *state, void *job)
{
    return weft_gpu_poll(gpu_of(state), job);
}

static void slot_give(weft_backend_state *state, weft_encode_job *job)
{
    weft_gpu_give(gpu_of(state), job);
}

static bool slot_ready(weft_backend_state *state)
{
    return weft_gpu_ready(gpu_of(state));
}

static void slot_hold(weft_backend_state *state)
{
    gpu_of(state)->driver->hold(gpu_of(state)->device);
}

static void slot_release(weft_backend_state *state)
{
    gpu_of(state)->driver->release(gpu_of(state)->device);
}

static weft_status slot_followed(weft_backend_state *state)
{
    return weft_gpu_followed(gpu_of(state));
}

/* ---- jobs on frames in host memory, which the host does */

static weft_status slot_merge(weft_backend_state *state, weft_merge_job *job)
{
    return weft_backend_host.merge(gpu_of(state)->host, job);
}

static weft_status slot_drain(weft_backend_state *state, weft_drain_job *job)
{
    return weft_backend_host.drain(gpu_of(state)->host, job);
}

static weft_status slot_invert(weft_backend_state *state, weft_invert_job *job)
{
    return weft_backend_host.invert(gpu_of(state)->host, job);
}

/* ---- the vendors */

#define SLOT(kind) .kind = slot_##kind,
#define SLOTS                                                                                                          \
    .abi = WEFT_BACKEND_ABI, .depth = WEFT_GPU_DEPTH,                                                                  \
    .host_bytes = WEFT_GPU_SLABS * (WEFT_GPU_PINNED_BYTES + WEFT_GPU_PLAIN_BYTES), .close = slot_close,                \
    .device_bytes = WEFT_GPU_SLABS * WEFT_GPU_DEVICE_BYTES, .memory_left = slot_memory_left, .kernels = slot_kernels,  \
    .memory_take = slot_memory_take, .memory_give = slot_memory_give, .runs = slot_runs, .check = slot_check,          \
    .rest = slot_rest, .queue = slot_queue, .queued = slot_queued, KINDS(SLOT).merge = slot_merge,                     \
    .drain = slot_drain, .invert = slot_invert, .poll = slot_poll, .give = slot_give, .ready = slot_ready,             \
    .followed = slot_followed, .hold = slot_hold, .release = slot_release

#define VENDOR(vendor, VENDORS)                                                                                        \
    static size_t vendor##_probe(weft_device_info *devices, size_t capacity)                                           \
    {                                                                                                                  \
        return weft_gpu_driver_##vendor.probe(devices, capacity);                                                      \
    }                                                                                                                  \
    static weft_status vendor##_open(const weft_backend_options *options, weft_backend_state **state)                  \
    {                                                                                                                  \
        return open_with(&weft_gpu_driver_##vendor, options, state);                                                   \
    }                                                                                                                  \
    const weft_backend weft_backend_##vendor = {.name = #vendor,                                                       \
                                                .caps = WEFT_BACKEND_DEVICE | WEFT_BACKEND_##VENDORS,                  \
                                                .probe = vendor##_probe,                                               \
                                                .open = vendor##_open,                                                 \
                                                SLOTS};
VENDOR(cuda, CUDA)
VENDOR(hip, HIP)
