/* naming.h - weights as a caller names them: by pieces or by blocks, of tensors by the caller's own numbers. */
#ifndef WEFT_CORE_NAMING_H
#define WEFT_CORE_NAMING_H

#include "shard/division.h"

typedef struct weft_naming {
    const char *call;
    const weft_piece *pieces;
    const weft_block *blocks;
    uint64_t count;
} weft_naming;

/* Copies what is named, by the numbers of a division's model; NULL: by the caller's own. The caller gives it back with
 * weft_naming_give. Errors: WEFT_E_MEMORY. */
weft_status weft_naming_copy(const weft_naming *by, const weft_division *division, weft_naming *made);
void weft_naming_give(weft_naming *made);
/* Binds the layout of a division. Errors: those of weft_division_bind, weft_binding_open, weft_binding_open_blocks. */
weft_status weft_naming_bind(const weft_division *division, const weft_naming *by, bool beyond, weft_binding *fresh);

#endif
