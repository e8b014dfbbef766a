/* gpu_device_enter.c - makes a device current for a call, and decides what an error code of the call means. */
#include "backends/gpu/gpu_device.h"
#include "base/status.h"

bool weft_gpu_is_of_capture(int code)
{
    return code >= WEFT_GPU_CAPTURED && code <= WEFT_GPU_CAPTURED_LAST;
}

weft_status weft_gpu_device_fail(weft_gpu_device *device, const char *call, int code)
{
    const weft_gpu_vendor *vendor = device->vendor;
    vendor->forget(device->calls);
    const char *meaning = weft_gpu_vendor_meaning(vendor, device->calls, code);
    if (code == WEFT_GPU_NO_MEMORY)
        return weft_fail(WEFT_E_MEMORY, "%s device %d: %s: %s (error %d); free memory there or lower weft's budget",
                         vendor->name, device->number, call, meaning, code);
    if (weft_gpu_is_of_capture(code))
        return weft_fail(WEFT_E_STATE, "%s device %d: %s: %s (error %d); call again when the graph is captured",
                         vendor->name, device->number, call, meaning, code);
    atomic_store(&device->failed, true);
    return weft_fail(WEFT_E_DEVICE, "%s device %d: %s: %s (error %d); the device is lost to this session", vendor->name,
                     device->number, call, meaning, code);
}

/* The device that the thread holds, how often, and the state of the thread before. */
static _Thread_local const weft_gpu_device *held;
static _Thread_local unsigned held_times;
static _Thread_local weft_gpu_entry held_entry;

static int enter(const weft_gpu_device *device, weft_gpu_entry *entry)
{
    int code = device->vendor->enter(device, entry);
    if (code != WEFT_GPU_DONE)
        return code;
    entry->capture_mode = WEFT_GPU_CAPTURE_RELAXED;
    code = device->calls->capture_mode(&entry->capture_mode);
    if (code != WEFT_GPU_DONE)
        device->vendor->leave(device, entry);
    return code;
}

static void leave(const weft_gpu_device *device, weft_gpu_entry *entry)
{
    device->calls->capture_mode(&entry->capture_mode);
    device->vendor->leave(device, entry);
}

int weft_gpu_device_enter(const weft_gpu_device *device, weft_gpu_entry *entry)
{
    return held == device ? WEFT_GPU_DONE : enter(device, entry);
}

void weft_gpu_device_leave(const weft_gpu_device *device, weft_gpu_entry *entry)
{
    if (held != device)
        leave(device, entry);
}

void weft_gpu_device_hold(weft_gpu_device *device)
{
    if (held == device) {
        held_times++;
    } else if (!held && enter(device, &held_entry) == WEFT_GPU_DONE) {
        held = device;
        held_times = 1;
    } else {
        device->vendor->forget(device->calls);
    }
}

void weft_gpu_device_release(weft_gpu_device *device)
{
    if (held != device || --held_times > 0)
        return;
    held = NULL;
    leave(device, &held_entry);
}
