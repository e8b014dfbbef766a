/* lanes.h - the lane vocabulary on the host: see kernels_cuda/lanes.h and kernels_hip/lanes.h. Masks, lane counts and
 * what is uniform are the engine's to watch. */
#ifndef WEFT_TESTS_EMULATION_LANES_H
#define WEFT_TESTS_EMULATION_LANES_H

#include <cstdint>

#include "tests/emulation/engine.h"

#if !defined(WEFT_LANES) || (WEFT_LANES != 32 && WEFT_LANES != 64)
#error "pass -DWEFT_LANES=32 or 64"
#endif

#define WEFT_BLOCK        256
#define WEFT_DEVICE       static inline
#define WEFT_KERNEL(name) static void weft_kernel_##name
#define WEFT_HERE(word)                                                                                                \
    weft_engine::place                                                                                                 \
    {                                                                                                                  \
        __builtin_FILE(), __builtin_LINE(), word                                                                       \
    }
#define WEFT_SHARED(type, name)                                                                                        \
    type &name = *static_cast<type *>(weft_engine::shared({__FILE__, __LINE__, #name}, sizeof(type)))
#define WEFT_UNROLL
#define WEFT_AT(type, address) (reinterpret_cast<type *>(static_cast<uintptr_t>(address)))

struct alignas(16) weft_quad {
    uint32_t x, y, z, w;
};

WEFT_DEVICE uint32_t weft_thread()
{
    return weft_engine::current().thread;
}

WEFT_DEVICE uint32_t weft_block()
{
    return weft_engine::current().block;
}

WEFT_DEVICE uint32_t weft_blocks()
{
    return weft_engine::current().blocks;
}

WEFT_DEVICE uint32_t weft_lane()
{
    return weft_thread() % WEFT_LANES;
}

WEFT_DEVICE void weft_barrier(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    weft_engine::barrier({file, line, "barrier"});
}

WEFT_DEVICE uint64_t weft_ballot(bool holds, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return weft_engine::ballot({file, line, "ballot"}, holds);
}

WEFT_DEVICE uint32_t weft_shuffle(uint32_t value, uint32_t lane, const char *file = __builtin_FILE(),
                                  int line = __builtin_LINE())
{
    return weft_engine::shuffle({file, line, "shuffle"}, value, lane % WEFT_LANES);
}

WEFT_DEVICE uint32_t weft_ones(uint64_t mask)
{
    return static_cast<uint32_t>(__builtin_popcountll(mask));
}

WEFT_DEVICE uint32_t weft_lowest(uint64_t mask)
{
    return static_cast<uint32_t>(__builtin_ctzll(mask));
}

WEFT_DEVICE uint32_t weft_highest(uint64_t mask)
{
    return 63u - static_cast<uint32_t>(__builtin_clzll(mask));
}

WEFT_DEVICE weft_quad weft_load_stream(const weft_quad *from)
{
    return *from;
}

WEFT_DEVICE uint32_t weft_add32(uint32_t *at, uint32_t value)
{
    weft_engine::step();
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

WEFT_DEVICE uint64_t weft_add64(uint64_t *at, uint64_t value)
{
    weft_engine::step();
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

WEFT_DEVICE uint32_t weft_or32(uint32_t *at, uint32_t value)
{
    weft_engine::step();
    return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}

#endif
