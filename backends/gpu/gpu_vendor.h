/* gpu_vendor.h - a vendor: how its library differs from the other's, and which devices it has. No device is open here.
 */
#ifndef WEFT_BACKENDS_GPU_VENDOR_H
#define WEFT_BACKENDS_GPU_VENDOR_H

#include "backends/gpu/gpu_driver.h"
#include "backends/gpu/gpu_library.h"

/* The state of a thread before a call, to be put back. */
typedef struct weft_gpu_entry {
    int device;
    int capture_mode;
} weft_gpu_entry;

typedef struct weft_gpu_vendor {
    const char *name; /* name of the backend: "cuda" */
    weft_gpu_library *library;
    int capability_major; /* numbers of a device's attributes */
    int capability_minor;
    int stream_gone; /* code for a stream that no longer exists */
    /* Marks of a caller's stream stand on a stream of weft's own, because asking for an event would break a capture
     * that began since on the stream on which the event was recorded. */
    bool marks_aside;
    /* Finds the thread's current device; an error code if it has none. */
    int (*current)(const weft_gpu_calls *calls, int *number);
    /* Take and give the context of an open device: taken first, given back last. */
    int (*context_take)(const weft_gpu_calls *calls, int handle, void **context);
    void (*context_give)(const weft_gpu_calls *calls, int handle);
    /* Makes a device current for the calls until leave. */
    int (*enter)(const weft_gpu_device *device, weft_gpu_entry *entry);
    void (*leave)(const weft_gpu_device *device, const weft_gpu_entry *entry);
    int (*copy)(const weft_gpu_calls *calls, uint64_t to, uint64_t from, size_t bytes, void *stream);
    /* Clears an error that the library keeps for the next caller, because that caller is not weft. */
    void (*forget)(const weft_gpu_calls *calls);
    const char *(*word)(const weft_gpu_calls *calls, int code); /* the library's name of a code; NULL: none */
    void (*version)(int version, char *text, size_t capacity);
} weft_gpu_vendor;

/* The slot `probe` of weft_gpu_driver. */
size_t weft_gpu_vendor_probe(const weft_gpu_vendor *vendor, weft_device_info *devices, size_t capacity);
/* Opens and starts the vendor's library; `count` devices, at least one. Errors, not logged: WEFT_E_MISSING. */
weft_status weft_gpu_vendor_begin(const weft_gpu_vendor *vendor, const weft_gpu_calls **calls, int *count);

/* Returns the meaning of a code, for people. */
const char *weft_gpu_vendor_meaning(const weft_gpu_vendor *vendor, const weft_gpu_calls *calls, int code);

#endif
