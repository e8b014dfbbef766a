/* freestanding.h - those words of HIP that lanes.h uses, by the compiler's builtins: clang with the AMDGPU target needs
 * neither ROCm's headers nor its device libraries. Collectives are of the full wave. */
#ifndef WEFT_KERNELS_HIP_FREESTANDING_H
#define WEFT_KERNELS_HIP_FREESTANDING_H

#include <stdint.h>

#define __global__              __attribute__((global))
#define __device__              __attribute__((device))
#define __shared__              __attribute__((shared))
#define __launch_bounds__(size) __attribute__((amdgpu_flat_work_group_size(size, size)))

struct weft_index {
    uint32_t x;
};
#define threadIdx (weft_index{(uint32_t)__builtin_amdgcn_workitem_id_x()})
#define blockIdx  (weft_index{(uint32_t)__builtin_amdgcn_workgroup_id_x()})
/* The first of the hidden arguments of code object 5 is the number of blocks. */
#define gridDim                                                                                                        \
    (weft_index{((__attribute__((address_space(4))) const uint32_t *)__builtin_amdgcn_implicitarg_ptr())[0]})

static inline __device__ __attribute__((always_inline)) void __syncthreads(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

static inline __device__ __attribute__((always_inline)) uint64_t __ballot(bool holds)
{
#if WEFT_LANES == 64
    return __builtin_amdgcn_ballot_w64(holds);
#else
    return __builtin_amdgcn_ballot_w32(holds);
#endif
}

static inline __device__ __attribute__((always_inline)) int __shfl(int value, int lane, int width)
{
    return __builtin_amdgcn_ds_bpermute((lane & (width - 1)) << 2, value);
}

static inline __device__ __attribute__((always_inline)) int __popcll(uint64_t mask)
{
    return __builtin_popcountll(mask);
}

static inline __device__ __attribute__((always_inline)) int __ffsll(uint64_t mask)
{
    return __builtin_ffsll((long long)mask);
}

static inline __device__ __attribute__((always_inline)) int __clzll(long long mask)
{
    return __builtin_clzll((unsigned long long)mask);
}

#endif
