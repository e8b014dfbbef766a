/* golden_files.h - the files of tests/golden. WEFT_GOLDEN_WRITE=1 writes them anew, for a deliberate change of the
 * format alone. Whatever cannot be read or written fails the test. */
#ifndef WEFT_TESTS_GOLDEN_FILES_H
#define WEFT_TESTS_GOLDEN_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "codec/frame.h"

#define GOLDEN_MOST 4096u /* bytes of a file */

/* Frames of layout_frames.bin. */
typedef struct golden_good {
    const char *file;
    uint32_t unit;
    weft_level level;
    bool steps; /* level full: of steps, where an encoder has a smaller frame */
} golden_good;

typedef struct golden_bad {
    const char *file;
    const char *from; /* the good file it was made of */
    uint32_t at;      /* this byte .. */
    uint8_t byte;     /* .. is this one, */
    uint32_t cut;     /* and so many bytes are missing at the end */
    weft_status status;
    const char *words; /* that the refusal says */
} golden_bad;

extern const golden_good golden_good_rows[];
extern const size_t golden_good_count;
extern const golden_bad golden_bad_rows[];
extern const size_t golden_bad_count;

bool golden_writing(void);

uint64_t golden_read(const char *name, uint8_t bytes[GOLDEN_MOST]);
void golden_write(const char *name, const void *bytes, uint64_t count);

/* Holds a file to the bytes that a test makes. */
void golden_is(const char *name, const void *bytes, uint64_t count);

#endif
