/* cases.h - what is recorded, kernel by kernel; `full` is the long tier. The process ends when a kernel fails in
 * the emulation. */
#ifndef WEFT_TESTS_ISA_CASES_H
#define WEFT_TESTS_ISA_CASES_H

#include "tests/isa/record.h"

void weft_cases(int full); /* all of them */
void weft_cases_digest(int full);
void weft_cases_boxes(int full);
void weft_cases_codec(int full);

/* weft_record_launch, with a message and the end of the process where it fails. */
void weft_cases_launch(enum weft_gpu_kernel kernel, uint32_t blocks, const void *rows);

/* The next number of a fixed row. */
uint64_t weft_cases_draw(void);

#endif
