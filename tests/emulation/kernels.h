/* kernels.h - the kernels as compiled for each number of lanes. */
#ifndef WEFT_TESTS_EMULATION_KERNELS_H
#define WEFT_TESTS_EMULATION_KERNELS_H

#include "tests/emulation/emulation.h"

extern const weft_emulated weft_emulated_32[], weft_emulated_64[];

#endif
