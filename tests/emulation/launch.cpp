/* launch.cpp - kernels by their numbers. */
#include "tests/emulation/kernels.h"

const char *weft_emulation_launch(const weft_schedule *schedule, enum weft_gpu_kernel kernel, uint32_t blocks,
                                  uint64_t argument)
{
    const weft_emulated *table = schedule->lanes == 32 ? weft_emulated_32 : weft_emulated_64;
    return weft_emulation_run(schedule, table[kernel], blocks, argument);
}
