/* freestanding.h - those words of CUDA that lanes.h uses, by the compiler's builtins: clang with the NVPTX target needs
 * no toolkit. */
#ifndef WEFT_KERNELS_CUDA_FREESTANDING_H
#define WEFT_KERNELS_CUDA_FREESTANDING_H

#include <stddef.h>
#include <stdint.h>

#define __global__             __attribute__((global))
#define __device__             __attribute__((device))
#define __shared__             __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define WEFT_INLINE            static inline __device__ __attribute__((always_inline))

struct weft_index {
    uint32_t x;
};
#define threadIdx (weft_index{(uint32_t)__nvvm_read_ptx_sreg_tid_x()})
#define blockIdx  (weft_index{(uint32_t)__nvvm_read_ptx_sreg_ctaid_x()})
#define gridDim   (weft_index{(uint32_t)__nvvm_read_ptx_sreg_nctaid_x()})

WEFT_INLINE uint32_t __ballot_sync(uint32_t lanes, bool holds)
{
    return __nvvm_vote_ballot_sync(lanes, holds);
}

WEFT_INLINE uint32_t __shfl_sync(uint32_t lanes, uint32_t value, int lane)
{
    return (uint32_t)__nvvm_shfl_sync_idx_i32(lanes, (int)value, lane, 31);
}

WEFT_INLINE int __popcll(uint64_t mask)
{
    return __builtin_popcountll(mask);
}

WEFT_INLINE int __ffsll(long long mask)
{
    return __builtin_ffsll(mask);
}

WEFT_INLINE int __clzll(long long mask)
{
    return __builtin_clzll((unsigned long long)mask);
}

WEFT_INLINE size_t __cvta_generic_to_global(const void *pointer)
{
    return (size_t)(__attribute__((address_space(1))) const void *)pointer;
}

template <typename word> WEFT_INLINE word atomicAdd(word *at, word value)
{
    return __scoped_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}

template <typename word> WEFT_INLINE word atomicOr(word *at, word value)
{
    return __scoped_atomic_fetch_or(at, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}

#endif
