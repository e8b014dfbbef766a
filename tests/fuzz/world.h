/* world.h - small layouts with their bits, and the only calls that the fuzz targets make to a backend.
 *
 * A world is one dtype, a few tensors and a pattern of base bits; it is made when an input first asks for it and stays.
 * Between two inputs its target equals its base. */
#ifndef WEFT_TESTS_FUZZ_WORLD_H
#define WEFT_TESTS_FUZZ_WORLD_H

#include "codec/classes.h"
#include "codec/frame.h"
#include "port/port_backend.h"

#define FUZZ_TENSORS 3
#define FUZZ_PARTS   4 /* words of a digest */
#define FUZZ_CHOICES 3 /* bytes that choose a world: dtype, shape, pattern of bits and parameters */

/* The shape of a tile and an element; the next one is a tile of words of 8 bytes, an element and five more. Both take
 * long: only dtypes chosen by FUZZ_LARGE_DTYPE + number - 1 have them, so that few inputs do. */
#define FUZZ_LARGE       0x91u
#define FUZZ_LARGE_DTYPE 220u

typedef struct fuzz_world {
    weft_layout *layout;
    uint8_t *base; /* images */
    uint8_t *target;
    weft_binding base_binding, target_binding;
    const weft_parameters *parameters; /* as the input chose them; NULL: the default ones */
} fuzz_world;

/* Result of a kernel set for a frame. */
typedef struct fuzz_decoded {
    weft_status status;
    weft_view view;       /* of the base, what the frame covers */
    weft_view target;     /* the same of the target */
    weft_changes changes; /* arrays of exactly the size that the frame asks for */
    uint64_t delta[FUZZ_PARTS];
} fuzz_decoded;

/* A frame that a kernel set made. */
typedef struct fuzz_encoded {
    uint8_t *bytes;
    uint64_t length; /* 0: nothing changed, or alone */
    bool alone;      /* the run cannot be coded in one frame */
    uint32_t changed;
    uint64_t delta[FUZZ_PARTS];
} fuzz_encoded;

/* Kernel sets that can run here, numbered from 0; 0 is the judge. */
unsigned fuzz_sets(void);

fuzz_world *fuzz_world_of(const uint8_t choices[FUZZ_CHOICES]);

/* File of the corpus `frame`: three bytes that choose the world, one of flags, then the frame. */
typedef struct fuzz_frame_input {
    fuzz_world *world;
    uint8_t *bytes; /* of exactly `length`; the caller frees them */
    uint64_t length;
} fuzz_frame_input;

/* False if there is nothing to try. */
bool fuzz_frame_input_read(const uint8_t *data, size_t size, fuzz_frame_input *input);

fuzz_decoded fuzz_decode(const fuzz_world *world, unsigned set, const weft_frame *frame);
void fuzz_decoded_free(fuzz_decoded *decoded);
/* Stops unless both came to the same end. */
void fuzz_decoded_same(const fuzz_decoded *a, const fuzz_decoded *b);
/* Stops unless the changes rise, stay inside, start from the base, change something and move the digests by `delta`. */
void fuzz_decoded_hold(const fuzz_decoded *decoded);

/* Target against base, of `units` units. */
fuzz_encoded fuzz_encode(const fuzz_world *world, unsigned set, uint64_t unit, uint32_t units, weft_level level);
void fuzz_encoded_free(fuzz_encoded *encoded);

/* Chooses the world's parameters from a sample of what its target changes. */
void fuzz_survey(fuzz_world *world);

/* Adds the digests of all parts of an image. */
void fuzz_digest(const fuzz_world *world, const weft_binding *binding, uint64_t digests[FUZZ_PARTS]);

uint64_t fuzz_root(const fuzz_world *world, const weft_binding *binding);

/* Puts changes on the target; false if an element was not `before`. Undo takes them back. */
bool fuzz_apply(unsigned set, fuzz_decoded *decoded);
void fuzz_undo(unsigned set, const fuzz_decoded *decoded);

#endif
