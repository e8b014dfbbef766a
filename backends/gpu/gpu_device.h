/* gpu_device.h - an open device: the slots of weft_gpu_driver over a vendor's library. */
#ifndef WEFT_BACKENDS_GPU_DEVICE_H
#define WEFT_BACKENDS_GPU_DEVICE_H

#include <stdatomic.h>

#include "backends/gpu/gpu_images.h"
#include "backends/gpu/gpu_vendor.h"

struct weft_gpu_device {
    const weft_gpu_vendor *vendor;
    const weft_gpu_calls *calls;
    int number;
    int handle;
    void *context;
    void *module;
    struct weft_gpu_image image; /* image that was loaded */
    void *unpacked;     /* its bytes, which a driver may read while the module is there; NULL: as in the image */
    atomic_bool failed; /* the loss of the device was reported */
    void *functions[WEFT_GPU_KERNELS + 1];
    void *aside, *crossing; /* where the vendor marks aside: a stream of weft's own, and the event that it waits for */
};

/* Slots of weft_gpu_driver. */
weft_status weft_gpu_device_open(const weft_gpu_vendor *vendor, int number, weft_gpu_device **device);
void weft_gpu_device_close(weft_gpu_device *device);
void weft_gpu_device_abandon(weft_gpu_device *device);
void weft_gpu_device_hold(weft_gpu_device *device);
void weft_gpu_device_release(weft_gpu_device *device);
int weft_gpu_device_number(const weft_gpu_device *device);
const char *weft_gpu_device_image(const weft_gpu_device *device);
weft_status weft_gpu_device_memory_take(weft_gpu_device *device, uint64_t bytes, uint64_t *address);
void weft_gpu_device_memory_give(weft_gpu_device *device, uint64_t address);
weft_status weft_gpu_device_memory_left(weft_gpu_device *device, uint64_t *bytes);
weft_status weft_gpu_device_pinned_take(weft_gpu_device *device, uint64_t bytes, void **memory, uint64_t *address);
void weft_gpu_device_pinned_give(weft_gpu_device *device, void *memory);
weft_status weft_gpu_device_stream_take(weft_gpu_device *device, bool urgent, void **stream);
void weft_gpu_device_stream_give(weft_gpu_device *device, void *stream);
weft_status weft_gpu_device_copy(weft_gpu_device *device, void *stream, uint64_t to, uint64_t from, uint64_t bytes);
weft_status weft_gpu_device_clear(weft_gpu_device *device, void *stream, uint64_t address, uint64_t bytes);
weft_status weft_gpu_device_launch(weft_gpu_device *device, void *stream, enum weft_gpu_kernel kernel, uint32_t blocks,
                                   uint64_t argument);
weft_status weft_gpu_device_mark_take(weft_gpu_device *device, void **mark);
void weft_gpu_device_mark_give(weft_gpu_device *device, void *mark);
weft_status weft_gpu_device_mark(weft_gpu_device *device, void *stream, void *mark);
weft_status weft_gpu_device_mark_caller(weft_gpu_device *device, void *stream, void *mark);
weft_status weft_gpu_device_reached(weft_gpu_device *device, void *mark);
const char *weft_gpu_device_reaches(weft_gpu_device *device, uint64_t address, uint64_t bytes, char *text,
                                    size_t capacity);

extern const char *const weft_gpu_kernel_names[]; /* symbols of the kernels, by number */

/* Decides the error that a code means for the session. */
weft_status weft_gpu_device_fail(weft_gpu_device *device, const char *call, int code);
/* True if a code means that the call is not allowed while a graph is captured. */
bool weft_gpu_is_of_capture(int code);
/* Makes the device current, for calls that belong to no thread's capture of a graph. Otherwise a capture would refuse
 * many of these calls, and end. Returns a code; call leave if the code is WEFT_GPU_DONE. Neither does anything on a
 * thread that holds the device. */
int weft_gpu_device_enter(const weft_gpu_device *device, weft_gpu_entry *entry);
void weft_gpu_device_leave(const weft_gpu_device *device, weft_gpu_entry *entry);
/* Loads the first image that the driver takes, and finds every kernel in it. Errors: WEFT_E_MISSING, the device's. */
weft_status weft_gpu_device_image_load(weft_gpu_device *device);

/* Defines the driver table of a vendor, in the file that has its record `vendor` and NAME_in_use. */
#define WEFT_GPU_VENDOR_DRIVER(NAME)                                                                                   \
    static size_t NAME##_probe(weft_device_info *devices, size_t capacity)                                             \
    {                                                                                                                  \
        return weft_gpu_vendor_probe(&vendor, devices, capacity);                                                      \
    }                                                                                                                  \
    static weft_status NAME##_open(int number, weft_gpu_device **device)                                               \
    {                                                                                                                  \
        return weft_gpu_device_open(&vendor, number, device);                                                          \
    }                                                                                                                  \
    const weft_gpu_driver weft_gpu_driver_##NAME = {                                                                   \
        .name = #NAME,                                                                                                 \
        .probe = NAME##_probe,                                                                                         \
        .open = NAME##_open,                                                                                           \
        .in_use = NAME##_in_use,                                                                                       \
        .close = weft_gpu_device_close,                                                                                \
        .abandon = weft_gpu_device_abandon,                                                                            \
        .hold = weft_gpu_device_hold,                                                                                  \
        .release = weft_gpu_device_release,                                                                            \
        .number = weft_gpu_device_number,                                                                              \
        .image = weft_gpu_device_image,                                                                                \
        .memory_take = weft_gpu_device_memory_take,                                                                    \
        .memory_give = weft_gpu_device_memory_give,                                                                    \
        .memory_left = weft_gpu_device_memory_left,                                                                    \
        .pinned_take = weft_gpu_device_pinned_take,                                                                    \
        .pinned_give = weft_gpu_device_pinned_give,                                                                    \
        .stream_take = weft_gpu_device_stream_take,                                                                    \
        .stream_give = weft_gpu_device_stream_give,                                                                    \
        .copy = weft_gpu_device_copy,                                                                                  \
        .clear = weft_gpu_device_clear,                                                                                \
        .launch = weft_gpu_device_launch,                                                                              \
        .mark_take = weft_gpu_device_mark_take,                                                                        \
        .mark_give = weft_gpu_device_mark_give,                                                                        \
        .mark = weft_gpu_device_mark,                                                                                  \
        .mark_caller = weft_gpu_device_mark_caller,                                                                    \
        .reached = weft_gpu_device_reached,                                                                            \
        .reaches = weft_gpu_device_reaches,                                                                            \
    }

#endif
