/* fake_device.c - devices, what is current on a thread, and modules. */
#include <stdio.h>
#include <string.h>

#include "backends/kernels/list.h"
#include "tests/fake_gpu/fake_call.h"

int fake_device_code(int device)
{
    return device >= 0 && device < fake.options.devices ? WEFT_GPU_DONE : WEFT_GPU_WRONG_DEVICE;
}

#ifdef WEFT_FAKE_HIP

static _Thread_local int current_device;

int fake_current(void)
{
    return current_device;
}

#else

/* Contexts are named by the number of their device and one. */
enum { STACK = 64 };
static _Thread_local int stack[STACK];
static _Thread_local int depth;
static int retained[WEFT_FAKE_DEVICES];

int fake_current(void)
{
    return depth ? stack[depth - 1] : -1;
}

#endif

static _Thread_local int capture_mode;

int fake_capture_mode(void)
{
    return capture_mode;
}

int fake_unsafe_code(void)
{
    if (!fake.capture.stream || capture_mode == WEFT_GPU_CAPTURE_RELAXED)
        return WEFT_GPU_DONE;
    fake.capture.broken = true;
    return WEFT_GPU_CAPTURED;
}

static int mode_exchange(int *mode)
{
    const int before = capture_mode;
    if (*mode < 0 || *mode > WEFT_GPU_CAPTURE_RELAXED)
        return WEFT_GPU_VALUE;
    capture_mode = *mode;
    *mode = before;
    return WEFT_GPU_DONE;
}

API int SYMBOL(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)(int *mode)
{
    CALL_OF(code, code = mode_exchange(mode));
}

/* Most calls need a current device. */
int fake_here(void)
{
    return fake_device_code(fake_current()) == WEFT_GPU_DONE ? WEFT_GPU_DONE : 201;
}

static int count_give(int *count)
{
    if (fake.options.devices == 0)
        return WEFT_GPU_NO_DEVICE;
    *count = fake.options.devices;
    return WEFT_GPU_DONE;
}

API int SYMBOL(cuInit, hipInit)(unsigned flags)
{
    (void)flags;
    CALL_OF(code, code = fake.options.init_code);
}

API int SYMBOL(cuDriverGetVersion, hipRuntimeGetVersion)(int *version)
{
    CALL_OF(code, *version = fake.options.version);
}

API int SYMBOL(cuDeviceGetCount, hipGetDeviceCount)(int *count)
{
    CALL_OF(code, code = count_give(count));
}

static int device_give(int *device, int number)
{
    int code = fake_device_code(number);
    if (code == WEFT_GPU_DONE)
        *device = number;
    return code;
}

API int SYMBOL(cuDeviceGet, hipDeviceGet)(int *device, int number)
{
    CALL_OF(code, code = device_give(device, number));
}

API int SYMBOL(cuDeviceGetName, hipDeviceGetName)(char *name, int capacity, int device)
{
    CALL_OF(code, snprintf(name, (size_t)capacity, "emulated %d", device));
}

API int SYMBOL(cuDeviceTotalMem_v2, hipDeviceTotalMem)(size_t *bytes, int device)
{
    (void)device;
    CALL_OF(code, *bytes = fake.options.memory_bytes);
}

static int attribute_give(int *value, int attribute)
{
    const int major = SYMBOL(75, 23), minor = SYMBOL(76, 61);
    if (attribute != major && attribute != minor)
        return WEFT_GPU_VALUE;
    *value = attribute == major ? fake.options.major : fake.options.minor;
    return WEFT_GPU_DONE;
}

API int SYMBOL(cuDeviceGetAttribute, hipDeviceGetAttribute)(int *value, int attribute, int device)
{
    (void)device;
    CALL_OF(code, code = attribute_give(value, attribute));
}

static char module_mark;

static int module_give(void **module)
{
    int code = fake_here();
    if (code != WEFT_GPU_DONE)
        return code;
    *module = &module_mark;
    fake.live++;
    return WEFT_GPU_DONE;
}

API int SYMBOL(cuModuleLoadData, hipModuleLoadData)(void **module, const void *image)
{
    (void)image;
    UNSAFE_CALL_OF(code, code = module_give(module));
}

API int SYMBOL(cuModuleUnload, hipModuleUnload)(void *module)
{
    (void)module;
    UNSAFE_CALL_OF(code, fake.live--);
}

static const char *const kernels[] = {
#define NAME(name) "weft_kernel_" #name,
    WEFT_KERNELS(NAME)
#undef NAME
};

static int function_give(void **function, const char *name)
{
    for (uintptr_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(kernels[i], name) == 0) {
            *function = (void *)(i + 1);
            return WEFT_GPU_DONE;
        }
    }
    return 500;
}

API int SYMBOL(cuModuleGetFunction, hipModuleGetFunction)(void **function, void *module, const char *name)
{
    (void)module;
    CALL_OF(code, code = function_give(function, name));
}

#ifdef WEFT_FAKE_HIP

API int hipGetDevice(int *device)
{
    CALL_OF(code, *device = current_device);
}

static int device_choose(int device)
{
    int code = fake_device_code(device);
    if (code == WEFT_GPU_DONE)
        current_device = device;
    return code;
}

API int hipSetDevice(int device)
{
    CALL_OF(code, code = device_choose(device));
}

API int hipGetLastError(void)
{
    return WEFT_GPU_DONE;
}

void fake_contexts_reset(void)
{
}

API const char *hipGetErrorName(int code)
{
    return code == 999 ? "hipErrorUnknown" : "hipErrorOther";
}

void fake_choose(int device)
{
    current_device = device < 0 ? 0 : device; /* there always is one */
    capture_mode = 0;
}

#else

static int context_retain(void **context, int device)
{
    int code = fake_device_code(device);
    if (code != WEFT_GPU_DONE)
        return code;
    retained[device]++;
    fake.live++;
    *context = (void *)(uintptr_t)(device + 1);
    return WEFT_GPU_DONE;
}

API int cuDevicePrimaryCtxRetain(void **context, int device)
{
    CALL_OF(code, code = context_retain(context, device));
}

static int context_release(int device)
{
    if (fake_device_code(device) != WEFT_GPU_DONE || retained[device] == 0)
        return 201;
    retained[device]--;
    fake.live--;
    return WEFT_GPU_DONE;
}

API int cuDevicePrimaryCtxRelease_v2(int device)
{
    CALL_OF(code, code = context_release(device));
}

static int context_state(int device, unsigned *flags, int *active)
{
    const int code = fake_device_code(device);
    if (code != WEFT_GPU_DONE)
        return code;
    *flags = 0;
    *active = retained[device] > 0;
    return WEFT_GPU_DONE;
}

API int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    CALL_OF(code, code = context_state(device, flags, active));
}

static int context_push(uintptr_t context)
{
    int device = (int)context - 1;
    if (fake_device_code(device) != WEFT_GPU_DONE || !retained[device] || depth == STACK)
        return 201;
    stack[depth++] = device;
    return WEFT_GPU_DONE;
}

API int cuCtxPushCurrent_v2(void *context)
{
    CALL_OF(code, code = context_push((uintptr_t)context));
}

static int context_pop(void **context)
{
    if (depth == 0)
        return 201;
    *context = (void *)(uintptr_t)(stack[--depth] + 1);
    return WEFT_GPU_DONE;
}

API int cuCtxPopCurrent_v2(void **context)
{
    CALL_OF(code, code = context_pop(context));
}

static int context_device(int *device)
{
    if (depth == 0)
        return 201;
    *device = fake_current();
    return WEFT_GPU_DONE;
}

API int cuCtxGetDevice(int *device)
{
    CALL_OF(code, code = context_device(device));
}

void fake_contexts_reset(void)
{
    memset(retained, 0, sizeof retained);
}

API int cuGetErrorName(int code, const char **name)
{
    *name = code == 999 ? "CUDA_ERROR_UNKNOWN" : "CUDA_ERROR_OTHER";
    return WEFT_GPU_DONE;
}

/* As if the framework had the thread to itself. */
void fake_choose(int device)
{
    depth = 0;
    capture_mode = 0;
    if (device >= 0)
        stack[depth++] = device;
}

#endif
