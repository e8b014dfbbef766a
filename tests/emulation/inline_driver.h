/* inline_driver.h - what drivers without a device share: memory is the process's, and work is done when it is asked
 * for. One file for each such driver includes this, after it has defined inline_take .. inline_launch, and makes a
 * table by INLINE_DRIVER. */
#ifndef WEFT_TESTS_EMULATION_INLINE_DRIVER_H
#define WEFT_TESTS_EMULATION_INLINE_DRIVER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/gpu_driver.h"

static void *inline_take(uint64_t bytes);                   /* aligned to 256 bytes; never NULL */
static void inline_give(void *memory);                      /* NULL: nothing */
static bool inline_holds(uint64_t address, uint64_t bytes); /* whether kernels may reach all of it */
static weft_status inline_launch(enum weft_gpu_kernel kernel, uint32_t blocks, uint64_t argument);

struct weft_gpu_device {
    int number;
};

static size_t inline_driver_probe(weft_device_info *devices, size_t capacity)
{
    if (capacity > 0)
        memset(devices, 0, sizeof *devices);
    return 1;
}

static weft_status inline_driver_open(int number, weft_gpu_device **device)
{
    *device = malloc(sizeof **device);
    if (!*device)
        abort();
    (*device)->number = number < 0 ? 0 : number;
    return WEFT_OK;
}

static void inline_driver_close(weft_gpu_device *device)
{
    free(device);
}

static void inline_driver_hold(weft_gpu_device *device)
{
    (void)device;
}

static int inline_driver_number(const weft_gpu_device *device)
{
    return device->number;
}

static const char *inline_driver_image(const weft_gpu_device *device)
{
    (void)device;
    return "emulation";
}

static weft_status inline_driver_memory_take(weft_gpu_device *device, uint64_t bytes, uint64_t *address)
{
    (void)device;
    *address = (uintptr_t)inline_take(bytes);
    return WEFT_OK;
}

static void inline_driver_memory_give(weft_gpu_device *device, uint64_t address)
{
    (void)device;
    inline_give((void *)(uintptr_t)address);
}

static weft_status inline_driver_memory_left(weft_gpu_device *device, uint64_t *bytes)
{
    (void)device;
    *bytes = UINT64_C(4) << 30;
    return WEFT_OK;
}

static weft_status inline_driver_pinned_take(weft_gpu_device *device, uint64_t bytes, void **memory, uint64_t *address)
{
    weft_status status = inline_driver_memory_take(device, bytes, address);
    *memory = (void *)(uintptr_t)*address;
    return status;
}

static void inline_driver_pinned_give(weft_gpu_device *device, void *memory)
{
    (void)device;
    inline_give(memory);
}

static weft_status inline_driver_handle_take(weft_gpu_device *device, void **handle)
{
    *handle = device;
    return WEFT_OK;
}

static weft_status inline_driver_stream_take(weft_gpu_device *device, bool urgent, void **stream)
{
    (void)urgent;
    return inline_driver_handle_take(device, stream);
}

static void inline_driver_handle_give(weft_gpu_device *device, void *handle)
{
    (void)device;
    (void)handle;
}

static weft_status inline_driver_copy(weft_gpu_device *device, void *stream, uint64_t to, uint64_t from, uint64_t bytes)
{
    (void)device;
    (void)stream;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return WEFT_OK;
}

static weft_status inline_driver_clear(weft_gpu_device *device, void *stream, uint64_t address, uint64_t bytes)
{
    (void)device;
    (void)stream;
    memset((void *)(uintptr_t)address, 0, bytes);
    return WEFT_OK;
}

static weft_status inline_driver_launch(weft_gpu_device *device, void *stream, enum weft_gpu_kernel kernel,
                                        uint32_t blocks, uint64_t argument)
{
    (void)device;
    (void)stream;
    return inline_launch(kernel, blocks, argument);
}

static weft_status inline_driver_mark(weft_gpu_device *device, void *stream, void *mark)
{
    (void)device;
    (void)stream;
    (void)mark;
    return WEFT_OK;
}

static weft_status inline_driver_reached(weft_gpu_device *device, void *mark)
{
    (void)device;
    (void)mark;
    return WEFT_OK;
}

static const char *inline_driver_reaches(weft_gpu_device *device, uint64_t address, uint64_t bytes, char *text,
                                         size_t capacity)
{
    (void)device;
    if (inline_holds(address, bytes))
        return NULL;
    snprintf(text, capacity, "is no memory that kernels may reach");
    return text;
}

static bool inline_driver_in_use(void)
{
    return false;
}

#define INLINE_DRIVER(title)                                                                                           \
    {                                                                                                                  \
        .name = (title), .probe = inline_driver_probe, .open = inline_driver_open, .close = inline_driver_close,       \
        .abandon = inline_driver_close, .hold = inline_driver_hold, .release = inline_driver_hold,                     \
        .number = inline_driver_number, .image = inline_driver_image, .memory_take = inline_driver_memory_take,        \
        .memory_give = inline_driver_memory_give, .memory_left = inline_driver_memory_left,                            \
        .pinned_take = inline_driver_pinned_take, .pinned_give = inline_driver_pinned_give,                            \
        .stream_take = inline_driver_stream_take, .stream_give = inline_driver_handle_give,                            \
        .copy = inline_driver_copy, .clear = inline_driver_clear, .launch = inline_driver_launch,                      \
        .mark_take = inline_driver_handle_take, .mark_give = inline_driver_handle_give, .mark = inline_driver_mark,    \
        .mark_caller = inline_driver_mark, .reached = inline_driver_reached, .reaches = inline_driver_reaches,         \
        .in_use = inline_driver_in_use                                                                                 \
    }

#endif
