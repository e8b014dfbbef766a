/* stand_in.h - in place of kernels: writes the numbers that the host reads, as if 1 % of bf16 weights changed. Nor is
 * there memory for weights, which only kernels would touch. The bytes of frames are the other tests' matter. */
#ifndef WEFT_TESTS_FAKE_STAND_IN_H
#define WEFT_TESTS_FAKE_STAND_IN_H

#include "encode/encode.h"
#include "tests/fake_gpu/world.h"

enum { UNIT_ELEMENTS = 1 << 18, UNIT_CHANGED = 2621, UNIT_EXCEPTIONS = 210, CLASSES = 12 };

/* Counts of each frame of the last launches. */
typedef struct stand_in_frames {
    uint32_t units, changed, exceptions;
} stand_in_frames;
extern stand_in_frames each;

/* Runs as long as an update of the model has, and at level tight as many classes as models have. */
void stand_in_parameters(const weft_layout *layout, weft_level level, weft_parameters *parameters);
/* A model of which the device knows addresses alone. */
typedef struct stand_in_model {
    const weft_backend *backend;
    weft_backend_state *device;
    weft_layout *layout; /* its own */
    weft_binding now, shadow;
    uint64_t *delta; /* one word per part */
    weft_parameters parameters;
} stand_in_model;

/* Begins a driver whose launches are all `kernels`, with memory that can be touched and no device current. */
void stand_in_begin(world_vendor *vendor, void (*kernels)(uint32_t, uint32_t, uint64_t));
/* Opens the device; the shadow lies at an address, and the caller binds `now`. */
void stand_in_open(stand_in_model *m, const weft_backend *backend, weft_layout *layout, uint64_t shadow);
void stand_in_close(stand_in_model *m);
/* A pass over the model; each frame goes to `emit`. */
weft_encode_pass stand_in_pass(stand_in_model *m, weft_level level, weft_frame_emit emit, void *user);

/* weft_fake_options.stand_in. */
void stand_in(uint32_t kernel, uint32_t blocks, uint64_t rows);

#endif
