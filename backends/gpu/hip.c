/* hip.c - the driver table over libamdhip64: AMD's runtime.
 *
 * A thread has a current device and no context. The library keeps a thread's last error for the next caller that asks.
 * That may be a framework that checks its own calls, so weft's errors are taken out. */
#include <stdio.h>

#include "backends/gpu/gpu_device.h"

enum { KIND_BY_ADDRESS = 4 }; /* of a copy */
enum { CONTEXT_GONE = 709 };  /* hipErrorContextIsDestroyed: of streams too, since contexts are not used */

/* The calls are the same in these versions; structs, which differ, are not used. */
static const char *const files[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", NULL};
static weft_gpu_library library = {.symbols = WEFT_GPU_HIP, .owner = "AMD ROCm runtime", .files = files};

static int hip_current(const weft_gpu_calls *calls, int *number)
{
    return calls->device_current(number);
}

static int hip_context_take(const weft_gpu_calls *calls, int handle, void **context)
{
    (void)calls;
    (void)handle;
    *context = NULL;
    return WEFT_GPU_DONE;
}

static void hip_context_give(const weft_gpu_calls *calls, int handle)
{
    (void)calls;
    (void)handle;
}

static int hip_enter(const weft_gpu_device *device, weft_gpu_entry *entry)
{
    entry->device = device->handle;
    int code = device->calls->device_current(&entry->device);
    if (code == WEFT_GPU_DONE && entry->device != device->handle)
        code = device->calls->device_choose(device->handle);
    return code;
}

static void hip_leave(const weft_gpu_device *device, const weft_gpu_entry *entry)
{
    if (entry->device != device->handle)
        device->calls->device_choose(entry->device);
}

static int hip_copy(const weft_gpu_calls *calls, uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    return calls->copy_kind(to, from, bytes, KIND_BY_ADDRESS, stream);
}

static void hip_forget(const weft_gpu_calls *calls)
{
    (void)calls->last_error();
}

static const char *hip_word(const weft_gpu_calls *calls, int code)
{
    return calls->code_text(code);
}

/* 60342134 is 6.3.42134. */
static void hip_version(int version, char *text, size_t capacity)
{
    snprintf(text, capacity, "%d.%d.%d", version / 10000000, version / 100000 % 100, version % 100000);
}

static const weft_gpu_vendor vendor = {
    .name = "hip",
    .library = &library,
    .capability_major = 23,
    .capability_minor = 61,
    .stream_gone = CONTEXT_GONE,
    .marks_aside = true, /* ROCm 6 */
    .current = hip_current,
    .context_take = hip_context_take,
    .context_give = hip_context_give,
    .enter = hip_enter,
    .leave = hip_leave,
    .copy = hip_copy,
    .forget = hip_forget,
    .word = hip_word,
    .version = hip_version,
};

/* A thread always has a current device: that a framework brought the library has to do. */
static bool hip_in_use(void)
{
    const weft_gpu_calls *calls;
    int count = 0;
    return weft_gpu_library_foreign(&library) && weft_gpu_library_open(&library, &calls) == WEFT_OK &&
           calls->init(0) == WEFT_GPU_DONE && calls->device_count(&count) == WEFT_GPU_DONE && count > 0;
}

WEFT_GPU_VENDOR_DRIVER(hip);
