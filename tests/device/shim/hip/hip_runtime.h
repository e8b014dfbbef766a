/* hip_runtime.h - those words of HIP that kernels_hip/lanes.h uses, for nvcc: the HIP sources run on an NVIDIA device.
 * Not ROCm's header of that name. With WEFT_LANES 64 two warps are one wave: they meet at a named barrier and hand each
 * other their part through shared memory, so that the paths of 64 lanes run too. */
#ifndef WEFT_TESTS_DEVICE_SHIM_H
#define WEFT_TESTS_DEVICE_SHIM_H

#include <stdint.h>

#define WEFT_SHIM static inline __device__ __attribute__((always_inline))

#if WEFT_LANES == 64
WEFT_SHIM void weft_shim_meet(void)
{
    asm volatile("bar.sync %0, 64;" ::"r"(1 + threadIdx.x / 64) : "memory");
}

WEFT_SHIM uint64_t weft_shim_ballot(bool holds)
{
    __shared__ uint32_t halves[256 / 32];
    const uint32_t warp = threadIdx.x / 32, mine = __ballot_sync(0xffffffffu, holds);
    if (threadIdx.x % 32 == 0)
        halves[warp] = mine;
    weft_shim_meet();
    const uint64_t both = halves[warp & ~1u] | (uint64_t)halves[warp | 1u] << 32;
    weft_shim_meet();
    return both;
}

WEFT_SHIM int weft_shim_shuffle(int value, int lane, int width)
{
    __shared__ int values[256];
    values[threadIdx.x] = value;
    weft_shim_meet();
    const int found = values[threadIdx.x / 64 * 64 + (unsigned)lane % (unsigned)width];
    weft_shim_meet();
    return found;
}
#else
WEFT_SHIM uint64_t weft_shim_ballot(bool holds)
{
    return __ballot_sync(0xffffffffu, holds);
}

WEFT_SHIM int weft_shim_shuffle(int value, int lane, int width)
{
    return __shfl_sync(0xffffffffu, value, lane, width);
}
#endif

WEFT_SHIM uint32_t weft_shim_add(uint32_t *at, uint32_t value)
{
    return atomicAdd(at, value);
}

WEFT_SHIM uint64_t weft_shim_add(uint64_t *at, uint64_t value)
{
    return atomicAdd((unsigned long long *)at, (unsigned long long)value);
}

WEFT_SHIM uint32_t weft_shim_or(uint32_t *at, uint32_t value)
{
    return atomicOr(at, value);
}

#define __ballot                                        weft_shim_ballot
#define __shfl                                          weft_shim_shuffle
#define __HIP_MEMORY_SCOPE_AGENT                        4
#define __hip_atomic_fetch_add(at, value, order, scope) weft_shim_add(at, value)
#define __hip_atomic_fetch_or(at, value, order, scope)  weft_shim_or(at, value)
#define __builtin_nontemporal_load(from)                __ldcs(from)

#endif
