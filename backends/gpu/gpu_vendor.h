/* gpu_vendor.h - the driver table over a vendor's library: what the two vendors share, and where they differ. */
#ifndef WEFT_BACKENDS_GPU_VENDOR_H
#define WEFT_BACKENDS_GPU_VENDOR_H

#include "backends/gpu/gpu_driver.h"
#include "backends/gpu/gpu_library.h"

/* What a call found current on its thread, to be put back. */
typedef struct weft_gpu_entry {
    int device;
    int capture_mode;
} weft_gpu_entry;

typedef struct weft_gpu_vendor {
    const char *name; /* "cuda" */
    weft_gpu_library *library;
    int capability_major; /* attributes of a device */
    int capability_minor;
    int stream_gone; /* code for a stream that was given back */
    /* The thread's current device; an error code if it has none. */
    int (*current)(const weft_gpu_calls *calls, int *number);
    /* What stands for a device that is open: taken first, given back last. */
    int (*context_take)(const weft_gpu_calls *calls, int handle, void **context);
    void (*context_give)(const weft_gpu_calls *calls, int handle);
    /* Makes a device current for the calls until leave. */
    int (*enter)(const weft_gpu_device *device, weft_gpu_entry *entry);
    void (*leave)(const weft_gpu_device *device, const weft_gpu_entry *entry);
    int (*copy)(const weft_gpu_calls *calls, uint64_t to, uint64_t from, size_t bytes, void *stream);
    /* Forgets an error that the library keeps for its next asker, who is not weft. */
    void (*forget)(const weft_gpu_calls *calls);
    const char *(*word)(const weft_gpu_calls *calls, int code); /* the library's name of a code, or NULL */
    void (*version)(int version, char *text, size_t capacity);
} weft_gpu_vendor;

/* The slot `probe` of weft_gpu_driver. */
size_t weft_gpu_vendor_probe(const weft_gpu_vendor *vendor, weft_device_info *devices, size_t capacity);
/* Begins the vendor's library; `count` devices, at least one. Errors, said quietly: WEFT_E_MISSING. */
weft_status weft_gpu_vendor_begin(const weft_gpu_vendor *vendor, const weft_gpu_calls **calls, int *count);

/* What a code of the library means, for people. */
const char *weft_gpu_vendor_meaning(const weft_gpu_vendor *vendor, const weft_gpu_calls *calls, int code);

#endif
