/* gpu_vendor.c - a device that is open: the driver table's calls on it. */
#include "backends/gpu_vendor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "mem.h"
#include "status.h"

/* Decides what a code means for the session. */
static weft_status device_fail(weft_gpu_device *device, const char *call, int code)
{
    const weft_gpu_vendor *vendor = device->vendor;
    vendor->forget(device->calls);
    const char *meaning = weft_gpu_vendor_meaning(vendor, device->calls, code);
    if (code == WEFT_GPU_NO_MEMORY)
        return weft_fail(WEFT_E_MEMORY, "%s device %d: %s: %s (error %d); free memory there or lower weft's budget",
                         vendor->name, device->number, call, meaning, code);
    atomic_store(&device->failed, true);
    return weft_fail(WEFT_E_DEVICE, "%s device %d: %s: %s (error %d); the device is lost to this session", vendor->name,
                     device->number, call, meaning, code);
}

/* Runs one call with the device current; `code` is its result, or why the device could not be made current. */
#define ON_DEVICE(device, code, call)                                                                                  \
    do {                                                                                                               \
        weft_gpu_entry entry;                                                                                          \
        code = (device)->vendor->enter(device, &entry);                                                                \
        if (code == WEFT_GPU_DONE) {                                                                                   \
            code = call;                                                                                               \
            (device)->vendor->leave(device, &entry);                                                                   \
        }                                                                                                              \
    } while (0)

static weft_status settle(weft_gpu_device *device, const char *call, int code)
{
    return code == WEFT_GPU_DONE ? WEFT_OK : device_fail(device, call, code);
}

/* What cannot be given back is the driver's to keep. That a lost device takes nothing back is no news. */
static void give_settle(const weft_gpu_device *device, const char *call, int code)
{
    if (code == WEFT_GPU_DONE)
        return;
    device->vendor->forget(device->calls);
    weft_log(atomic_load(&device->failed) ? WEFT_LOG_DEBUG : WEFT_LOG_WARN, "%s device %d: %s: %s (error %d)",
             device->vendor->name, device->number, call, weft_gpu_vendor_meaning(device->vendor, device->calls, code),
             code);
}

int weft_gpu_vendor_number(const weft_gpu_device *device)
{
    return device->number;
}

const char *weft_gpu_vendor_image(const weft_gpu_device *device)
{
    return device->image.name;
}

weft_status weft_gpu_vendor_memory_take(weft_gpu_device *device, uint64_t bytes, uint64_t *address)
{
    int code;
    *address = 0;
    ON_DEVICE(device, code, device->calls->memory_take(address, bytes));
    return settle(device, "taking memory", code);
}

void weft_gpu_vendor_memory_give(weft_gpu_device *device, uint64_t address)
{
    int code = WEFT_GPU_DONE;
    if (address)
        ON_DEVICE(device, code, device->calls->memory_give(address));
    give_settle(device, "giving memory back", code);
}

weft_status weft_gpu_vendor_pinned_take(weft_gpu_device *device, uint64_t bytes, void **memory, uint64_t *address)
{
    int code;
    *memory = NULL;
    *address = 0;
    ON_DEVICE(device, code, device->calls->pinned_take(memory, bytes, WEFT_GPU_PINNED_FLAGS));
    if (code != WEFT_GPU_DONE)
        return settle(device, "taking pinned memory", code);
    ON_DEVICE(device, code, device->calls->pinned_address(address, *memory, 0));
    if (code == WEFT_GPU_DONE)
        return WEFT_OK;
    weft_gpu_vendor_pinned_give(device, *memory);
    *memory = NULL;
    return settle(device, "address of pinned memory", code);
}

void weft_gpu_vendor_pinned_give(weft_gpu_device *device, void *memory)
{
    int code = WEFT_GPU_DONE;
    if (memory)
        ON_DEVICE(device, code, device->calls->pinned_give(memory));
    give_settle(device, "giving pinned memory back", code);
}

weft_status weft_gpu_vendor_stream_take(weft_gpu_device *device, void **stream)
{
    int code;
    *stream = NULL;
    ON_DEVICE(device, code, device->calls->stream_take(stream, WEFT_GPU_STREAM_FLAGS));
    return settle(device, "making a stream", code);
}

void weft_gpu_vendor_stream_give(weft_gpu_device *device, void *stream)
{
    int code = WEFT_GPU_DONE;
    if (stream)
        ON_DEVICE(device, code, device->calls->stream_give(stream));
    give_settle(device, "giving a stream back", code);
}

weft_status weft_gpu_vendor_copy(weft_gpu_device *device, void *stream, uint64_t to, uint64_t from, uint64_t bytes)
{
    int code;
    ON_DEVICE(device, code, device->vendor->copy(device->calls, to, from, bytes, stream));
    return settle(device, "copying", code);
}

weft_status weft_gpu_vendor_clear(weft_gpu_device *device, void *stream, uint64_t address, uint64_t bytes)
{
    int code;
    ON_DEVICE(device, code, device->calls->clear(address, 0, bytes, stream));
    return settle(device, "clearing memory", code);
}

static const char *const kernel_names[] = {
#define NAME(name) "weft_kernel_" #name,
    WEFT_KERNELS(NAME)
#undef NAME
        NULL};

weft_status weft_gpu_vendor_launch(weft_gpu_device *device, void *stream, enum weft_gpu_kernel kernel, uint32_t blocks,
                                   uint64_t argument)
{
    int code;
    void *arguments[] = {&argument};
    ON_DEVICE(device, code,
              device->calls->launch(device->functions[kernel], blocks, 1, 1, WEFT_GPU_BLOCK, 1, 1, 0, stream, arguments,
                                    NULL));
    return settle(device, kernel_names[kernel], code);
}

weft_status weft_gpu_vendor_mark_take(weft_gpu_device *device, void **mark)
{
    int code;
    *mark = NULL;
    ON_DEVICE(device, code, device->calls->event_take(mark, WEFT_GPU_EVENT_FLAGS));
    return settle(device, "making an event", code);
}

void weft_gpu_vendor_mark_give(weft_gpu_device *device, void *mark)
{
    int code = WEFT_GPU_DONE;
    if (mark)
        ON_DEVICE(device, code, device->calls->event_give(mark));
    give_settle(device, "giving an event back", code);
}

weft_status weft_gpu_vendor_mark(weft_gpu_device *device, void *stream, void *mark)
{
    int code;
    ON_DEVICE(device, code, device->calls->event_record(mark, stream));
    return settle(device, "recording an event", code);
}

weft_status weft_gpu_vendor_wait(weft_gpu_device *device, void *stream, void *mark)
{
    int code;
    ON_DEVICE(device, code, device->calls->stream_wait(stream, mark, 0));
    return settle(device, "ordering streams", code);
}

weft_status weft_gpu_vendor_reached(weft_gpu_device *device, void *mark)
{
    int code;
    ON_DEVICE(device, code, device->calls->event_query(mark));
    if (code == WEFT_GPU_NOT_READY) {
        device->vendor->forget(device->calls);
        return WEFT_AGAIN;
    }
    return settle(device, "work on the device", code);
}

/* The first and the last byte: an allocation in between would be the caller's doing. */
const char *weft_gpu_vendor_reaches(weft_gpu_device *device, uint64_t address, uint64_t bytes, char *text,
                                    size_t capacity)
{
    const uint64_t ends[] = {address, address + bytes - 1};
    for (int i = 0; i < 2; i++) {
        int code, number = -1;
        ON_DEVICE(device, code, device->calls->pointer_attribute(&number, WEFT_GPU_POINTER_DEVICE, ends[i]));
        if (code != WEFT_GPU_DONE)
            device->vendor->forget(device->calls);
        if (code == WEFT_GPU_DONE && number == device->handle)
            continue;
        if (code == WEFT_GPU_DONE && number >= 0)
            snprintf(text, capacity, "lies on %s device %d, not on %d", device->vendor->name, number, device->number);
        else
            snprintf(text, capacity, "%s no memory of %s device %d: is it host memory?",
                     i ? "begins in memory of the device but ends in" : "is", device->vendor->name, device->number);
        return text;
    }
    return NULL;
}

/* Loads the first image that the driver takes, and finds every kernel in it. */
static int functions_find(weft_gpu_device *device)
{
    int code = WEFT_GPU_DONE;
    for (int i = 0; i < WEFT_GPU_KERNELS && code == WEFT_GPU_DONE; i++)
        code = device->calls->module_function(&device->functions[i], device->module, kernel_names[i]);
    return code;
}

static int image_load(weft_gpu_device *device, const struct weft_gpu_image *image)
{
    int code = device->calls->module_load(&device->module, image->data);
    if (code == WEFT_GPU_DONE)
        code = functions_find(device);
    if (code != WEFT_GPU_DONE && device->module) {
        device->calls->module_unload(device->module);
        device->module = NULL;
    }
    return code;
}

/* Codes that say no more than that this image is not for this device and driver. */
static bool image_is_unfit(int code)
{
    return code == 98 || (code >= 200 && code < 400) || code == 500 || code == WEFT_GPU_VALUE;
}

static weft_status images_try(weft_gpu_device *device, int major, int minor)
{
    const weft_gpu_vendor *vendor = device->vendor;
    int code = WEFT_GPU_DONE;
    for (unsigned i = 0; weft_gpu_image_choose(vendor->name, major, minor, i, &device->image); i++) {
        code = image_load(device, &device->image);
        if (code == WEFT_GPU_DONE)
            return WEFT_OK;
        vendor->forget(device->calls);
        weft_log(WEFT_LOG_DEBUG, "%s device %d does not load image %s: %s (error %d)", vendor->name, device->number,
                 device->image.name, weft_gpu_vendor_meaning(vendor, device->calls, code), code);
        if (!image_is_unfit(code))
            return device_fail(device, "loading the kernels", code);
    }
    if (code == WEFT_GPU_DONE)
        return weft_fail(WEFT_E_MISSING, "%s device %d of capability %d.%d: this build has no image for it (%s)",
                         vendor->name, device->number, major, minor, weft_gpu_images_said(vendor->name));
    return weft_fail(WEFT_E_MISSING,
                     "%s device %d: the driver takes no image of this build: %s (error %d); a newer driver may",
                     vendor->name, device->number, weft_gpu_vendor_meaning(vendor, device->calls, code), code);
}

static weft_status image_find(weft_gpu_device *device)
{
    weft_gpu_entry entry;
    int major = 0, minor = 0;
    int code = device->calls->device_attribute(&major, device->vendor->capability_major, device->handle);
    if (code == WEFT_GPU_DONE)
        code = device->calls->device_attribute(&minor, device->vendor->capability_minor, device->handle);
    if (code == WEFT_GPU_DONE)
        code = device->vendor->enter(device, &entry);
    if (code != WEFT_GPU_DONE)
        return device_fail(device, "asking for its capability", code);
    weft_status status = images_try(device, major, minor);
    device->vendor->leave(device, &entry);
    return status;
}

/* Every part of the device that was taken. */
void weft_gpu_vendor_close(weft_gpu_device *device)
{
    int code = WEFT_GPU_DONE;
    if (!device)
        return;
    if (device->module)
        ON_DEVICE(device, code, device->calls->module_unload(device->module));
    give_settle(device, "unloading the kernels", code);
    if (device->context)
        device->vendor->context_give(device->calls, device->handle);
    weft_mem_give(device);
}

void weft_gpu_vendor_abandon(weft_gpu_device *device)
{
    weft_mem_give(device);
}

static weft_status device_begin(weft_gpu_device *device, int count)
{
    const weft_gpu_vendor *vendor = device->vendor;
    if (device->number < 0 && vendor->current(device->calls, &device->number) != WEFT_GPU_DONE)
        device->number = 0;
    vendor->forget(device->calls);
    if (device->number >= count)
        return weft_fail(WEFT_E_CONFIG, "device = %d: %s devices here are 0 to %d", device->number, vendor->name,
                         count - 1);
    int code = device->calls->device_get(&device->handle, device->number);
    if (code == WEFT_GPU_DONE)
        code = vendor->context_take(device->calls, device->handle, &device->context);
    if (code != WEFT_GPU_DONE)
        return device_fail(device, "opening it", code);
    return image_find(device);
}

weft_status weft_gpu_vendor_open(const weft_gpu_vendor *vendor, int number, weft_gpu_device **device)
{
    const weft_gpu_calls *calls;
    int count;
    *device = NULL;
    weft_status status = weft_gpu_vendor_begin(vendor, &calls, &count);
    if (status != WEFT_OK) {
        weft_fail_about("backend %s", vendor->name);
        return status;
    }
    weft_gpu_device *made = weft_mem_take(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "%s device: no memory for its record", vendor->name);
    made->vendor = vendor;
    made->calls = calls;
    made->number = number < 0 ? -1 : number;
    status = device_begin(made, count);
    if (status == WEFT_OK)
        *device = made;
    else
        weft_gpu_vendor_close(made);
    return status;
}
