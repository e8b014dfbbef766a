/* ptx_machine.h - what PTX that was turned into C++ (ptx_compile.py) runs on: lanes of tests/emulation, 32 to a warp,
 * and memory that watches them.
 *
 * An access ends the process with a message where its address is not aligned to all that it moves, or lies beyond the
 * block's shared memory or beyond the memory that the driver gave (record.h), or where another block of the launch
 * touched a byte of it in a way that does not agree with it: blocks may only read the same, or change the same by
 * atomics. */
#ifndef WEFT_TESTS_ISA_PTX_MACHINE_H
#define WEFT_TESTS_ISA_PTX_MACHINE_H

#include <cstdint>
#include <vector>

#include "tests/emulation/emulation.h"
#include "tests/emulation/engine.h"

namespace weft_ptx
{

[[noreturn]] void fail(const char *kernel, const char *what, uint64_t value, int line);

/* ---- memory */

enum access { READ, STORE, ATOMIC };

/* Watches an access to device memory. */
void touch(const char *kernel, uint32_t block, access kind, uint64_t address, uint32_t bytes, int line);

struct global_space {
    const char *kernel;
    uint32_t block;
    template <typename word, unsigned count, access kind> word *at(uint64_t address, int line) const
    {
        if (address % (sizeof(word) * count) != 0)
            fail(kernel, "an address that is not aligned", address, line);
        touch(kernel, block, kind, address, sizeof(word) * count, line);
        return reinterpret_cast<word *>(static_cast<uintptr_t>(address));
    }
};

struct shared_space {
    static constexpr uint64_t FIRST = 0x1000; /* address of its first byte: see ptx_words.py */
    const char *kernel;
    unsigned char *memory;
    uint64_t bytes;
    template <typename word, unsigned count, access kind> word *at(uint64_t address, int line) const
    {
        if (address % (sizeof(word) * count) != 0)
            fail(kernel, "an address that is not aligned", address, line);
        if (address < FIRST || address - FIRST > bytes || bytes - (address - FIRST) < sizeof(word) * count)
            fail(kernel, "an address beyond shared memory", address, line);
        return reinterpret_cast<word *>(memory + (address - FIRST));
    }
};

/* ---- kernels */

/* A kernel and how often its basic blocks ran: each as often as the lane of a warp did that ran it most, which is what
 * a warp issues whose lanes meet again behind every branch. */
struct kernel {
    const char *name;
    weft_emulated run;
    const uint32_t *sizes;                    /* of basic blocks, in instructions */
    uint32_t blocks;                          /* basic ones */
    std::vector<std::vector<uint32_t>> warps; /* of this launch, by number */

    kernel(const char *kernel_name, weft_emulated kernel_run, const uint32_t *kernel_sizes, uint32_t count);
    void end(const weft_engine::self &self, const uint32_t *ran); /* of a lane */
    uint64_t issued();                                            /* instructions of warps since it was last asked */
};

extern kernel *kernels[]; /* WEFT_GPU_KERNELS of them */
extern const char *const image;

/* ---- words of PTX that are none of C++ */

template <typename word> constexpr uint32_t width_of = 8 * sizeof(word);

template <typename word> static inline word least(word a, word b)
{
    return a < b ? a : b;
}

template <typename word> static inline word most(word a, word b)
{
    return a > b ? a : b;
}

template <typename word> static inline uint64_t absolute(word a)
{
    return a < 0 ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
}

template <typename word> static inline uint32_t ones(word a)
{
    return static_cast<uint32_t>(__builtin_popcountll(a));
}

template <typename word> static inline uint32_t zeros_above(word a)
{
    return a ? static_cast<uint32_t>(__builtin_clzll(a)) - (64 - width_of<word>) : width_of<word>;
}

/* A shift by as many bits as a word has, or more, leaves nothing but the sign. */
template <typename word> static inline word left(word a, word by)
{
    return static_cast<uint32_t>(by) < width_of<word> ? static_cast<word>(a << static_cast<uint32_t>(by)) : 0;
}

template <typename word> static inline word right(word a, word by)
{
    const uint32_t shift = static_cast<uint32_t>(by);
    return static_cast<word>(shift < width_of<word> ? a >> shift : a < 0 ? -1 : 0);
}

/* Bits from `from` on, the last of them in all places above where the word has a sign. */
template <typename word> static inline word bits_of(word a, word from, word count)
{
    const uint32_t first = from & 255, some = count & 255, last = width_of<word> - 1;
    const uint32_t top = some == 0 ? 0 : least(first + some - 1, last);
    if (some == 0)
        return 0;
    const word sign = a < 0 && top == last ? -1 : static_cast<word>(a >> top & 1);
    const bool negative = static_cast<word>(-1) < 0 && sign != 0;
    uint64_t bits = first > last ? 0 : static_cast<uint64_t>(right<word>(a, static_cast<word>(first)));
    const uint32_t have = top >= first ? top - first + 1 : 0;
    if (have < 64)
        bits &= (UINT64_C(1) << have) - 1;
    return static_cast<word>(negative && have < 64 ? bits | ~UINT64_C(0) << have : bits);
}

template <typename word> static inline word bits_in(word a, word b, word from, word count)
{
    const uint32_t first = from & 255, some = count & 255;
    if (first >= width_of<word> || some == 0)
        return b;
    const uint64_t mask = (some < 64 ? (UINT64_C(1) << some) - 1 : ~UINT64_C(0)) << first;
    return static_cast<word>((b & ~mask) | (static_cast<uint64_t>(a) << first & mask));
}

template <typename word> static inline word bytes_of(word a, word b, word which)
{
    const uint64_t from = a | static_cast<uint64_t>(b) << 32;
    uint32_t made = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t choice = which >> (4 * i) & 15, byte = static_cast<uint32_t>(from >> (choice & 7) * 8 & 255);
        made |= (choice < 8 ? byte : byte & 128 ? 255 : 0) << 8 * i;
    }
    return made;
}

} // namespace weft_ptx

#endif
