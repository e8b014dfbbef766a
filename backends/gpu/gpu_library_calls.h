/* gpu_library_calls.h - the functions of the two vendors' libraries that weft calls, declared by weft itself.
 *
 * ROW(result, name, parameters, symbol in libcuda, symbol in libamdhip64): the functions of a row take the same
 * arguments and do the same in both libraries; NULL if only the other vendor has the row. Results of type int are error
 * codes, of which the two vendors share the numbers below. Drivers leave out-variables untouched when they fail. */
#ifndef WEFT_BACKENDS_GPU_LIBRARY_CALLS_H
#define WEFT_BACKENDS_GPU_LIBRARY_CALLS_H

#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define WEFT_GPU_CALLS(ROW)                                                                                            \
    ROW(int, init, (unsigned flags), "cuInit", "hipInit")                                                              \
    ROW(int, version, (int *version), "cuDriverGetVersion", "hipRuntimeGetVersion")                                    \
    ROW(int, device_count, (int *count), "cuDeviceGetCount", "hipGetDeviceCount")                                      \
    ROW(int, device_get, (int *device, int number), "cuDeviceGet", "hipDeviceGet")                                     \
    ROW(int, device_name, (char *name, int capacity, int device), "cuDeviceGetName", "hipDeviceGetName")               \
    ROW(int, device_memory, (size_t *bytes, int device), "cuDeviceTotalMem_v2", "hipDeviceTotalMem")                   \
    ROW(int, device_attribute, (int *value, int attribute, int device), "cuDeviceGetAttribute",                        \
        "hipDeviceGetAttribute")                                                                                       \
    ROW(int, module_load, (void **module, const void *image), "cuModuleLoadData", "hipModuleLoadData")                 \
    ROW(int, module_unload, (void *module), "cuModuleUnload", "hipModuleUnload")                                       \
    ROW(int, module_function, (void **function, void *module, const char *name), "cuModuleGetFunction",                \
        "hipModuleGetFunction")                                                                                        \
    ROW(int, launch, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,             \
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **arguments,       \
                      void **extra), "cuLaunchKernel", "hipModuleLaunchKernel")                                        \
    ROW(int, memory_take, (uint64_t *address, size_t bytes), "cuMemAlloc_v2", "hipMalloc")                             \
    ROW(int, memory_give, (uint64_t address), "cuMemFree_v2", "hipFree")                                               \
    ROW(int, memory_left, (size_t *left, size_t *all), "cuMemGetInfo_v2", "hipMemGetInfo")                             \
    ROW(int, pinned_take, (void **memory, size_t bytes, unsigned flags), "cuMemHostAlloc", "hipHostMalloc")            \
    ROW(int, pinned_give, (void *memory), "cuMemFreeHost", "hipHostFree")                                              \
    ROW(int, pinned_address, (uint64_t *address, void *memory, unsigned flags), "cuMemHostGetDevicePointer_v2",        \
        "hipHostGetDevicePointer")                                                                                     \
    ROW(int, priorities, (int *lowest, int *highest), "cuCtxGetStreamPriorityRange",                                   \
        "hipDeviceGetStreamPriorityRange")                                                                             \
    ROW(int, stream_take, (void **stream, unsigned flags, int priority), "cuStreamCreateWithPriority",                 \
        "hipStreamCreateWithPriority")                                                                                 \
    ROW(int, stream_give, (void *stream), "cuStreamDestroy_v2", "hipStreamDestroy")                                    \
    ROW(int, stream_captured, (void *stream, int *state), "cuStreamIsCapturing", "hipStreamIsCapturing")               \
    ROW(int, capture_mode, (int *mode), "cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode")     \
    ROW(int, event_take, (void **event, unsigned flags), "cuEventCreate", "hipEventCreateWithFlags")                   \
    ROW(int, event_give, (void *event), "cuEventDestroy_v2", "hipEventDestroy")                                        \
    ROW(int, event_record, (void *event, void *stream), "cuEventRecord", "hipEventRecord")                             \
    ROW(int, event_query, (void *event), "cuEventQuery", "hipEventQuery")                                              \
    ROW(int, stream_wait, (void *stream, void *event, unsigned flags), "cuStreamWaitEvent", "hipStreamWaitEvent")      \
    ROW(int, clear, (uint64_t address, unsigned char byte, size_t bytes, void *stream), "cuMemsetD8Async",             \
        "hipMemsetD8Async")                                                                                            \
    ROW(int, pointer_attribute, (void *value, int attribute, uint64_t address), "cuPointerGetAttribute",               \
        "hipPointerGetAttribute")                                                                                      \
    ROW(int, copy, (uint64_t to, uint64_t from, size_t bytes, void *stream), "cuMemcpyAsync", NULL)                    \
    ROW(int, context_retain, (void **context, int device), "cuDevicePrimaryCtxRetain", NULL)                           \
    ROW(int, context_release, (int device), "cuDevicePrimaryCtxRelease_v2", NULL)                                      \
    ROW(int, context_state, (int device, unsigned *flags, int *active), "cuDevicePrimaryCtxGetState", NULL)            \
    ROW(int, context_push, (void *context), "cuCtxPushCurrent_v2", NULL)                                               \
    ROW(int, context_pop, (void **context), "cuCtxPopCurrent_v2", NULL)                                                \
    ROW(int, context_device, (int *device), "cuCtxGetDevice", NULL)                                                    \
    ROW(int, code_name, (int code, const char **name), "cuGetErrorName", NULL)                                         \
    ROW(int, copy_kind, (uint64_t to, uint64_t from, size_t bytes, int kind, void *stream), NULL, "hipMemcpyAsync")    \
    ROW(int, device_current, (int *device), NULL, "hipGetDevice")                                                      \
    ROW(int, device_choose, (int device), NULL, "hipSetDevice")                                                        \
    ROW(int, last_error, (void), NULL, "hipGetLastError")                                                              \
    ROW(const char *, code_text, (int code), NULL, "hipGetErrorName")

/* clang-format on */

#define WEFT_GPU_CALL_MEMBER(result, name, parameters, cuda, hip) result(*name) parameters;
typedef struct weft_gpu_calls {
    WEFT_GPU_CALLS(WEFT_GPU_CALL_MEMBER)
} weft_gpu_calls;
#undef WEFT_GPU_CALL_MEMBER

enum {
    WEFT_GPU_DONE = 0,
    WEFT_GPU_VALUE = 1,
    WEFT_GPU_NO_MEMORY = 2,
    WEFT_GPU_NOT_BEGUN = 3,
    WEFT_GPU_STUB = 34, /* a library that stands in for the driver at link time */
    WEFT_GPU_DRIVER_OLD = 35,
    WEFT_GPU_NO_DEVICE = 100,
    WEFT_GPU_WRONG_DEVICE = 101,
    WEFT_GPU_WRONG_HANDLE = 400, /* a stream that is not the current device's */
    WEFT_GPU_NOT_READY = 600,
    WEFT_GPU_ILLEGAL_ADDRESS = 700,
    WEFT_GPU_LAUNCH_FAILED = 719,
    WEFT_GPU_NOT_SUPPORTED = 801,
    WEFT_GPU_CAPTURED = 900,        /* the codes up to CAPTURED_LAST: not while a stream is captured into a graph */
    WEFT_GPU_CAPTURED_BESIDE = 906, /* the default stream, while a captured stream waits for it */
    WEFT_GPU_CAPTURED_LAST = 908,
};

#define WEFT_GPU_PINNED_FLAGS    3u /* portable, and in the device's address space */
#define WEFT_GPU_STREAM_FLAGS    1u /* does not wait for the default stream */
#define WEFT_GPU_EVENT_FLAGS     2u /* no time is taken */
#define WEFT_GPU_POINTER_HERE    3  /* attribute: address by which the current device reaches the memory */
#define WEFT_GPU_POINTER_HOST    4  /* attribute: address by which the host reaches the memory */
#define WEFT_GPU_POINTER_DEVICE  9  /* attribute: number of the device that the memory belongs to */
#define WEFT_GPU_CAPTURE_RELAXED 2  /* mode of a thread: its calls belong to no capture */

#endif
