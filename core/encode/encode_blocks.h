/* encode_blocks.h - a pass over weights that come about block by block, because no memory holds both ends whole: first
 * the parameters, from a sample of the blocks, then the frames of all. */
#ifndef WEFT_CORE_ENCODE_BLOCKS_H
#define WEFT_CORE_ENCODE_BLOCKS_H

#include "encode/encode.h"

typedef struct weft_encode_blocks {
    weft_encoder *encoder;  /* with a backend of depth 1 */
    weft_encode_pass *pass; /* both ends, with `parameters` as its parameters */
    weft_parameters *parameters;
    uint32_t shift; /* blocks are runs of 2^shift units, or longer */
    /* Makes both ends of a block stand; at unit 0 a walk begins. `wanted` false: the block is passed over. *any, which
     * is true before, receives whether anything may differ there. */
    weft_status (*stand)(void *user, uint64_t unit, uint32_t units, bool wanted, bool *any);
    /* NULL, or told of each block that was worked on. Another status than WEFT_OK ends the walk. */
    weft_status (*moved)(void *user, uint64_t end);
    void *user;
} weft_encode_blocks;

/* Chooses the parameters: the survey is of one block in eight, or of more where these are few. Blocks are then at least
 * as long as the runs of the parameters. */
weft_status weft_encode_blocks_choose(weft_encode_blocks *blocks);
/* Encodes all blocks; `pass` sums up. */
weft_status weft_encode_blocks_run(const weft_encode_blocks *blocks);

#endif
