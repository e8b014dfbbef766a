/* lanes_device.h - what the lane vocabularies of both vendors' devices have in common; kernels_cuda/lanes.h and
 * kernels_hip/lanes.h add the rest. */
#ifndef WEFT_BACKENDS_KERNELS_LANES_DEVICE_H
#define WEFT_BACKENDS_KERNELS_LANES_DEVICE_H

#define WEFT_BLOCK              256
#define WEFT_DEVICE             static inline __device__ __attribute__((always_inline))
#define WEFT_KERNEL(name)       extern "C" __global__ void WEFT_BOUNDS weft_kernel_##name
#define WEFT_SHARED(type, name) __shared__ type name

/* Before a loop over an array of a thread's own, which lies in registers only if every index is known when compiled. */
#define WEFT_UNROLL _Pragma("unroll")

typedef struct alignas(16) weft_quad {
    uint32_t x, y, z, w;
} weft_quad;

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

#endif
