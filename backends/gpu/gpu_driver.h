/* gpu_driver.h - the table through which a device backend calls its vendor's driver.
 *
 * cuda.c and hip.c each fill one over a driver library that is opened at run time. No file above knows a vendor.
 *
 * Addresses of device memory are uint64_t; pinned host memory has one for the host and one for the device. Streams and
 * marks (events) are the driver's handles. A caller's stream (NULL: the default one) may be given for a stream. Every
 * call leaves the thread's current device and context as they were, and any thread may call. Only give and close wait
 * for work on the device, and they are for a device at rest. A thread that captures a stream into a graph meanwhile is
 * not disturbed. Each of these promises costs a call of the driver, before and after: a thread that makes several calls
 * holds the device meanwhile.
 *
 * The driver decides the errors (weft_fail), with the call's name and the driver's own word: WEFT_E_MEMORY (device or
 * pinned memory is out), WEFT_E_STATE (not while a graph is captured), WEFT_E_DEVICE (all else: the device is lost to
 * this session). */
#ifndef WEFT_BACKENDS_GPU_DRIVER_H
#define WEFT_BACKENDS_GPU_DRIVER_H

#include <stdbool.h>

#include "backends/kernels/list.h"
#include "weft.h"

#define WEFT_GPU_BLOCK 256u /* threads of a block */

typedef struct weft_gpu_device weft_gpu_device; /* an open device, of the driver's own type */

typedef struct weft_gpu_driver {
    const char *name; /* name of the backend: "cuda" */

    /* Writes one entry for each device, or one that says why there is none. Returns the number of entries. Takes
     * nothing on the devices. */
    size_t (*probe)(weft_device_info *devices, size_t capacity);

    /* Opens a device (-1: the calling thread's current one, the first if it has none) and loads the image that fits.
     * Errors: WEFT_E_MISSING (no driver, no device, no image for it), WEFT_E_CONFIG (no such number). */
    weft_status (*open)(int number, weft_gpu_device **device);
    void (*close)(weft_gpu_device *device);
    /* Closes a device without a call of the driver, because its work does not end. Its memory stays taken. */
    void (*abandon)(weft_gpu_device *device);

    /* Between the two the device is current on the calling thread, whose calls need not make it so. They may be
     * nested. A hold that fails does nothing: the calls fail by themselves. */
    void (*hold)(weft_gpu_device *device);
    void (*release)(weft_gpu_device *device);

    /* Return the number of the open device, and the name of the loaded image. */
    int (*number)(const weft_gpu_device *device);
    const char *(*image)(const weft_gpu_device *device);

    /* Take and give memory, aligned to 256 bytes and not cleared. `give` allows NULL and 0. */
    weft_status (*memory_take)(weft_gpu_device *device, uint64_t bytes, uint64_t *address);
    void (*memory_give)(weft_gpu_device *device, uint64_t address);
    /* Finds how many bytes of the device's memory are free. */
    weft_status (*memory_left)(weft_gpu_device *device, uint64_t *bytes);
    weft_status (*pinned_take)(weft_gpu_device *device, uint64_t bytes, void **memory, uint64_t *address);
    void (*pinned_give)(weft_gpu_device *device, void *memory);

    /* Take and give a stream that waits for no other stream. The device prefers the work of an urgent one to that of
     * others, and that of others to what is not urgent, where it knows priorities. */
    weft_status (*stream_take)(weft_gpu_device *device, bool urgent, void **stream);
    void (*stream_give)(weft_gpu_device *device, void *stream);

    /* Queue work in order of the stream, and return before it is done. An address may be the device's or of host
     * memory, and tells the driver the direction. A copy waits for host memory that is not pinned. */
    weft_status (*copy)(weft_gpu_device *device, void *stream, uint64_t to, uint64_t from, uint64_t bytes);
    weft_status (*clear)(weft_gpu_device *device, void *stream, uint64_t address, uint64_t bytes);
    weft_status (*launch)(weft_gpu_device *device, void *stream, enum weft_gpu_kernel kernel, uint32_t blocks,
                          uint64_t argument);

    /* A mark is reached after all work that is on the stream when `mark` is called. `reached` returns WEFT_OK,
     * WEFT_AGAIN, or WEFT_E_STATE without a text, because the driver does not answer while a graph is captured. A mark
     * never set is reached. `mark` is for streams of stream_take, and `mark_caller` for a caller's stream: it returns
     * WEFT_E_ARGUMENT for a stream that is captured or not this device's, and WEFT_AGAIN for the default stream while a
     * stream is captured that waits for the default one. */
    weft_status (*mark_take)(weft_gpu_device *device, void **mark);
    void (*mark_give)(weft_gpu_device *device, void *mark);
    weft_status (*mark)(weft_gpu_device *device, void *stream, void *mark);
    weft_status (*mark_caller)(weft_gpu_device *device, void *stream, void *mark);
    weft_status (*reached)(weft_gpu_device *device, void *mark);

    /* Writes to `text` why the kernels cannot reach `bytes` (at least 1) of memory at `address`, as the end of a
     * sentence that begins with the address. NULL: they can. */
    const char *(*reaches)(weft_gpu_device *device, uint64_t address, uint64_t bytes, char *text, size_t capacity);

    /* True if the calling thread's process already uses a device of this vendor by other means than weft. */
    bool (*in_use)(void);
} weft_gpu_driver;

/* The drivers of NVIDIA's and AMD's devices. */
extern const weft_gpu_driver weft_gpu_driver_cuda, weft_gpu_driver_hip;

/* Finds the driver of a backend by name, or of "auto" (registry.c). NULL: the host, or no such backend. */
const weft_gpu_driver *weft_gpu_driver_find(const char *name);

#endif
