/* slices.h - slice files: the share of one process as a safetensors file, and the whole model of all shares' files.
 *
 * A slice file has one tensor for each portion that is not empty, by the tensor's own name. Its shape is the tensor's,
 * with the cut dimension as long as the portion; a range of elements is a vector. */
#ifndef WEFT_MODEL_SLICES_H
#define WEFT_MODEL_SLICES_H

#include "safetensors.h"
#include "shard/share.h"

/* Makes the layout of a share's slice file. Errors: those of weft_layout_create. */
weft_status weft_slices_layout(const weft_share *share, weft_layout **layout);

/* Writes the header that a share's slice file has. The caller gives it back with weft_mem_give. Errors: those of
 * weft_layout_create. */
weft_status weft_slices_header(const weft_share *share, uint8_t **header, uint64_t *bytes);

/* Names the memory of a slice file's tensors as blocks of the whole model's, one for each slice of the share.
 *
 * pieces  one piece for each tensor of the slice file, in the layout's order, and each with all of its tensor
 * blocks  receives as many blocks as the share has slices */
void weft_slices_blocks(const weft_share *share, const weft_piece *pieces, weft_block *blocks);

/* Writes the slice file of a share of `model`: whole, or not at all. *bytes receives the bytes of its tensors. Errors:
 * WEFT_E_FILE, WEFT_E_LAYOUT, WEFT_E_MEMORY. */
weft_status weft_slices_save(const weft_model *model, const weft_share *share, const char *path, uint64_t *bytes);

/* One share and its slice file, for joining. */
typedef struct weft_slices_part {
    const char *path; /* path of the slice file, for messages */
    const weft_model *model;
    const weft_share *share;
    uint64_t next; /* number of tensors of the file that were gathered; 0 at first */
} weft_slices_part;

/* Checks that a slice file has what its share says. Errors: WEFT_E_LAYOUT, with file and tensor. */
weft_status weft_slices_check(const weft_slices_part *part);

/* Proves that the shares contribute every element once. Errors: WEFT_E_LAYOUT (the text names tensor, box and shares by
 * number), WEFT_E_MEMORY. */
weft_status weft_slices_cover(const weft_layout *layout, const weft_slices_part *parts, uint32_t count);

/* Brings one tensor of the whole model together: every tensor once, in the layout's order. Replicas must have the bits
 * of what is contributed.
 *
 * parts  checked parts, `count` of them, which cover the layout
 * data   receives the tensor's bytes
 * room   as many bytes, for the function's own use
 * Errors: WEFT_E_LAYOUT (a replica differs: the text names tensor and file), WEFT_E_FILE (a file was cut short). */
weft_status weft_slices_gather(const weft_layout *layout, uint64_t tensor, weft_slices_part *parts, uint32_t count,
                               uint8_t *data, uint8_t *room);

#endif
