/* fuzz.h - what every fuzz target has: libFuzzer's entry, and what to do when something does not hold. */
#ifndef WEFT_TESTS_FUZZ_H
#define WEFT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft.h"

/* One input; aborts, or the sanitizers do, if it finds a fault. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_MUST(condition)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fuzz_fail(__FILE__, __LINE__, #condition);                                                                 \
    } while (0)

_Noreturn static inline void fuzz_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\nlast error: %s\n", file, line, condition, weft_last_error());
    abort();
}

/* Bytes in memory of exactly their size, so that a step beyond is seen. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    return copy;
}

#endif
