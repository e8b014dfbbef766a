/* gpu_driver.h - the table through which a device backend reaches its vendor's driver.
 *
 * cuda.c and hip.c fill one each over a driver library that is opened at run time. What stands above knows no vendor.
 *
 * Addresses of device memory are uint64_t; pinned host memory has one for the host and one for the device. Streams and
 * marks (events) are the driver's handles; a caller's stream (NULL: the default one) may stand where a stream is asked
 * for. Every call leaves the thread's current device and context as it found them and may come from any thread. No
 * call waits for work on the device, but give and close, which are for when nothing is under way any more. Whoever
 * captures a stream into a graph meanwhile, on any thread, is not disturbed.
 *
 * Errors are said by the driver (weft_fail), with the call's name and the driver's own word for it:
 * WEFT_E_MEMORY (device or pinned memory is out), WEFT_E_STATE (not while a graph is captured), WEFT_E_DEVICE (all
 * else: the device is lost to this session). */
#ifndef WEFT_BACKENDS_GPU_DRIVER_H
#define WEFT_BACKENDS_GPU_DRIVER_H

#include <stdbool.h>

#include "backends/kernels/list.h"
#include "weft.h"

#define WEFT_GPU_BLOCK 256u /* threads */

typedef struct weft_gpu_device weft_gpu_device; /* one that was opened: each driver has its own */

typedef struct weft_gpu_driver {
    const char *name; /* "cuda": the backend's */

    /* One entry per device, or one that says why there is none; returns how many there are. Takes nothing on the
     * devices. */
    size_t (*probe)(weft_device_info *devices, size_t capacity);

    /* Opens a device (-1: the calling thread's current one, the first if it has none) and loads the image that fits.
     * Errors: WEFT_E_MISSING (no driver, no device, no image for it), WEFT_E_CONFIG (no such number). */
    weft_status (*open)(int number, weft_gpu_device **device);
    void (*close)(weft_gpu_device *device);
    /* close without a word to the driver, for a device whose work does not end: what is there stays there. */
    void (*abandon)(weft_gpu_device *device);

    /* The number that was opened, and the name of the image that was loaded. */
    int (*number)(const weft_gpu_device *device);
    const char *(*image)(const weft_gpu_device *device);

    /* Memory is aligned to 256 bytes and not cleared. `give` allows NULL and 0. */
    weft_status (*memory_take)(weft_gpu_device *device, uint64_t bytes, uint64_t *address);
    void (*memory_give)(weft_gpu_device *device, uint64_t address);
    weft_status (*pinned_take)(weft_gpu_device *device, uint64_t bytes, void **memory, uint64_t *address);
    void (*pinned_give)(weft_gpu_device *device, void *memory);

    /* A stream that orders itself against no other. */
    weft_status (*stream_take)(weft_gpu_device *device, void **stream);
    void (*stream_give)(weft_gpu_device *device, void *stream);

    /* In order of the stream; they return before it is done. An address may be the device's or that of host memory, by
     * which the driver tells the direction; host memory that is not pinned makes a copy wait. */
    weft_status (*copy)(weft_gpu_device *device, void *stream, uint64_t to, uint64_t from, uint64_t bytes);
    weft_status (*clear)(weft_gpu_device *device, void *stream, uint64_t address, uint64_t bytes);
    weft_status (*launch)(weft_gpu_device *device, void *stream, enum weft_gpu_kernel kernel, uint32_t blocks,
                          uint64_t argument);

    /* mark: set once all is done that is on the stream now. reached: WEFT_OK, or WEFT_AGAIN; WEFT_E_STATE, without a
     * word: the driver does not tell while a graph is captured. A mark never set is reached. mark on a caller's stream
     * that is captured, or that is none of this device's: WEFT_E_ARGUMENT; on the default stream while one is captured
     * that it orders itself against: WEFT_AGAIN. */
    weft_status (*mark_take)(weft_gpu_device *device, void **mark);
    void (*mark_give)(weft_gpu_device *device, void *mark);
    weft_status (*mark)(weft_gpu_device *device, void *stream, void *mark);
    weft_status (*reached)(weft_gpu_device *device, void *mark);

    /* Why the kernels cannot reach `bytes` (at least 1) of memory at `address`, as the end of a sentence that begins
     * with the address, written to `text`; NULL: they can. */
    const char *(*reaches)(weft_gpu_device *device, uint64_t address, uint64_t bytes, char *text, size_t capacity);

    /* The descriptor by which the driver exports memory of its own, page by page, and lends it to other devices; -1: it
     * does not. The caller closes it. */
    int (*exported)(weft_gpu_device *device, uint64_t address, uint64_t bytes);
    /* What another device has written into memory of this one before is seen by all that is submitted from now on. */
    weft_status (*flush)(weft_gpu_device *device);

    /* Whether the calling thread's process already works with a device of this vendor by other means than weft. */
    bool (*in_use)(void);
} weft_gpu_driver;

/* NVIDIA's devices, and AMD's. */
extern const weft_gpu_driver weft_gpu_driver_cuda, weft_gpu_driver_hip;

/* registry.c: what the backend of a name, or "auto", reaches its devices with; NULL: the host, or no such backend. */
const weft_gpu_driver *weft_gpu_driver_find(const char *name);

#endif
