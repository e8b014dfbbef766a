/* part.h - what one unit has of one tensor: a tile, or a whole tensor of a pack. The smallest thing with a digest.
 *
 * Parts are numbered in layout order: those of a tensor one behind the other, and one (with the digest 0) for a tensor
 * without elements, so that the parts of a unit stand together too. A tensor's digest is the sum of its parts'. */
#ifndef WEFT_CORE_PART_H
#define WEFT_CORE_PART_H

#include "layout/layout.h"

#define WEFT_PART_TEXT 176u /* holds any part's or range's name, its terminator too */

/* Parts of a tensor; they begin at its entry's `part`. */
uint64_t weft_part_count(const weft_layout *layout, uint64_t tensor);
/* The tensor that a part belongs to. */
uint64_t weft_part_tensor(const weft_layout *layout, uint64_t part);
/* The first part of a unit. It has unit.tensor_count of them. */
uint64_t weft_part_of_unit(const weft_layout *layout, uint64_t unit);

/* "tensor layers.3.w tile 2, elements 524288..786431", in elements of the dtype; a long name loses its beginning. */
void weft_part_name(const weft_layout *layout, uint64_t part, char text[WEFT_PART_TEXT]);
/* "tensor a tile 2 to tensor b tile 0"; of one part its name. */
void weft_part_name_range(const weft_layout *layout, uint64_t first, uint64_t last, char text[WEFT_PART_TEXT]);
/* The name of the part from `first` to `first + count - 1` whose words differ first, and how many tensors have such;
 * 0: none, and no name. */
uint64_t weft_part_differs(const weft_layout *layout, uint64_t first, uint64_t count, const uint64_t *a,
                           const uint64_t *b, char text[WEFT_PART_TEXT]);

#endif
