/* emulation.h - kernels run on this process's memory: every thread of a block is a fiber (fibers.cpp) or, for the
 * thread checker, one of the system's threads (threads.cpp). Lanes meet at collectives and blocks at barriers, several
 * blocks are under way at once, and who goes next is drawn from a seed.
 *
 * What is found wrong: a collective that not all lanes of a warp reach, or that they reach at different places; a
 * barrier that not all threads of a block reach; threads that wait for each other; shared memory that is read before it
 * is written (it is filled with noise for each block). Errors of memory are the sanitizers' to find. */
#ifndef WEFT_TESTS_EMULATION_H
#define WEFT_TESTS_EMULATION_H

#include <stdint.h>

#include "backends/kernels/list.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_schedule {
    uint32_t lanes; /* 32 or 64 */
    uint64_t seed;
    uint32_t resident; /* blocks under way at once, 1 to 4; 0: as the seed has it */
} weft_schedule;

/* Runs a kernel to its end. NULL, or what went wrong, until this thread's next call. */
const char *weft_emulation_launch(const weft_schedule *schedule, enum weft_gpu_kernel kernel, uint32_t blocks,
                                  uint64_t argument);

typedef void (*weft_emulated)(uint64_t argument);

/* The same for any function written in the words of lanes.h for so many lanes. */
const char *weft_emulation_run(const weft_schedule *schedule, weft_emulated kernel, uint32_t blocks, uint64_t argument);

#ifdef __cplusplus
}
#endif

#endif
