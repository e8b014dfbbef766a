/* lanes.h - the lane vocabulary in HIP. Ordinary HIP: it compiles with ROCm's headers (-DWEFT_HIP_HEADERS), with nvcc
 * through the shim of the tests, and by plain clang, for which freestanding.h gives HIP's own words. */
#ifndef WEFT_KERNELS_HIP_LANES_H
#define WEFT_KERNELS_HIP_LANES_H

#include <stdint.h>

#ifdef WEFT_HIP_HEADERS
#include <hip/hip_runtime.h>
#else
#include "kernels_hip/freestanding.h"
#endif

#if !defined(WEFT_LANES) || (WEFT_LANES != 32 && WEFT_LANES != 64)
#error "pass -DWEFT_LANES=64 for gfx9, 32 for gfx10 and later"
#endif

#define WEFT_BLOCK              256
#define WEFT_DEVICE             static inline __device__ __attribute__((always_inline))
#define WEFT_KERNEL(name)       extern "C" __global__ void __launch_bounds__(WEFT_BLOCK) weft_kernel_##name
#define WEFT_SHARED(type, name) __shared__ type name

typedef struct alignas(16) weft_quad {
    uint32_t x, y, z, w;
} weft_quad;

/* The type *at a device address of a row; the compiler learns that it is device memory and no other kind. */
#if defined(__AMDGCN__)
#define WEFT_AT(type, address) ((type *)(__attribute__((address_space(1))) type *)(uint64_t)(address))
#else
#define WEFT_AT(type, address) ((type *)(uint64_t)(address))
#endif

WEFT_DEVICE uint32_t weft_thread(void)
{
    return threadIdx.x;
}

WEFT_DEVICE uint32_t weft_block(void)
{
    return blockIdx.x;
}

WEFT_DEVICE uint32_t weft_blocks(void)
{
    return gridDim.x;
}

WEFT_DEVICE uint32_t weft_lane(void)
{
    return threadIdx.x % WEFT_LANES; /* blocks have one dimension */
}

WEFT_DEVICE void weft_barrier(void)
{
    __syncthreads();
}

WEFT_DEVICE uint64_t weft_ballot(bool holds)
{
    return __ballot(holds);
}

WEFT_DEVICE uint32_t weft_shuffle(uint32_t value, uint32_t lane)
{
    return (uint32_t)__shfl((int)value, (int)lane, WEFT_LANES);
}

WEFT_DEVICE uint32_t weft_ones(uint64_t mask)
{
    return (uint32_t)__popcll(mask);
}

WEFT_DEVICE uint32_t weft_lowest(uint64_t mask)
{
    return (uint32_t)__ffsll((unsigned long long)mask) - 1;
}

WEFT_DEVICE uint32_t weft_highest(uint64_t mask)
{
    return 63 - (uint32_t)__clzll((long long)mask);
}

#if defined(__clang__)
typedef uint32_t weft_vector __attribute__((ext_vector_type(4)));
#else
typedef uint4 weft_vector;
#endif

WEFT_DEVICE weft_quad weft_load_stream(const weft_quad *from)
{
    weft_vector loaded = __builtin_nontemporal_load((const weft_vector *)from);
    weft_quad quad = {loaded.x, loaded.y, loaded.z, loaded.w};
    return quad;
}

WEFT_DEVICE uint32_t weft_add32(uint32_t *at, uint32_t value)
{
    return __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

WEFT_DEVICE uint64_t weft_add64(uint64_t *at, uint64_t value)
{
    return __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

WEFT_DEVICE uint32_t weft_or32(uint32_t *at, uint32_t value)
{
    return __hip_atomic_fetch_or(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

#endif
