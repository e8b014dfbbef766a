/* decode_batch.h - frames of a batch at both ends, for an executable linked with --wrap=weft_gpu_sheet_take: the
 * kernels' scratch lies in blocks of its own, so that a step beyond one is seen. */
#ifndef WEFT_TESTS_DECODE_BATCH_H
#define WEFT_TESTS_DECODE_BATCH_H

#include "tests/emulation/decode_world.h"
#include "tests/emulation/scratch_guard.h"

static inline void batch_run(decode_world *w, decode_case *cases, uint32_t count, uint32_t lanes, uint64_t seed)
{
    weft_emulation_driver_set(lanes, seed);
    cases_decode(w, cases, count);
    for (uint32_t i = 0; i < count; i++)
        case_agrees(w, &cases[i]);
    scratch_guard_free();
}

static inline void batch_close(decode_case *cases, uint32_t *count)
{
    for (uint32_t i = 0; i < *count; i++)
        case_close(&cases[i]);
    *count = 0;
}

#endif
