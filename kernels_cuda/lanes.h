/* lanes.h - the lane vocabulary in CUDA, for nvcc and, with -DWEFT_FREESTANDING, for a clang without the toolkit. */
#ifndef WEFT_KERNELS_CUDA_LANES_H
#define WEFT_KERNELS_CUDA_LANES_H

#include <stdint.h>

#ifdef WEFT_FREESTANDING
#include "kernels_cuda/freestanding.h"
#endif

#define WEFT_LANES 32

/* One block a multiprocessor is enough: without a number ptxas takes six for the aim, and spills a register or two. */
#define WEFT_BOUNDS __launch_bounds__(WEFT_BLOCK, 1)

#include "backends/kernels/lanes_device.h"

/* The type *at a device address of a row; the compiler learns that it is device memory and no other kind. */
#ifdef WEFT_FREESTANDING
#define WEFT_AT(type, address) ((type *)(__attribute__((address_space(1))) type *)(uint64_t)(address))
#else
/* The empty assembly keeps addresses apart: over conversions of one address in several branches nvcc 13 never ends, and
 * an assumption in place of the conversion leaves most loads generic. */
template <typename type> static inline __device__ __attribute__((always_inline)) type *weft_global(uint64_t address)
{
    asm("" : "+l"(address));
    return (type *)__cvta_global_to_generic((size_t)address);
}
#define WEFT_AT(type, address) weft_global<type>(address)
#endif

WEFT_DEVICE uint64_t weft_ballot(bool holds)
{
    return __ballot_sync(0xffffffffu, holds);
}

WEFT_DEVICE uint32_t weft_shuffle(uint32_t value, uint32_t lane)
{
    return __shfl_sync(0xffffffffu, value, (int)lane);
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
