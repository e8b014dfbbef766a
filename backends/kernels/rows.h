/* rows.h - what the host tells a kernel: its argument is the device address of rows, an array of which each block takes
 * one. Plain C for host and device; the host fills them in memory that the device reads.
 *
 * Addresses are the device's, as uint64_t; elements are of `width` 1, 2, 4 or 8 bytes and aligned to that, no more. */
#ifndef WEFT_BACKENDS_KERNELS_ROWS_H
#define WEFT_BACKENDS_KERNELS_ROWS_H

#include <stdint.h>

/* digest: one block a row sums the terms of elements that lie consecutively in one tensor. */
#define WEFT_K_DIGEST_ELEMENTS (1u << 15) /* as many as are worth a block */

typedef struct weft_k_digest {
    uint64_t data;    /* the first element */
    uint64_t element; /* its index in the tensor */
    uint64_t sum;     /* the u64 word to which they are added */
    uint32_t count;
    uint32_t width;
} weft_k_digest;

#endif
