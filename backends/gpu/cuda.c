/* cuda.c - the driver table over libcuda: NVIDIA's driver interface.
 *
 * The device's primary context is retained, which is the one that frameworks use: their memory and streams are good
 * here. It is current only during a call. */
#include <stdio.h>

#include "backends/gpu/gpu_device.h"

static const char *const files[] = {"libcuda.so.1", NULL};
static weft_gpu_library library = {.symbols = WEFT_GPU_CUDA, .owner = "NVIDIA driver", .files = files};

/* A thread may have no context current though the process works with a device, as those of asyncio and Ray have: then
 * the first device counts whose primary context is active. */
static int cuda_current(const weft_gpu_calls *calls, int *number)
{
    int code = calls->context_device(number), count = 0, handle = 0, active = 0;
    unsigned flags = 0;
    if (code != WEFT_GPU_DONE && calls->device_count(&count) != WEFT_GPU_DONE)
        count = 0;
    for (int i = 0; i < count && code != WEFT_GPU_DONE; i++) {
        if (calls->device_get(&handle, i) != WEFT_GPU_DONE ||
            calls->context_state(handle, &flags, &active) != WEFT_GPU_DONE || !active)
            continue;
        *number = i;
        code = WEFT_GPU_DONE;
    }
    return code;
}

static int cuda_context_take(const weft_gpu_calls *calls, int handle, void **context)
{
    return calls->context_retain(context, handle);
}

static void cuda_context_give(const weft_gpu_calls *calls, int handle)
{
    calls->context_release(handle);
}

static int cuda_enter(const weft_gpu_device *device, weft_gpu_entry *entry)
{
    entry->device = device->handle;
    return device->calls->context_push(device->context);
}

static void cuda_leave(const weft_gpu_device *device, const weft_gpu_entry *entry)
{
    void *context = NULL;
    (void)entry;
    device->calls->context_pop(&context);
}

static int cuda_copy(const weft_gpu_calls *calls, uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    return calls->copy(to, from, bytes, stream);
}

static void cuda_forget(const weft_gpu_calls *calls)
{
    (void)calls; /* this interface keeps no error */
}

static const char *cuda_word(const weft_gpu_calls *calls, int code)
{
    const char *word = NULL;
    return calls->code_name(code, &word) == WEFT_GPU_DONE ? word : NULL;
}

static void cuda_version(int version, char *text, size_t capacity)
{
    snprintf(text, capacity, "%d.%d", version / 1000, version % 1000 / 10);
}

static const weft_gpu_vendor vendor = {
    .name = "cuda",
    .library = &library,
    .capability_major = 75,
    .capability_minor = 76,
    .stream_gone = WEFT_GPU_WRONG_HANDLE,
    .current = cuda_current,
    .context_take = cuda_context_take,
    .context_give = cuda_context_give,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .copy = cuda_copy,
    .forget = cuda_forget,
    .word = cuda_word,
    .version = cuda_version,
};

/* A framework that works with a device has its primary context active. */
static bool cuda_in_use(void)
{
    const weft_gpu_calls *calls;
    int number = -1;
    return weft_gpu_library_foreign(&library) && weft_gpu_library_open(&library, &calls) == WEFT_OK &&
           calls->init(0) == WEFT_GPU_DONE && cuda_current(calls, &number) == WEFT_GPU_DONE;
}

WEFT_GPU_VENDOR_DRIVER(cuda);
