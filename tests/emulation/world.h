/* world.h - a random layout, of one dtype as a rule, with base and target bits: the base as an image, the target in
 * pieces that are cut anywhere and aligned to the element alone. */
#ifndef WEFT_TESTS_EMULATION_WORLD_H
#define WEFT_TESTS_EMULATION_WORLD_H

#include "layout/layout.h"

#define WORLD_TENSORS 320u
#define WORLD_PIECES  (8u * WORLD_TENSORS)

typedef struct emulation_world {
    weft_layout *layout;
    uint8_t *base, *target; /* memory of both bindings */
    weft_binding shadow, now;
    uint64_t seed;
} emulation_world;

/* The properties of a world. */
typedef struct world_kind {
    weft_dtype dtype;
    uint32_t tensors;  /* at most WORLD_TENSORS */
    uint32_t elements; /* of a tensor, at most */
    uint32_t pieces;   /* of a tensor, at most 8 */
    bool equal;        /* all tensors have so many elements */
    bool mixed;        /* every other tensor is of U8: none is in a pack with its neighbour */
} world_kind;

/* Steps that change elements. */
typedef struct world_change {
    uint32_t per_million; /* elements that change */
    uint32_t wild;        /* of 100 changes, those that become any bits; the others move by few steps */
    uint32_t clusters;    /* changes stand together in stretches of so many; 0: anywhere */
} world_change;

uint64_t world_draw(emulation_world *world, uint64_t limit);
void world_make(emulation_world *world, const world_kind *kind, uint64_t seed);
void world_drop(emulation_world *world);
/* Target bits are base bits, but for what changes. */
void world_step(emulation_world *world, const world_change *change);

#endif
