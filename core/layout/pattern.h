/* pattern.h - the bytes that strides reach: whether they meet, without a list of them. */
#ifndef WEFT_CORE_PATTERN_H
#define WEFT_CORE_PATTERN_H

#include <stdbool.h>

#include "weft.h"

#define WEFT_PATTERN_PARTS 8u /* of a row index and a column index together */

/* Runs of `bytes` bytes. Each run begins at the address of another by a multiple of the strides. */
typedef struct weft_pattern {
    uintptr_t low;                        /* address of the first byte */
    uint64_t bytes;                       /* of each run */
    uint64_t span;                        /* bytes from the first to the last, both counted */
    uint32_t count;                       /* parts */
    weft_stride part[WEFT_PATTERN_PARTS]; /* strides fall, and each exceeds the span of the parts after it */
} weft_pattern;

typedef enum weft_pattern_fault {
    WEFT_PATTERN_SOUND,
    WEFT_PATTERN_ALIASES, /* a stride is smaller than the span of the strides below it */
    WEFT_PATTERN_ENDLESS  /* the bytes do not fit the address space */
} weft_pattern_fault;

/* Makes the pattern of elements of `width` bytes.
 *
 * parts  `count` of them, at most WEFT_PATTERN_PARTS, in any order; none has the extent 0
 * fault  the part that is at fault, or NULL */
weft_pattern_fault weft_pattern_make(const void *data, uint64_t width, const weft_stride *parts, uint32_t count,
                                     weft_pattern *pattern, weft_stride *fault);

/* Whether two patterns have a byte in common. */
bool weft_pattern_meets(const weft_pattern *a, const weft_pattern *b);

#endif
