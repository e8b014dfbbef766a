/* headers.cpp - what weft declares of a driver's interface by hand, held against the vendor's own headers: compiled by
 * headers.sh, never run. VENDOR_ROWS is made of backends/gpu/gpu_library_calls.h. */
#ifdef WEFT_VENDOR_CUDA
#include <cuda.h>
#else
#include <hip/hip_runtime_api.h>
#endif

#include <type_traits>

#include "backends/gpu/gpu_library_calls.h"

/* How a value travels: integers, enums and pointers of a size all alike. What a pointer points at is of the same size
 * too, where both say what it is. */
template <typename type> constexpr bool plain = std::is_integral_v<type> || std::is_enum_v<type>;

template <typename one> constexpr unsigned long pointed()
{
    if constexpr (std::is_void_v<one> || std::is_function_v<one>)
        return 0;
    else if constexpr (!std::is_pointer_v<one> && !plain<one>)
        return 0; /* a struct behind a handle */
    else
        return sizeof(one);
}

template <typename ours, typename theirs> constexpr bool alike()
{
    if constexpr (std::is_void_v<ours> || std::is_void_v<theirs>)
        return std::is_void_v<ours> && std::is_void_v<theirs>;
    else if constexpr (std::is_pointer_v<ours> && std::is_pointer_v<theirs>) {
        const unsigned long a = pointed<std::remove_pointer_t<ours>>(), b = pointed<std::remove_pointer_t<theirs>>();
        return a == 0 || b == 0 || a == b;
    } else
        return (plain<ours> || std::is_pointer_v<ours>)&&(plain<theirs> || std::is_pointer_v<theirs>)&&sizeof(ours) ==
               sizeof(theirs);
}

template <typename...> struct types;
template <typename ours, typename theirs> struct each : std::false_type {
};
template <> struct each<types<>, types<>> : std::true_type {
};
template <typename a, typename... as, typename b, typename... bs>
struct each<types<a, as...>, types<b, bs...>>
    : std::bool_constant<alike<a, b>() && each<types<as...>, types<bs...>>::value> {
};

template <typename ours, typename theirs> struct same : std::false_type {
};
template <typename a, typename... as, typename b, typename... bs>
struct same<a (*)(as...), b (*)(bs...)> : each<types<a, as...>, types<b, bs...>> {
};

#define CHECK_CALL(result, name, parameters, symbol)                                                                   \
    static_assert(same<result(*) parameters, decltype(&::symbol)>::value, #symbol " is declared in another way");
VENDOR_ROWS(CHECK_CALL)

/* Two functions that take as many arguments of other sizes are not the same: the check above can fail. */
static_assert(!same<int (*)(unsigned), int (*)(unsigned long)>::value);
static_assert(!same<int (*)(int *), int (*)(unsigned long *)>::value);
static_assert(!same<int (*)(int), int (*)(int, int)>::value);
static_assert(!same<int (*)(int), void (*)(int)>::value);
static_assert(same<int (*)(unsigned long *, void *), int (*)(void **, int *)>::value);

#define CHECK(ours, theirs) static_assert((long long)(ours) == (long long)(theirs), #ours " is not " #theirs);

#ifdef WEFT_VENDOR_CUDA
CHECK(WEFT_GPU_DONE, CUDA_SUCCESS)
CHECK(WEFT_GPU_VALUE, CUDA_ERROR_INVALID_VALUE)
CHECK(WEFT_GPU_NO_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)
CHECK(WEFT_GPU_NOT_BEGUN, CUDA_ERROR_NOT_INITIALIZED)
CHECK(WEFT_GPU_STUB, CUDA_ERROR_STUB_LIBRARY)
CHECK(WEFT_GPU_NO_DEVICE, CUDA_ERROR_NO_DEVICE)
CHECK(WEFT_GPU_WRONG_DEVICE, CUDA_ERROR_INVALID_DEVICE)
CHECK(WEFT_GPU_WRONG_HANDLE, CUDA_ERROR_INVALID_HANDLE)
CHECK(WEFT_GPU_NOT_READY, CUDA_ERROR_NOT_READY)
CHECK(WEFT_GPU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS)
CHECK(WEFT_GPU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED)
CHECK(WEFT_GPU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED)
CHECK(WEFT_GPU_CAPTURED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
CHECK(WEFT_GPU_CAPTURED + 1, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
CHECK(WEFT_GPU_CAPTURED_BESIDE, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
CHECK(WEFT_GPU_CAPTURED_LAST, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
CHECK(46, CUDA_ERROR_DEVICE_UNAVAILABLE)
CHECK(200, CUDA_ERROR_INVALID_IMAGE)
CHECK(201, CUDA_ERROR_INVALID_CONTEXT)
CHECK(209, CUDA_ERROR_NO_BINARY_FOR_GPU)
CHECK(214, CUDA_ERROR_ECC_UNCORRECTABLE)
CHECK(218, CUDA_ERROR_INVALID_PTX)
CHECK(222, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
CHECK(500, CUDA_ERROR_NOT_FOUND)
CHECK(702, CUDA_ERROR_LAUNCH_TIMEOUT)
CHECK(709, CUDA_ERROR_CONTEXT_IS_DESTROYED)
CHECK(716, CUDA_ERROR_MISALIGNED_ADDRESS)
CHECK(802, CUDA_ERROR_SYSTEM_NOT_READY)
CHECK(803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
CHECK(804, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)
CHECK(805, CUDA_ERROR_MPS_CONNECTION_FAILED)
CHECK(WEFT_GPU_PINNED_FLAGS, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)
CHECK(WEFT_GPU_STREAM_FLAGS, CU_STREAM_NON_BLOCKING)
CHECK(WEFT_GPU_EVENT_FLAGS, CU_EVENT_DISABLE_TIMING)
CHECK(WEFT_GPU_POINTER_HERE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
CHECK(WEFT_GPU_POINTER_HOST, CU_POINTER_ATTRIBUTE_HOST_POINTER)
CHECK(WEFT_GPU_POINTER_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
CHECK(WEFT_GPU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED)
CHECK(WEFT_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
CHECK(WEFT_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
CHECK(0, CU_STREAM_CAPTURE_STATUS_NONE)
#else
CHECK(WEFT_GPU_DONE, hipSuccess)
CHECK(WEFT_GPU_VALUE, hipErrorInvalidValue)
CHECK(WEFT_GPU_NO_MEMORY, hipErrorOutOfMemory)
CHECK(WEFT_GPU_NOT_BEGUN, hipErrorNotInitialized)
CHECK(WEFT_GPU_DRIVER_OLD, hipErrorInsufficientDriver)
CHECK(WEFT_GPU_NO_DEVICE, hipErrorNoDevice)
CHECK(WEFT_GPU_WRONG_DEVICE, hipErrorInvalidDevice)
CHECK(WEFT_GPU_WRONG_HANDLE, hipErrorInvalidHandle)
CHECK(WEFT_GPU_NOT_READY, hipErrorNotReady)
CHECK(WEFT_GPU_ILLEGAL_ADDRESS, hipErrorIllegalAddress)
CHECK(WEFT_GPU_LAUNCH_FAILED, hipErrorLaunchFailure)
CHECK(WEFT_GPU_NOT_SUPPORTED, hipErrorNotSupported)
CHECK(WEFT_GPU_CAPTURED, hipErrorStreamCaptureUnsupported)
CHECK(WEFT_GPU_CAPTURED + 1, hipErrorStreamCaptureInvalidated)
CHECK(WEFT_GPU_CAPTURED_BESIDE, hipErrorStreamCaptureImplicit)
CHECK(WEFT_GPU_CAPTURED_LAST, hipErrorStreamCaptureWrongThread)
CHECK(98, hipErrorInvalidDeviceFunction)
CHECK(200, hipErrorInvalidImage)
CHECK(209, hipErrorNoBinaryForGpu)
CHECK(500, hipErrorNotFound)
CHECK(709, hipErrorContextIsDestroyed)
CHECK(WEFT_GPU_PINNED_FLAGS, hipHostMallocPortable | hipHostMallocMapped)
CHECK(WEFT_GPU_STREAM_FLAGS, hipStreamNonBlocking)
CHECK(WEFT_GPU_EVENT_FLAGS, hipEventDisableTiming)
CHECK(WEFT_GPU_POINTER_HERE, HIP_POINTER_ATTRIBUTE_DEVICE_POINTER)
CHECK(WEFT_GPU_POINTER_HOST, HIP_POINTER_ATTRIBUTE_HOST_POINTER)
CHECK(WEFT_GPU_POINTER_DEVICE, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
CHECK(WEFT_GPU_CAPTURE_RELAXED, hipStreamCaptureModeRelaxed)
CHECK(WEFT_CAPABILITY_MAJOR, hipDeviceAttributeComputeCapabilityMajor)
CHECK(WEFT_CAPABILITY_MINOR, hipDeviceAttributeComputeCapabilityMinor)
CHECK(WEFT_KIND_BY_ADDRESS, hipMemcpyDefault)
CHECK(0, hipStreamCaptureStatusNone)
#endif
