/* block_world.h - a layout cut into boxes at random, each stored in another way, in memory where every byte that is no
 * weight is a canary. Addresses come of the blocks' own formula, and of no code that is tested. */
#ifndef WEFT_TESTS_BLOCK_WORLD_H
#define WEFT_TESTS_BLOCK_WORLD_H

#include "layout/layout.h"

#define BLOCK_MOST 160

typedef struct block_world {
    const weft_layout *layout; /* borrowed */
    weft_block blocks[BLOCK_MOST];
    uint64_t count;
    uint64_t *offsets; /* by tensor: where it begins in the dense bytes */
    uint8_t *memory;
    uint8_t *owned; /* 1: the byte is one of a weight's */
    uint64_t bytes;
} block_world;

/* Bytes of one column step, and column steps of `elements` elements: a packed dtype steps by bytes. */
uint64_t block_width(const weft_dtype_row *row);
uint64_t block_steps(const weft_dtype_row *row, uint64_t elements);
/* Address of row and column step of a block, both counted from its first. */
uint8_t *block_at(const weft_dtype_row *row, const weft_block *block, uint64_t r, uint64_t c);

/* Cuts and places a layout. Dense bytes are an image (weft_layout_entry.offset), or the tensors in their order. */
void block_world_open(block_world *world, const weft_layout *layout, uint64_t seed, bool image);
void block_world_close(block_world *world);
void block_world_put(block_world *world, const uint8_t *dense);
void block_world_get(const block_world *world, uint8_t *dense);
/* Address of the dense byte `at`. */
uint8_t *block_world_at(const block_world *world, uint64_t at);
/* Whether nothing was written that is no weight. */
bool block_world_is_whole(const block_world *world);

#endif
