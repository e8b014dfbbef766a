/* gpu_vendor.c - a vendor's driver and its devices, before any is opened: error codes, start, and the list of devices.
 */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu_images.h"
#include "backends/gpu/gpu_vendor.h"
#include "base/status.h"

const char *weft_gpu_vendor_meaning(const weft_gpu_vendor *vendor, const weft_gpu_calls *calls, int code)
{
    static const struct {
        int code;
        const char *text;
    } rows[] = {
        {WEFT_GPU_VALUE, "invalid value"},
        {WEFT_GPU_NO_MEMORY, "out of memory"},
        {WEFT_GPU_NOT_BEGUN, "the driver does not start"},
        {WEFT_GPU_STUB, "a stub library stands in for the driver"},
        {WEFT_GPU_DRIVER_OLD, "the driver is older than its library"},
        {46, "the device is taken by another process"},
        {WEFT_GPU_NO_DEVICE, "no device"},
        {WEFT_GPU_WRONG_DEVICE, "no such device"},
        {200, "invalid image"},
        {201, "invalid context"},
        {209, "no machine code for this device"},
        {214, "memory error that could not be corrected"},
        {218, "PTX that the driver cannot compile"},
        {222, "PTX of a later version than the driver's"},
        {WEFT_GPU_ILLEGAL_ADDRESS, "illegal address"},
        {702, "a kernel ran for too long"},
        {709, "the context was destroyed"},
        {716, "misaligned address"},
        {WEFT_GPU_LAUNCH_FAILED, "a kernel failed"},
        {WEFT_GPU_CAPTURED, "not while a graph is captured"},
        {901, "a graph's capture was broken off"},
        {WEFT_GPU_CAPTURED_BESIDE, "not while a stream is captured that comes after the default one"},
        {802, "the system is not ready: is the fabric manager running?"},
        {803, "driver and library are of different versions: was the driver updated since the last boot?"},
        {804, "the CUDA compatibility package is not for this device: take its libcuda out of the library path"},
        {805, "the MPS daemon does not answer"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].code == code)
            return rows[i].text;
    }
    const char *word = vendor->word(calls, code);
    return word ? word : "unknown error";
}

weft_status weft_gpu_vendor_begin(const weft_gpu_vendor *vendor, const weft_gpu_calls **calls, int *count)
{
    *count = 0;
    weft_status status = weft_gpu_library_open(vendor->library, calls);
    if (status != WEFT_OK)
        return status;
    const char *call = "init";
    int code = (*calls)->init(0);
    if (code == WEFT_GPU_DONE) {
        call = "count of devices";
        code = (*calls)->device_count(count);
    }
    if (code == WEFT_GPU_DONE && *count <= 0)
        code = WEFT_GPU_NO_DEVICE;
    if (code == WEFT_GPU_DONE)
        return WEFT_OK;
    vendor->forget(*calls);
    return weft_fail_quiet(WEFT_E_MISSING, "%s, but no device: %s (%s, error %d)", vendor->library->owner,
                           weft_gpu_vendor_meaning(vendor, *calls, code), call, code);
}

/* Writes which image a device would load, and whether the driver compiles it; false if there is none. AMD's capability
 * lacks the last digit of a name. Devices that differ in that digit have an image each, and only loading shows which
 * fits. */
static bool image_say(const char *vendor, int major, int minor, unsigned version, char *text, size_t capacity)
{
    struct weft_gpu_image image, other;
    unsigned nth = 0;
    if (!weft_gpu_image_choose(vendor, major, minor, nth, &image)) {
        snprintf(text, capacity, "no image for it: %s", weft_gpu_images_said(vendor));
        return false;
    }
    while (image.driver > version && weft_gpu_image_choose(vendor, major, minor, ++nth, &image))
        continue;
    if (!image.name) {
        snprintf(text, capacity, "no image for a driver that old: update the driver");
        return false;
    }
    const bool either = strncmp(image.name, "gfx", 3) == 0 && weft_gpu_image_choose(vendor, major, minor, 1, &other);
    snprintf(text, capacity, "image %s%s%s%s", image.name, either ? " or " : "", either ? other.name : "",
             strncmp(image.name, "ptx", 3) == 0 ? ", which the driver compiles" : "");
    return true;
}

/* Lists a device with what is known, even if the driver does not answer some questions. */
static void device_describe(const weft_gpu_vendor *vendor, const weft_gpu_calls *calls, int number,
                            weft_device_info *info)
{
    int handle = number, major = 0, minor = 0, version = 0;
    size_t bytes = 0;
    char driver[32];
    *info = (weft_device_info){.device = number};
    snprintf(info->backend, sizeof info->backend, "%s", vendor->name);
    int code = calls->device_get(&handle, number);
    if (code == WEFT_GPU_DONE)
        code = calls->device_name(info->name, sizeof info->name - 1, handle);
    if (code == WEFT_GPU_DONE)
        code = calls->device_memory(&bytes, handle);
    if (code == WEFT_GPU_DONE)
        code = calls->device_attribute(&major, vendor->capability_major, handle);
    if (code == WEFT_GPU_DONE)
        code = calls->device_attribute(&minor, vendor->capability_minor, handle);
    if (code == WEFT_GPU_DONE)
        code = calls->version(&version);
    info->memory_bytes = bytes;
    if (code != WEFT_GPU_DONE) {
        vendor->forget(calls);
        snprintf(info->detail, sizeof info->detail, "the driver does not describe it: %s (error %d)",
                 weft_gpu_vendor_meaning(vendor, calls, code), code);
        return;
    }
    vendor->version(version, driver, sizeof driver);
    snprintf(info->detail, sizeof info->detail, "%.1f GB, capability %d.%d, driver %s, ", (double)bytes / 1e9, major,
             minor, driver);
    const size_t used = strlen(info->detail);
    info->usable =
        image_say(vendor->name, major, minor, (unsigned)version, info->detail + used, sizeof info->detail - used);
}

size_t weft_gpu_vendor_probe(const weft_gpu_vendor *vendor, weft_device_info *devices, size_t capacity)
{
    const weft_gpu_calls *calls;
    int count;
    weft_status status = weft_gpu_vendor_begin(vendor, &calls, &count);
    if (status == WEFT_OK) {
        for (int i = 0; i < count && (size_t)i < capacity; i++)
            device_describe(vendor, calls, i, &devices[i]);
        return (size_t)count;
    }
    if (capacity > 0) {
        devices[0] = (weft_device_info){.device = -1};
        snprintf(devices[0].backend, sizeof devices[0].backend, "%s", vendor->name);
        snprintf(devices[0].detail, sizeof devices[0].detail, "%s", weft_last_error());
    }
    return 1;
}
