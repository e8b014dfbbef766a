/* ptx_launch.h - what C asks of the machine that runs PTX, and what that asks of the recorder. */
#ifndef WEFT_TESTS_ISA_PTX_LAUNCH_H
#define WEFT_TESTS_ISA_PTX_LAUNCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Launches leave a line each in this file from now on (NULL: nowhere): KERNEL CASE BLOCKS ELEMENTS INSTRUCTIONS, the
 * last of warps. Ends the process with a message when it cannot be written. */
void weft_ptx_counts_to(const char *path);

/* Takes the kernels of a library in place of those that are here. Ends the process with a message where it has none. */
void weft_ptx_take(const char *library);

/* Name of the case that is under way, and the elements that a launch of it is about. */
const char *weft_record_case_now(uint64_t *elements);

#ifdef __cplusplus
}
#endif

#endif
