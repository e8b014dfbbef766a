/* gpu_device_image.c - the image that a device takes, and the kernels in it. */
#include "backends/gpu/gpu_device.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

const char *const weft_gpu_kernel_names[] = {
#define NAME(name) "weft_kernel_" #name,
    WEFT_KERNELS(NAME)
#undef NAME
        NULL};

/* Loads the first image that the driver takes, and finds every kernel in it. */
static int functions_find(weft_gpu_device *device)
{
    int code = WEFT_GPU_DONE;
    for (int i = 0; i < WEFT_GPU_KERNELS && code == WEFT_GPU_DONE; i++)
        code = device->calls->module_function(&device->functions[i], device->module, weft_gpu_kernel_names[i]);
    return code;
}

static int image_load(weft_gpu_device *device, const struct weft_gpu_image *image)
{
    device->unpacked = image->packed ? weft_gpu_image_unpack(image) : NULL;
    if (image->packed && !device->unpacked)
        return WEFT_GPU_NO_MEMORY;
    int code = device->calls->module_load(&device->module, image->packed ? device->unpacked : image->data);
    if (code == WEFT_GPU_DONE)
        code = functions_find(device);
    if (code != WEFT_GPU_DONE && device->module) {
        device->calls->module_unload(device->module);
        device->module = NULL;
    }
    if (code != WEFT_GPU_DONE) {
        weft_mem_give(device->unpacked);
        device->unpacked = NULL;
    }
    return code;
}

/* True for codes which only mean that this image is not for this device and driver. */
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
            return weft_gpu_device_fail(device, "loading the kernels", code);
    }
    if (code == WEFT_GPU_DONE)
        return weft_fail(WEFT_E_MISSING, "%s device %d of capability %d.%d: this build has no image for it (%s)",
                         vendor->name, device->number, major, minor, weft_gpu_images_said(vendor->name));
    return weft_fail(WEFT_E_MISSING,
                     "%s device %d: the driver takes no image of this build: %s (error %d); a newer driver may",
                     vendor->name, device->number, weft_gpu_vendor_meaning(vendor, device->calls, code), code);
}

weft_status weft_gpu_device_image_load(weft_gpu_device *device)
{
    weft_gpu_entry entry;
    int major = 0, minor = 0;
    int code = device->calls->device_attribute(&major, device->vendor->capability_major, device->handle);
    if (code == WEFT_GPU_DONE)
        code = device->calls->device_attribute(&minor, device->vendor->capability_minor, device->handle);
    if (code == WEFT_GPU_DONE)
        code = weft_gpu_device_enter(device, &entry);
    if (code != WEFT_GPU_DONE)
        return weft_gpu_device_fail(device, "asking for its capability", code);
    weft_status status = images_try(device, major, minor);
    weft_gpu_device_leave(device, &entry);
    return status;
}
