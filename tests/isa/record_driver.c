/* record_driver.c - the driver whose launches are recorded. */
#include <stdio.h>
#include <string.h>

#include "status.h"
#include "tests/isa/record.h"

struct weft_gpu_device {
    char nothing;
};

static size_t driver_probe(weft_device_info *devices, size_t capacity)
{
    if (capacity > 0)
        memset(devices, 0, sizeof *devices);
    return 1;
}

static weft_status driver_open(int number, weft_gpu_device **device)
{
    static weft_gpu_device only;
    (void)number;
    *device = &only;
    return WEFT_OK;
}

static void driver_close(weft_gpu_device *device)
{
    (void)device;
}

static int driver_number(const weft_gpu_device *device)
{
    (void)device;
    return 0;
}

static const char *driver_image(const weft_gpu_device *device)
{
    (void)device;
    return "emulation";
}

static weft_status driver_memory_take(weft_gpu_device *device, uint64_t bytes, uint64_t *address)
{
    (void)device;
    *address = (uintptr_t)weft_record_take(bytes);
    return WEFT_OK;
}

static void driver_memory_give(weft_gpu_device *device, uint64_t address)
{
    (void)device;
    weft_record_give((void *)(uintptr_t)address);
}

static weft_status driver_pinned_take(weft_gpu_device *device, uint64_t bytes, void **memory, uint64_t *address)
{
    (void)device;
    *memory = weft_record_take(bytes);
    *address = (uintptr_t)*memory;
    return WEFT_OK;
}

static void driver_pinned_give(weft_gpu_device *device, void *memory)
{
    (void)device;
    weft_record_give(memory);
}

static weft_status driver_handle_take(weft_gpu_device *device, void **handle)
{
    *handle = device;
    return WEFT_OK;
}

static void driver_handle_give(weft_gpu_device *device, void *handle)
{
    (void)device;
    (void)handle;
}

static weft_status driver_copy(weft_gpu_device *device, void *stream, uint64_t to, uint64_t from, uint64_t bytes)
{
    (void)device;
    (void)stream;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return WEFT_OK;
}

static weft_status driver_clear(weft_gpu_device *device, void *stream, uint64_t address, uint64_t bytes)
{
    (void)device;
    (void)stream;
    memset((void *)(uintptr_t)address, 0, bytes);
    return WEFT_OK;
}

static weft_status driver_launch(weft_gpu_device *device, void *stream, enum weft_gpu_kernel kernel, uint32_t blocks,
                                 uint64_t argument)
{
    (void)device;
    (void)stream;
    const char *wrong = weft_record_launch(kernel, blocks, argument);
    return wrong ? weft_fail(WEFT_E_DEVICE, "%s", wrong) : WEFT_OK;
}

static weft_status driver_mark(weft_gpu_device *device, void *stream, void *mark)
{
    (void)device;
    (void)stream;
    (void)mark;
    return WEFT_OK;
}

static weft_status driver_reached(weft_gpu_device *device, void *mark)
{
    (void)device;
    (void)mark;
    return WEFT_OK;
}

static const char *driver_reaches(weft_gpu_device *device, uint64_t address, uint64_t bytes, char *text,
                                  size_t capacity)
{
    (void)device;
    if (weft_record_holds(address, bytes))
        return NULL;
    snprintf(text, capacity, "is no memory that is recorded");
    return text;
}

static bool driver_in_use(void)
{
    return false;
}

const weft_gpu_driver weft_record_driver = {
    .name = "record",
    .probe = driver_probe,
    .open = driver_open,
    .close = driver_close,
    .abandon = driver_close,
    .number = driver_number,
    .image = driver_image,
    .memory_take = driver_memory_take,
    .memory_give = driver_memory_give,
    .pinned_take = driver_pinned_take,
    .pinned_give = driver_pinned_give,
    .stream_take = driver_handle_take,
    .stream_give = driver_handle_give,
    .copy = driver_copy,
    .clear = driver_clear,
    .launch = driver_launch,
    .mark_take = driver_handle_take,
    .mark_give = driver_handle_give,
    .mark = driver_mark,
    .wait = driver_mark,
    .reached = driver_reached,
    .reaches = driver_reaches,
    .in_use = driver_in_use,
};
