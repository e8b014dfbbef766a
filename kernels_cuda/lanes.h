/* lanes.h - the lane vocabulary in CUDA, for nvcc and, with -DWEFT_FREESTANDING, for a clang without the toolkit. */
#ifndef WEFT_KERNELS_CUDA_LANES_H
#define WEFT_KERNELS_CUDA_LANES_H

#include <stdint.h>

#ifdef WEFT_FREESTANDING
#include "kernels_cuda/freestanding.h"
#endif

#define WEFT_LANES              32
#define WEFT_BLOCK              256
#define WEFT_DEVICE             static inline __device__ __attribute__((always_inline))
#define WEFT_KERNEL(name)       extern "C" __global__ void __launch_bounds__(WEFT_BLOCK) weft_kernel_##name
#define WEFT_SHARED(type, name) __shared__ type name

typedef struct alignas(16) weft_quad {
    uint32_t x, y, z, w;
} weft_quad;

/* The type *at a device address of a row; the compiler learns that it is device memory and no other kind. */
#ifdef WEFT_FREESTANDING
#define WEFT_AT(type, address) ((type *)(__attribute__((address_space(1))) type *)(uint64_t)(address))
#else
/* By an assumption, not a conversion: over conversions of one address in several branches nvcc 13 never ends. */
template <typename type> static inline __device__ __attribute__((always_inline)) type *weft_global(uint64_t address)
{
    type *at = (type *)address;
    __builtin_assume(__isGlobal(at));
    return at;
}
#define WEFT_AT(type, address) weft_global<type>(address)
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
    return __ballot_sync(0xffffffffu, holds);
}

WEFT_DEVICE uint32_t weft_shuffle(uint32_t value, uint32_t lane)
{
    return __shfl_sync(0xffffffffu, value, (int)lane);
}

WEFT_DEVICE uint32_t weft_ones(uint64_t mask)
{
    return (uint32_t)__popcll(mask);
}

WEFT_DEVICE uint32_t weft_lowest(uint64_t mask)
{
    return (uint32_t)__ffsll((long long)mask) - 1;
}

WEFT_DEVICE uint32_t weft_highest(uint64_t mask)
{
    return 63 - (uint32_t)__clzll((long long)mask);
}

WEFT_DEVICE weft_quad weft_load_stream(const weft_quad *from)
{
    weft_quad quad;
    asm volatile("ld.global.cs.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(quad.x), "=r"(quad.y), "=r"(quad.z), "=r"(quad.w)
                 : "l"(__cvta_generic_to_global(from)));
    return quad;
}

WEFT_DEVICE uint32_t weft_add32(uint32_t *at, uint32_t value)
{
    return atomicAdd(at, value);
}

WEFT_DEVICE uint64_t weft_add64(uint64_t *at, uint64_t value)
{
    return atomicAdd((unsigned long long *)at, (unsigned long long)value);
}

WEFT_DEVICE uint32_t weft_or32(uint32_t *at, uint32_t value)
{
    return atomicOr(at, value);
}

#endif
