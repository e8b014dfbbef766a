/* record.h - launches as the emulation runs them, written down with all memory before and after, so that machine code
 * can be run on the same and has to leave the same.
 *
 * A file is a row of launches. Each is the line
 *   launch KERNEL BLOCKS ARGUMENT ELEMENTS CASE REGIONS
 * then for each region of memory, with the pages that the host changed since the launch before, the line
 *   region NUMBER ADDRESS BYTES PAGES
 * and for each of them, in the same order and with the pages that the kernel changed, the line
 *   after PAGES
 * A page is its index as 4 bytes, little-endian, and 4096 bytes, or fewer at the end of its region. A region is zero at
 * first. Numbers are decimal. */
#ifndef WEFT_TESTS_ISA_RECORD_H
#define WEFT_TESTS_ISA_RECORD_H

#include "backends/gpu/gpu_driver.h"

/* Launches go to this file from now on (NULL: nowhere). Ends the process with a message when it cannot be written. */
void weft_record_to(const char *path);

/* Names the work that the next launches are part of, without blanks, and the elements of each launch. */
void weft_record_case(const char *name, uint64_t elements);

/* Memory that kernels may reach: zeroed, aligned to 256 bytes. give allows NULL. */
void *weft_record_take(uint64_t bytes);
void weft_record_give(void *memory);
bool weft_record_holds(uint64_t address, uint64_t bytes); /* whether all of it is such memory */

/* Runs a kernel in the emulation, 64 lanes wide. NULL, or what went wrong. */
const char *weft_record_launch(enum weft_gpu_kernel kernel, uint32_t blocks, uint64_t argument);

/* A driver over the functions above: work is done when it is asked for. */
extern const weft_gpu_driver weft_record_driver;

#endif
