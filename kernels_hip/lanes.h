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

#define WEFT_BOUNDS __launch_bounds__(WEFT_BLOCK)

#include "backends/kernels/lanes_device.h"

/* The type *at a device address of a row; the compiler learns that it is device memory and no other kind. */
#if defined(__AMDGCN__)
#define WEFT_AT(type, address) ((type *)(__attribute__((address_space(1))) type *)(uint64_t)(address))
#else
#define WEFT_AT(type, address) ((type *)(uint64_t)(address))
#endif

WEFT_DEVICE uint64_t weft_ballot(bool holds)
{
    return __ballot(holds);
}

WEFT_DEVICE uint32_t weft_shuffle(uint32_t value, uint32_t lane)
{
    return (uint32_t)__shfl((int)value, (int)lane, WEFT_LANES);
}

#if defined(__GFX9__)
/* What block.h would make of shuffles, by operands that come from other lanes: a quarter of the instructions. */
#define WEFT_OWN_PREFIX

#define WEFT_FROM_LANE(value, control, rows)                                                                           \
    ((uint32_t)__builtin_amdgcn_update_dpp(0, (int)(value), control, rows, 0xf, true))

/* Rows of 16 lanes: those 1, 2, 4 and 8 below, then the last of the row before, in every other row. */
WEFT_DEVICE uint32_t weft_prefix_32(uint32_t value)
{
    value += WEFT_FROM_LANE(value, 0x111, 0xf);
    value += WEFT_FROM_LANE(value, 0x112, 0xf);
    value += WEFT_FROM_LANE(value, 0x114, 0xf);
    value += WEFT_FROM_LANE(value, 0x118, 0xf);
    return value + WEFT_FROM_LANE(value, 0x142, 0xa);
}

WEFT_DEVICE uint32_t weft_warp_prefix(uint32_t value)
{
    value = weft_prefix_32(value);
    return value + WEFT_FROM_LANE(value, 0x143, 0xc);
}
#endif

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
