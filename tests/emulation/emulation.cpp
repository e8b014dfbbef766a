/* emulation.cpp - every kernel for the host; compiled once for each number of lanes. */
#include "tests/emulation/kernels.h"
#include "tests/emulation/lanes.h"

#include "backends/kernels/all.h"

namespace
{

template <class row, void (*kernel)(const row *)> void call(uint64_t argument)
{
    kernel(reinterpret_cast<const row *>(static_cast<uintptr_t>(argument)));
}

} // namespace

#if WEFT_LANES == 32
#define TABLE weft_emulated_32
#else
#define TABLE weft_emulated_64
#endif

const weft_emulated TABLE[] = {
#define CALL(name) call<weft_k_##name, weft_kernel_##name>,
    WEFT_KERNELS(CALL)
#undef CALL
};
