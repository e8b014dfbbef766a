/* model.h - what the files of safetensors_*.c and synth.c share; users include safetensors.h. */
#ifndef WEFT_MODEL_MODEL_H
#define WEFT_MODEL_MODEL_H

#include <stdbool.h>
#include <time.h>

#include "safetensors.h"

#define WEFT_MODEL_HEADER_MAX UINT64_C(100000000) /* JSON bytes: the format's own limit */
#define WEFT_MODEL_PREFIX     8u                  /* u64 length before the JSON */

struct weft_model {
    weft_layout *layout;
    weft_piece *pieces; /* one per tensor */
    uint8_t *header;    /* prefix and JSON, owned; NULL: none yet */
    uint64_t header_bytes;
    uint8_t *memory; /* the mapped file, header and all, or weft_mem_map's */
    uint64_t memory_bytes;
    bool writable;
    int file; /* the mapped file, kept to see whether it changes; -1: not mapped from a file */
    uint64_t file_bytes;
    struct timespec modified; /* of the file when opened */
};

/* Reads a raw header of `bytes` bytes and checks all that can be checked without the data: the JSON, the tensors, and
 * that their offsets lie one behind the other from 0 on without overlap or gap, aligned.
 *
 * layout      receives the tensors in order of their data; the caller frees it
 * data_bytes  receives where the last tensor ends
 * Errors: WEFT_E_LAYOUT, WEFT_E_MEMORY. */
weft_status weft_model_header_read(const uint8_t *header, uint64_t bytes, weft_layout **layout, uint64_t *data_bytes);

/* Makes the raw header of a layout as the format's own writer would: compact JSON padded with spaces to 8 bytes.
 * *header comes from weft_mem_take. Errors: WEFT_E_LAYOUT (a name that is no UTF-8), WEFT_E_MEMORY. */
weft_status weft_model_header_make(const weft_layout *layout, uint8_t **header, uint64_t *bytes);

#endif
