/* gpu_vendor.h - the driver table over a vendor's library: what the two vendors share, and where they differ. */
#ifndef WEFT_BACKENDS_GPU_VENDOR_H
#define WEFT_BACKENDS_GPU_VENDOR_H

#include <stdatomic.h>

#include "backends/gpu/gpu_driver.h"
#include "backends/gpu/gpu_images.h"
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

struct weft_gpu_device {
    const weft_gpu_vendor *vendor;
    const weft_gpu_calls *calls;
    int number;
    int handle;
    void *context;
    void *module;
    struct weft_gpu_image image; /* that was loaded */
    atomic_bool failed;          /* it was said so once */
    void *functions[WEFT_GPU_KERNELS + 1];
};

/* Slots of weft_gpu_driver. */
size_t weft_gpu_vendor_probe(const weft_gpu_vendor *vendor, weft_device_info *devices, size_t capacity);
weft_status weft_gpu_vendor_open(const weft_gpu_vendor *vendor, int number, weft_gpu_device **device);
void weft_gpu_vendor_close(weft_gpu_device *device);
void weft_gpu_vendor_abandon(weft_gpu_device *device);
int weft_gpu_vendor_number(const weft_gpu_device *device);
const char *weft_gpu_vendor_image(const weft_gpu_device *device);
weft_status weft_gpu_vendor_memory_take(weft_gpu_device *device, uint64_t bytes, uint64_t *address);
void weft_gpu_vendor_memory_give(weft_gpu_device *device, uint64_t address);
weft_status weft_gpu_vendor_pinned_take(weft_gpu_device *device, uint64_t bytes, void **memory, uint64_t *address);
void weft_gpu_vendor_pinned_give(weft_gpu_device *device, void *memory);
weft_status weft_gpu_vendor_stream_take(weft_gpu_device *device, void **stream);
void weft_gpu_vendor_stream_give(weft_gpu_device *device, void *stream);
weft_status weft_gpu_vendor_copy(weft_gpu_device *device, void *stream, uint64_t to, uint64_t from, uint64_t bytes);
weft_status weft_gpu_vendor_clear(weft_gpu_device *device, void *stream, uint64_t address, uint64_t bytes);
weft_status weft_gpu_vendor_launch(weft_gpu_device *device, void *stream, enum weft_gpu_kernel kernel, uint32_t blocks,
                                   uint64_t argument);
weft_status weft_gpu_vendor_mark_take(weft_gpu_device *device, void **mark);
void weft_gpu_vendor_mark_give(weft_gpu_device *device, void *mark);
weft_status weft_gpu_vendor_mark(weft_gpu_device *device, void *stream, void *mark);
weft_status weft_gpu_vendor_reached(weft_gpu_device *device, void *mark);
const char *weft_gpu_vendor_reaches(weft_gpu_device *device, uint64_t address, uint64_t bytes, char *text,
                                    size_t capacity);

int weft_gpu_vendor_exported(weft_gpu_device *device, uint64_t address, uint64_t bytes);
weft_status weft_gpu_vendor_flush(weft_gpu_device *device);

/* The driver of a vendor, in the file that has its record `vendor` and NAME_in_use. */
#define WEFT_GPU_VENDOR_DRIVER(NAME)                                                                                   \
    static size_t NAME##_probe(weft_device_info *devices, size_t capacity)                                             \
    {                                                                                                                  \
        return weft_gpu_vendor_probe(&vendor, devices, capacity);                                                      \
    }                                                                                                                  \
    static weft_status NAME##_open(int number, weft_gpu_device **device)                                               \
    {                                                                                                                  \
        return weft_gpu_vendor_open(&vendor, number, device);                                                          \
    }                                                                                                                  \
    const weft_gpu_driver weft_gpu_driver_##NAME = {.name = #NAME,                                                     \
                                                    .probe = NAME##_probe,                                             \
                                                    .open = NAME##_open,                                               \
                                                    .in_use = NAME##_in_use,                                           \
                                                    .close = weft_gpu_vendor_close,                                    \
                                                    .abandon = weft_gpu_vendor_abandon,                                \
                                                    .number = weft_gpu_vendor_number,                                  \
                                                    .image = weft_gpu_vendor_image,                                    \
                                                    .memory_take = weft_gpu_vendor_memory_take,                        \
                                                    .memory_give = weft_gpu_vendor_memory_give,                        \
                                                    .pinned_take = weft_gpu_vendor_pinned_take,                        \
                                                    .pinned_give = weft_gpu_vendor_pinned_give,                        \
                                                    .stream_take = weft_gpu_vendor_stream_take,                        \
                                                    .stream_give = weft_gpu_vendor_stream_give,                        \
                                                    .copy = weft_gpu_vendor_copy,                                      \
                                                    .clear = weft_gpu_vendor_clear,                                    \
                                                    .launch = weft_gpu_vendor_launch,                                  \
                                                    .mark_take = weft_gpu_vendor_mark_take,                            \
                                                    .mark_give = weft_gpu_vendor_mark_give,                            \
                                                    .mark = weft_gpu_vendor_mark,                                      \
                                                    .reached = weft_gpu_vendor_reached,                                \
                                                    .reaches = weft_gpu_vendor_reaches,                                \
                                                    .exported = weft_gpu_vendor_exported,                              \
                                                    .flush = weft_gpu_vendor_flush}

/* What gpu_vendor.c and gpu_load.c share. */

extern const char *const weft_gpu_kernel_names[]; /* symbols, by number */

/* Decides what a code means for the session, and says it. */
weft_status weft_gpu_vendor_fail(weft_gpu_device *device, const char *call, int code);
/* Makes the device current for calls that are no part of what any thread captures into a graph: else many of them would
 * be refused while one does, and end its capture. Returns a code; leave follows if it is WEFT_GPU_DONE. */
int weft_gpu_vendor_enter(const weft_gpu_device *device, weft_gpu_entry *entry);
void weft_gpu_vendor_leave(const weft_gpu_device *device, weft_gpu_entry *entry);
/* Loads the first image that the driver takes, and finds every kernel in it. Errors: WEFT_E_MISSING, the device's. */
weft_status weft_gpu_vendor_load(weft_gpu_device *device);

/* gpu_probe.c: what open and probe share. */

/* Begins the vendor's library; `count` devices, at least one. Errors, said quietly: WEFT_E_MISSING. */
weft_status weft_gpu_vendor_begin(const weft_gpu_vendor *vendor, const weft_gpu_calls **calls, int *count);

/* The vendor's image number `nth` (from 0) in the order in which a device of a capability is to be offered them; false
 * behind the last. */
bool weft_gpu_image_choose(const char *vendor, int major, int minor, unsigned nth, struct weft_gpu_image *image);

/* What a code of the library means, for people. */
const char *weft_gpu_vendor_meaning(const weft_gpu_vendor *vendor, const weft_gpu_calls *calls, int code);

#endif
