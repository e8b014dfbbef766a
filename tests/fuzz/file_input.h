/* file_input.h - what a file of the corpus `file` holds: three bytes that choose the world, one of flags, then an
 * update file. */
#ifndef WEFT_TESTS_FUZZ_FILE_INPUT_H
#define WEFT_TESTS_FUZZ_FILE_INPUT_H

#include "tests/fuzz/world.h"

typedef struct fuzz_file_input {
    const fuzz_world *world;
    weft_piece pieces[FUZZ_TENSORS]; /* of the world's target, which holds the base's bits */
    uint8_t *bytes;                  /* of exactly `length`; the caller frees them */
    uint64_t length;
} fuzz_file_input;

/* False if there is nothing to try. */
bool fuzz_file_input_read(const uint8_t *data, size_t size, fuzz_file_input *input);

/* Opens the file, which ends with the input. */
weft_status fuzz_file_open(fuzz_file_input *input, weft_update_file **file);

#endif
