/* gpu_device.c - a device that is open: the driver table's calls on it. */
#include "backends/gpu/gpu_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

/* Runs one call with the device current; `code` is its result, or why the device could not be made current. */
#define ON_DEVICE(device, code, call)                                                                                  \
    do {                                                                                                               \
        weft_gpu_entry entry;                                                                                          \
        code = weft_gpu_device_enter(device, &entry);                                                                  \
        if (code == WEFT_GPU_DONE) {                                                                                   \
            code = call;                                                                                               \
            weft_gpu_device_leave(device, &entry);                                                                     \
        }                                                                                                              \
    } while (0)

static weft_status settle(weft_gpu_device *device, const char *call, int code)
{
    return code == WEFT_GPU_DONE ? WEFT_OK : weft_gpu_device_fail(device, call, code);
}

/* The driver keeps what it does not take back. A lost device takes nothing back, so that is only logged at debug. */
static void give_settle(const weft_gpu_device *device, const char *call, int code)
{
    if (code == WEFT_GPU_DONE)
        return;
    device->vendor->forget(device->calls);
    weft_log(atomic_load(&device->failed) ? WEFT_LOG_DEBUG : WEFT_LOG_WARN, "%s device %d: %s: %s (error %d)",
             device->vendor->name, device->number, call, weft_gpu_vendor_meaning(device->vendor, device->calls, code),
             code);
}

int weft_gpu_device_number(const weft_gpu_device *device)
{
    return device->number;
}

const char *weft_gpu_device_image(const weft_gpu_device *device)
{
    return device->image.name;
}

weft_status weft_gpu_device_memory_take(weft_gpu_device *device, uint64_t bytes, uint64_t *address)
{
    int code;
    *address = 0;
    ON_DEVICE(device, code, device->calls->memory_take(address, bytes));
    return settle(device, "taking memory", code);
}

void weft_gpu_device_memory_give(weft_gpu_device *device, uint64_t address)
{
    int code = WEFT_GPU_DONE;
    if (address)
        ON_DEVICE(device, code, device->calls->memory_give(address));
    give_settle(device, "giving memory back", code);
}

weft_status weft_gpu_device_memory_left(weft_gpu_device *device, uint64_t *bytes)
{
    size_t left = 0, all = 0;
    int code;
    ON_DEVICE(device, code, device->calls->memory_left(&left, &all));
    *bytes = left;
    return settle(device, "asking for free memory", code);
}

weft_status weft_gpu_device_pinned_take(weft_gpu_device *device, uint64_t bytes, void **memory, uint64_t *address)
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
    weft_gpu_device_pinned_give(device, *memory);
    *memory = NULL;
    return settle(device, "address of pinned memory", code);
}

void weft_gpu_device_pinned_give(weft_gpu_device *device, void *memory)
{
    int code = WEFT_GPU_DONE;
    if (memory)
        ON_DEVICE(device, code, device->calls->pinned_give(memory));
    give_settle(device, "giving pinned memory back", code);
}

/* Numbers of priorities fall as priorities rise. Where there are none both are 0. */
static int stream_make(const weft_gpu_device *device, bool urgent, void **stream)
{
    int lowest = 0, highest = 0;
    const int code = device->calls->priorities(&lowest, &highest);
    return code == WEFT_GPU_DONE ? device->calls->stream_take(stream, WEFT_GPU_STREAM_FLAGS, urgent ? highest : lowest)
                                 : code;
}

weft_status weft_gpu_device_stream_take(weft_gpu_device *device, bool urgent, void **stream)
{
    int code;
    *stream = NULL;
    ON_DEVICE(device, code, stream_make(device, urgent, stream));
    return settle(device, "making a stream", code);
}

void weft_gpu_device_stream_give(weft_gpu_device *device, void *stream)
{
    int code = WEFT_GPU_DONE;
    if (stream)
        ON_DEVICE(device, code, device->calls->stream_give(stream));
    give_settle(device, "giving a stream back", code);
}

weft_status weft_gpu_device_copy(weft_gpu_device *device, void *stream, uint64_t to, uint64_t from, uint64_t bytes)
{
    int code;
    ON_DEVICE(device, code, device->vendor->copy(device->calls, to, from, bytes, stream));
    return settle(device, "copying", code);
}

weft_status weft_gpu_device_clear(weft_gpu_device *device, void *stream, uint64_t address, uint64_t bytes)
{
    int code;
    ON_DEVICE(device, code, device->calls->clear(address, 0, bytes, stream));
    return settle(device, "clearing memory", code);
}

weft_status weft_gpu_device_launch(weft_gpu_device *device, void *stream, enum weft_gpu_kernel kernel, uint32_t blocks,
                                   uint64_t argument)
{
    int code;
    void *arguments[] = {&argument};
    ON_DEVICE(device, code,
              device->calls->launch(device->functions[kernel], blocks, 1, 1, WEFT_GPU_BLOCK, 1, 1, 0, stream, arguments,
                                    NULL));
    return settle(device, weft_gpu_kernel_names[kernel], code);
}

weft_status weft_gpu_device_mark_take(weft_gpu_device *device, void **mark)
{
    int code;
    *mark = NULL;
    ON_DEVICE(device, code, device->calls->event_take(mark, WEFT_GPU_EVENT_FLAGS));
    return settle(device, "making an event", code);
}

void weft_gpu_device_mark_give(weft_gpu_device *device, void *mark)
{
    int code = WEFT_GPU_DONE;
    if (mark)
        ON_DEVICE(device, code, device->calls->event_give(mark));
    give_settle(device, "giving an event back", code);
}

weft_status weft_gpu_device_mark(weft_gpu_device *device, void *stream, void *mark)
{
    int code;
    ON_DEVICE(device, code, device->calls->event_record(mark, stream));
    return settle(device, "recording an event", code);
}

/* Records a mark on a stream of weft's own that waits for the caller's. The caller may begin a capture at any time, and
 * asking for an event of that stream would break the capture. */
static int record_aside(const weft_gpu_device *device, void *stream, void *mark)
{
    int code = device->calls->event_record(device->crossing, stream);
    if (code == WEFT_GPU_DONE)
        code = device->calls->stream_wait(device->aside, device->crossing, 0);
    return code == WEFT_GPU_DONE ? device->calls->event_record(mark, device->aside) : code;
}

/* An event recorded on a stream that is captured would be part of the graph, and so would all that waits for it. */
static int record(const weft_gpu_device *device, void *stream, void *mark, int *captured)
{
    int code = device->calls->stream_captured(stream, captured);
    if (code != WEFT_GPU_DONE || *captured)
        return code;
    return device->aside ? record_aside(device, stream, mark) : device->calls->event_record(mark, stream);
}

/* Codes for a stream of another device, or a stream that is gone, because the event is this device's own. */
static bool is_of_stream(const weft_gpu_device *device, int code)
{
    return code == WEFT_GPU_VALUE || code == WEFT_GPU_WRONG_HANDLE || code == device->vendor->stream_gone;
}

weft_status weft_gpu_device_mark_caller(weft_gpu_device *device, void *stream, void *mark)
{
    int code, captured = 0;
    ON_DEVICE(device, code, record(device, stream, mark, &captured));
    if (is_of_stream(device, code)) {
        device->vendor->forget(device->calls);
        return weft_fail(WEFT_E_ARGUMENT,
                         "%s device %d: the driver knows no such stream (error %d): give a stream of this device",
                         device->vendor->name, device->number, code);
    }
    if (code == WEFT_GPU_DONE && captured)
        return weft_fail(WEFT_E_ARGUMENT,
                         "%s device %d: the stream is being captured into a graph, to which this work cannot belong: "
                         "give one that is not",
                         device->vendor->name, device->number);
    if (code != WEFT_GPU_CAPTURED_BESIDE)
        return settle(device, "recording an event", code);
    device->vendor->forget(device->calls);
    return WEFT_AGAIN;
}

weft_status weft_gpu_device_reached(weft_gpu_device *device, void *mark)
{
    int code;
    ON_DEVICE(device, code, device->calls->event_query(mark));
    if (code == WEFT_GPU_NOT_READY || weft_gpu_is_of_capture(code)) {
        device->vendor->forget(device->calls);
        return code == WEFT_GPU_NOT_READY ? WEFT_AGAIN : WEFT_E_STATE;
    }
    return settle(device, "work on the device", code);
}

/* True if host and current device reach memory by the same address, as they do all pinned memory. Pinned memory carries
 * the number of the device that was current when it was taken. */
static bool is_shared(const weft_gpu_device *device, uint64_t address)
{
    uint64_t host = 0, here = 0;
    return device->calls->pointer_attribute(&host, WEFT_GPU_POINTER_HOST, address) == WEFT_GPU_DONE &&
           device->calls->pointer_attribute(&here, WEFT_GPU_POINTER_HERE, address) == WEFT_GPU_DONE &&
           host == address && here == address;
}

/* Finds the device that owns an address: this one if its kernels reach the address. */
static int owner_find(const weft_gpu_device *device, uint64_t address, int *number)
{
    int code = device->calls->pointer_attribute(number, WEFT_GPU_POINTER_DEVICE, address);
    if (code == WEFT_GPU_DONE && *number != device->handle && is_shared(device, address))
        *number = device->handle;
    return code;
}

/* The first and the last byte: an allocation in between would be the caller's doing. */
const char *weft_gpu_device_reaches(weft_gpu_device *device, uint64_t address, uint64_t bytes, char *text,
                                    size_t capacity)
{
    const uint64_t ends[] = {address, address + bytes - 1};
    for (int i = 0; i < 2; i++) {
        int code, number = -1;
        ON_DEVICE(device, code, owner_find(device, ends[i], &number));
        if (code == WEFT_GPU_DONE && number == device->handle)
            continue;
        device->vendor->forget(device->calls);
        if (code == WEFT_GPU_DONE && number >= 0)
            snprintf(text, capacity, "lies on %s device %d, not on %d", device->vendor->name, number, device->number);
        else
            snprintf(text, capacity, "%s no memory of %s device %d: is it host memory?",
                     i ? "begins in memory of the device but ends in" : "is", device->vendor->name, device->number);
        return text;
    }
    return NULL;
}

/* Every part of the device that was taken. */
void weft_gpu_device_close(weft_gpu_device *device)
{
    int code = WEFT_GPU_DONE;
    if (!device)
        return;
    weft_gpu_device_mark_give(device, device->crossing);
    weft_gpu_device_stream_give(device, device->aside);
    if (device->module)
        ON_DEVICE(device, code, device->calls->module_unload(device->module));
    give_settle(device, "unloading the kernels", code);
    if (device->context)
        device->vendor->context_give(device->calls, device->handle);
    weft_mem_give(device->unpacked);
    weft_mem_give(device);
}

/* Leaves the image where it is: what hangs on the device may still be read from it. */
void weft_gpu_device_abandon(weft_gpu_device *device)
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
        return weft_gpu_device_fail(device, "opening it", code);
    weft_status status = weft_gpu_device_image_load(device);
    if (status == WEFT_OK && vendor->marks_aside)
        status = weft_gpu_device_mark_take(device, &device->crossing);
    if (status == WEFT_OK && vendor->marks_aside)
        status = weft_gpu_device_stream_take(device, false, &device->aside);
    return status;
}

weft_status weft_gpu_device_open(const weft_gpu_vendor *vendor, int number, weft_gpu_device **device)
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
        weft_gpu_device_close(made);
    return status;
}
