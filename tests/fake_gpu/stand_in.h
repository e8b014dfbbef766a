/* stand_in.h - in place of kernels: writes the numbers that the host reads, as if 1 % of bf16 weights changed. Nor is
 * there memory for weights, which only kernels would touch. The bytes of frames are the other tests' matter. */
#ifndef WEFT_TESTS_FAKE_STAND_IN_H
#define WEFT_TESTS_FAKE_STAND_IN_H

#include "codec/classes.h"
#include "codec/frame.h"
#include "layout/layout.h"

enum { UNIT_ELEMENTS = 1 << 18, UNIT_CHANGED = 2621, UNIT_EXCEPTIONS = 210, CLASSES = 12 };

/* What each frame of the last launches codes. */
typedef struct stand_in_frames {
    uint32_t units, changed, exceptions;
} stand_in_frames;
extern stand_in_frames each;

/* Runs as long as an update of the model has, and at level tight as many classes as models have. */
void stand_in_parameters(const weft_layout *layout, weft_level level, weft_parameters *parameters);
/* weft_fake_options.stand_in. */
void stand_in(uint32_t kernel, uint32_t blocks, uint64_t rows);

#endif
