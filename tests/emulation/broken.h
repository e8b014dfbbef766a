/* broken.h - the kernels of broken.cpp, as compiled for each number of lanes. */
#ifndef WEFT_TESTS_EMULATION_BROKEN_H
#define WEFT_TESTS_EMULATION_BROKEN_H

#include "tests/emulation/emulation.h"

#ifdef __cplusplus
extern "C" {
#endif

enum weft_broken {
    WEFT_BROKEN_SOUND, /* u64 out[blocks][256][3] */
    WEFT_BROKEN_ADD,   /* u64 *sum */
    WEFT_BROKEN_BALLOT_IN_BRANCH,
    WEFT_BROKEN_BALLOTS_IN_BRANCHES,
    WEFT_BROKEN_BARRIER_IN_BRANCH,
    WEFT_BROKEN_BARRIERS_IN_BRANCHES,
    WEFT_BROKEN_BARRIER_FOR_BALLOT,
    WEFT_BROKEN_BARRIER_MISSING /* u32 out[blocks][256] */
};

extern const weft_emulated weft_broken_32[], weft_broken_64[];

#ifdef __cplusplus
}
#endif

#endif
