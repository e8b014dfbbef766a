/* layout_match.h - the tensors of two layouts, matched by name: how their numbers correspond, or how they differ. */
#ifndef WEFT_CORE_LAYOUT_MATCH_H
#define WEFT_CORE_LAYOUT_MATCH_H

#include "layout/layout.h"

#define WEFT_MATCH_TEXT 256u /* bytes of a text about a difference, as a notice takes them */

/* Tensors of one end, and the name of that end in a text. */
typedef struct weft_match_side {
    const char *name;
    const void *first; /* the first weft_tensor; the next one lies `stride` bytes further */
    uint64_t stride, count;
} weft_match_side;

/* Returns the side of a layout. */
weft_match_side weft_match_layout(const char *name, const weft_layout *layout);

/* Matches the tensors of two sides by name, dtype and shape.
 *
 * order  receives the other side's number of each tensor of `mine`; NULL: not wanted
 * text   receives how the sides differ, and what would mend that
 * Time grows with n log n, memory with n; nothing of a tensor but its name, dtype and shape is looked at. Errors, all
 * quiet: WEFT_E_LAYOUT (they differ), WEFT_E_MEMORY. */
weft_status weft_match_by_name(const weft_match_side *mine, const weft_match_side *theirs, uint64_t *order,
                               char text[WEFT_MATCH_TEXT]);

/* Copies pieces of a layout, by the numbers that another layout of the same tensors has. The caller gives the copy back
 * with weft_mem_give. `mine` and `theirs` name the two in an error. Errors, all quiet: WEFT_E_LAYOUT (their tensors
 * differ), WEFT_E_MEMORY. */
weft_status weft_match_pieces(const weft_match_side *mine, const weft_match_side *theirs, const weft_piece *pieces,
                              uint64_t count, weft_piece **renumbered);

#endif
