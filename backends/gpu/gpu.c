/* gpu.c - a device that is open for jobs: its memory, and the calls with which kinds of job use a slab. */
#include "backends/gpu/gpu.h"

#include <stdio.h>

#include "backends/host/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

#define MIB UINT64_C(1048576)

/* Bytes of a slab. */
#define DEVICE_BYTES       WEFT_GPU_DEVICE_BYTES
#define DEVICE_BYTES_LEAST (48 * MIB)
#define PINNED_BYTES       WEFT_GPU_PINNED_BYTES
#define PLAIN_BYTES        WEFT_GPU_PLAIN_BYTES

#define BLOCK_ALIGN 4096u

#define PATIENCE_NS UINT64_C(120000000000)
#define CALLER_NS   UINT64_C(600000000000) /* as long as frameworks wait for a collective */

/* ---- for kinds */

static uint64_t room_take(weft_gpu_room *room, uint64_t bytes)
{
    uint64_t at = room->used;
    uint64_t whole = (bytes + WEFT_GPU_ALIGN - 1) / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN;
    if (whole < bytes || whole > room->bytes - at)
        return UINT64_MAX;
    room->used += whole;
    return at;
}

uint64_t weft_gpu_take_device(weft_gpu_slab *slab, uint64_t bytes)
{
    uint64_t at = room_take(&slab->device, bytes);
    return at == UINT64_MAX ? 0 : slab->device.address + at;
}

void *weft_gpu_take_pinned(weft_gpu_slab *slab, uint64_t bytes, uint64_t *address)
{
    uint64_t at = room_take(&slab->pinned, bytes);
    if (address)
        *address = at == UINT64_MAX ? 0 : slab->pinned.address + at;
    return at == UINT64_MAX ? NULL : slab->pinned.host + at;
}

void *weft_gpu_take_plain(weft_gpu_slab *slab, uint64_t bytes)
{
    uint64_t at = room_take(&slab->plain, bytes);
    return at == UINT64_MAX ? NULL : slab->plain.host + at;
}

weft_status weft_gpu_launch(weft_gpu *gpu, weft_gpu_slab *slab, enum weft_gpu_kernel kernel, uint32_t blocks,
                            uint64_t rows)
{
    return blocks ? gpu->driver->launch(gpu->device, slab->stream, kernel, blocks, rows) : WEFT_OK;
}

weft_status weft_gpu_copy(weft_gpu *gpu, weft_gpu_slab *slab, uint64_t to, uint64_t from, uint64_t bytes)
{
    return bytes ? gpu->driver->copy(gpu->device, slab->stream, to, from, bytes) : WEFT_OK;
}

weft_status weft_gpu_clear(weft_gpu *gpu, weft_gpu_slab *slab, uint64_t address, uint64_t bytes)
{
    return bytes ? gpu->driver->clear(gpu->device, slab->stream, address, bytes) : WEFT_OK;
}

/* ---- memory */

/* Counts device memory against the budget; false if it is too much. `before`: bytes taken before. */
static bool budget_take(weft_gpu *gpu, uint64_t bytes, uint64_t *before)
{
    pthread_mutex_lock(&gpu->mutex);
    *before = gpu->device_bytes;
    bool fits = bytes <= gpu->budget - *before;
    if (fits)
        gpu->device_bytes += bytes;
    pthread_mutex_unlock(&gpu->mutex);
    return fits;
}

static void budget_give(weft_gpu *gpu, uint64_t bytes)
{
    pthread_mutex_lock(&gpu->mutex);
    gpu->device_bytes -= bytes;
    pthread_mutex_unlock(&gpu->mutex);
}

static weft_status block_device(weft_gpu *gpu, weft_gpu_block *block)
{
    block->bytes += BLOCK_ALIGN; /* drivers align to less */
    uint64_t before;
    if (!budget_take(gpu, block->bytes, &before))
        return weft_fail(WEFT_E_MEMORY,
                         "%s: %.1f MB of device memory are beyond the budget of %.1f MB, of which %.1f are taken: "
                         "raise device_memory",
                         gpu->driver->name, (double)block->bytes / 1e6, (double)gpu->budget / 1e6,
                         (double)before / 1e6);
    weft_status status = gpu->driver->memory_take(gpu->device, block->bytes, &block->address);
    if (status != WEFT_OK)
        budget_give(gpu, block->bytes);
    block->memory = (void *)(uintptr_t)((block->address + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN);
    return status;
}

/* Views in pinned memory are named by one address, to the host and to the device. */
static weft_status block_pinned(weft_gpu *gpu, weft_gpu_block *block)
{
    uint64_t address;
    weft_status status = gpu->driver->pinned_take(gpu->device, block->bytes, &block->memory, &address);
    if (status != WEFT_OK || address == (uintptr_t)block->memory)
        return status;
    gpu->driver->pinned_give(gpu->device, block->memory);
    return weft_fail(WEFT_E_DEVICE, "%s: the device knows pinned memory by another address than the host",
                     gpu->driver->name);
}

static void block_give(weft_gpu *gpu, weft_gpu_block *block)
{
    if (block->address) {
        gpu->driver->memory_give(gpu->device, block->address);
        budget_give(gpu, block->bytes);
    } else {
        gpu->driver->pinned_give(gpu->device, block->memory);
    }
}

weft_status weft_gpu_memory_take(weft_gpu *gpu, uint64_t bytes, bool pinned, void **memory)
{
    *memory = NULL;
    weft_gpu_block *block = weft_mem_take(1, sizeof *block);
    if (!block)
        return weft_fail(WEFT_E_MEMORY, "%s: no memory for a record of memory", gpu->driver->name);
    block->bytes = bytes;
    weft_status status = pinned ? block_pinned(gpu, block) : block_device(gpu, block);
    if (status != WEFT_OK) {
        weft_mem_give(block);
        return status;
    }
    pthread_mutex_lock(&gpu->mutex);
    block->next = gpu->blocks;
    gpu->blocks = block;
    pthread_mutex_unlock(&gpu->mutex);
    *memory = block->memory;
    return WEFT_OK;
}

void weft_gpu_memory_give(weft_gpu *gpu, void *memory)
{
    pthread_mutex_lock(&gpu->mutex);
    weft_gpu_block **at = &gpu->blocks, *block;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    block = *at;
    if (block)
        *at = block->next;
    pthread_mutex_unlock(&gpu->mutex);
    if (block && !atomic_load(&gpu->hung))
        block_give(gpu, block);
    weft_mem_give(block);
}

uint64_t weft_gpu_memory_left(weft_gpu *gpu)
{
    uint64_t left;
    if (gpu->driver->memory_left(gpu->device, &left) != WEFT_OK)
        return 0;
    pthread_mutex_lock(&gpu->mutex);
    const uint64_t budget = gpu->budget - gpu->device_bytes;
    pthread_mutex_unlock(&gpu->mutex);
    return left < budget ? left : budget;
}

void *weft_gpu_order(weft_gpu *gpu, const weft_view *view, void *stream, bool *ordered)
{
    const weft_run *run = view->runs;
    const uint64_t address = view->run_count == 0 ? 0
                             : run->data          ? (uintptr_t)run->data
                                                  : (uintptr_t)view->boxes->box[view->boxes->first[run->tensor]].data;
    *ordered = true;
    pthread_mutex_lock(&gpu->mutex);
    for (const weft_gpu_block *block = gpu->blocks; block && *ordered; block = block->next)
        *ordered = address - (block->address ? block->address : (uintptr_t)block->memory) >= block->bytes;
    pthread_mutex_unlock(&gpu->mutex);
    return *ordered ? stream : NULL;
}

uint64_t weft_gpu_runs(const weft_gpu *gpu)
{
    const weft_gpu_slab *slab = &gpu->slabs[0];
    const uint64_t bytes = slab->device.bytes < slab->pinned.bytes ? slab->device.bytes : slab->pinned.bytes;
    return (bytes - WEFT_GPU_JOB_BYTES) / WEFT_GPU_RUN_BYTES;
}

/* ---- open and close */

static weft_status slab_open(weft_gpu *gpu, weft_gpu_slab *slab, uint64_t device_bytes)
{
    const weft_gpu_driver *driver = gpu->driver;
    void *pinned;
    slab->stream = weft_gpu_stream_of(gpu, slab, false);
    weft_status status = driver->mark_take(gpu->device, &slab->mark);
    if (status == WEFT_OK)
        status = driver->mark_take(gpu->device, &slab->fence);
    if (status == WEFT_OK)
        status = driver->memory_take(gpu->device, device_bytes, &slab->device.address);
    if (status == WEFT_OK)
        status = driver->pinned_take(gpu->device, PINNED_BYTES, &pinned, &slab->pinned.address);
    if (status != WEFT_OK)
        return status;
    slab->pinned.host = pinned;
    slab->plain.host = weft_mem_map(PLAIN_BYTES);
    if (!slab->plain.host)
        return weft_fail(WEFT_E_MEMORY, "%s: %.1f MB of host memory cannot be had", driver->name, PLAIN_BYTES / 1e6);
    slab->device.bytes = device_bytes;
    slab->pinned.bytes = PINNED_BYTES;
    slab->plain.bytes = PLAIN_BYTES;
    gpu->device_bytes += device_bytes;
    return WEFT_OK;
}

static void slab_close(weft_gpu *gpu, weft_gpu_slab *slab)
{
    const weft_gpu_driver *driver = gpu->driver;
    weft_mem_unmap(slab->plain.host, slab->plain.host ? PLAIN_BYTES : 0);
    if (atomic_load(&gpu->hung))
        return; /* giving back would wait for work that does not end */
    driver->pinned_give(gpu->device, slab->pinned.host);
    driver->memory_give(gpu->device, slab->device.address);
    driver->mark_give(gpu->device, slab->fence);
    driver->mark_give(gpu->device, slab->mark);
}

/* The slabs get half of a budget, and core takes from the other half. */
static weft_status device_share(const weft_gpu *gpu, uint64_t *bytes)
{
    uint64_t share = gpu->budget / 2 / WEFT_GPU_SLABS;
    *bytes = share < DEVICE_BYTES ? share / MIB * MIB : DEVICE_BYTES;
    if (*bytes >= DEVICE_BYTES_LEAST)
        return WEFT_OK;
    return weft_fail(WEFT_E_CONFIG, "device_memory of %.1f MB is too little: at least %.1f MB are needed",
                     (double)gpu->budget / 1e6, (double)(2 * WEFT_GPU_SLABS * DEVICE_BYTES_LEAST) / 1e6);
}

static weft_status parts_open(weft_gpu *gpu, int number)
{
    const weft_backend_options host = {-1, "auto", 0, 0};
    uint64_t bytes;
    weft_status status = device_share(gpu, &bytes);
    if (status == WEFT_OK)
        status = weft_backend_host.open(&host, &gpu->host);
    if (status == WEFT_OK)
        status = gpu->driver->open(number, &gpu->device);
    for (uint32_t i = 0; i < WEFT_GPU_STREAMS && status == WEFT_OK; i++)
        status = gpu->driver->stream_take(gpu->device, i == WEFT_GPU_STREAMS - 1, &gpu->streams[i]);
    for (uint32_t i = 0; i < WEFT_GPU_SLABS && status == WEFT_OK; i++)
        status = slab_open(gpu, &gpu->slabs[i], bytes);
    return status;
}

weft_status weft_gpu_open(const weft_gpu_driver *driver, const weft_backend_options *options, weft_gpu **gpu)
{
    *gpu = NULL;
    weft_gpu *made = weft_mem_take(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "%s: no memory for the backend's record", driver->name);
    made->driver = driver;
    made->budget = options->budget_bytes ? options->budget_bytes : UINT64_MAX;
    made->jobs_most = WEFT_GPU_JOBS;
    made->patience_ns = options->late_ms ? options->late_ms * 1000000 : PATIENCE_NS;
    made->caller_ns = made->hang_ns = CALLER_NS;
    pthread_mutex_init(&made->mutex, NULL);
    weft_status status = parts_open(made, options->device);
    if (status != WEFT_OK) {
        weft_gpu_close(made);
        return status;
    }
    weft_log(WEFT_LOG_INFO, "%s device %d: image %s, %.1f MB of its memory", driver->name, driver->number(made->device),
             driver->image(made->device), (double)made->device_bytes / 1e6);
    *gpu = made;
    return WEFT_OK;
}

void weft_gpu_close(weft_gpu *gpu)
{
    if (!gpu)
        return;
    for (uint32_t i = 0; i < WEFT_GPU_SLABS && gpu->device; i++) {
        const weft_gpu_stage stage = gpu->slabs[i].stage;
        const bool works = stage == WEFT_GPU_RUNNING || stage == WEFT_GPU_LATE || stage == WEFT_GPU_QUEUED;
        if (works && !atomic_load(&gpu->hung))
            weft_gpu_quiet(gpu, &gpu->slabs[i]);
    }
    while (gpu->blocks)
        weft_gpu_memory_give(gpu, gpu->blocks->memory);
    for (uint32_t i = 0; i < WEFT_GPU_SLABS && gpu->device; i++)
        slab_close(gpu, &gpu->slabs[i]);
    for (uint32_t i = 0; i < WEFT_GPU_STREAMS && gpu->device && !atomic_load(&gpu->hung); i++)
        gpu->driver->stream_give(gpu->device, gpu->streams[i]);
    if (gpu->device && atomic_load(&gpu->hung))
        gpu->driver->abandon(gpu->device);
    else if (gpu->device)
        gpu->driver->close(gpu->device);
    if (gpu->host)
        weft_backend_host.close(gpu->host);
    pthread_mutex_destroy(&gpu->mutex);
    weft_mem_give(gpu);
}
