/* cases.h - writes cases for the independent decoder (check.py) to standard output.
 *
 * A case is a row of parts, each a name of 8 bytes, a u64 length and the bytes; a part "case", which names its kind,
 * begins one. Images are the dense bytes of a layout in its order, words the update's parameters.
 *   fresh   layout, words, base, target, frames, before and after: digests of the tensors as u64, then the root
 *   judged  layout, words, base, frame, status and, if that is "ok", target
 *   file    layout, hash of it, base, file, status and, if that is "ok", target; shape: status of the layout in the
 * file grid    layout, units: each u64 first tensor, u64 first element in it, u32 elements, u32 bytes of a word */
#ifndef WEFT_TESTS_INDEPENDENT_CASES_H
#define WEFT_TESTS_INDEPENDENT_CASES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "codec/classes.h"
#include "layout/layout.h"

static inline void case_part(const char *name, const void *data, uint64_t length)
{
    char head[16] = {0};
    memcpy(head, name, strlen(name));
    weft_bytes_put((uint8_t *)head + 8, length, 8);
    if (fwrite(head, 1, sizeof(head), stdout) != sizeof(head) || fwrite(data, 1, length, stdout) != length)
        abort();
}

static inline void case_layout(const weft_layout *layout)
{
    uint64_t length = weft_layout_wire_bytes(layout);
    uint8_t *bytes = malloc(length);
    if (!bytes)
        abort();
    weft_layout_write(layout, bytes);
    case_part("layout", bytes, length);
    free(bytes);
}

static inline void case_words(const weft_parameters *parameters)
{
    uint16_t words[WEFT_PARAMETER_WORDS_MAX];
    case_part("words", words, parameters ? 2 * (uint64_t)weft_parameters_write(parameters, words) : 0);
}

static inline void case_begin(const char *kind)
{
    case_part("case", kind, strlen(kind));
}

#endif
