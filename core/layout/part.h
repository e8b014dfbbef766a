/* part.h - parts, the smallest things with a digest: a tile, or a whole tensor of a pack.
 *
 * Parts are numbered in layout order. The parts of a tensor follow each other. A tensor without elements has one part,
 * of digest 0, so that the parts of a unit stand together too. The digest of a tensor is the sum of its parts' digests.
 */
#ifndef WEFT_CORE_PART_H
#define WEFT_CORE_PART_H

#include "layout/layout.h"

#define WEFT_PART_TEXT 176u /* holds any part's or range's name, its terminator too */

/* Counts the parts of a tensor, which begin at its entry's `part`. */
uint64_t weft_part_count(const weft_layout *layout, uint64_t tensor);
/* Returns the tensor that a part belongs to. */
uint64_t weft_part_tensor(const weft_layout *layout, uint64_t part);
/* Returns the first part of a unit, which has unit.tensor_count parts. */
uint64_t weft_part_of_unit(const weft_layout *layout, uint64_t unit);

/* Writes "tensor layers.3.w tile 2, elements 524288..786431", in elements of the dtype. A long name loses its
 * beginning.
 */
void weft_part_name(const weft_layout *layout, uint64_t part, char text[WEFT_PART_TEXT]);
/* Writes "tensor a tile 2 to tensor b tile 0", or the name of a single part. */
void weft_part_name_range(const weft_layout *layout, uint64_t first, uint64_t last, char text[WEFT_PART_TEXT]);
/* Counts the tensors with parts that differ, among `count` parts from `first` on, and writes the name of the first such
 * part. 0: no part differs, and `text` is empty. */
uint64_t weft_part_differs(const weft_layout *layout, uint64_t first, uint64_t count, const uint64_t *a,
                           const uint64_t *b, char text[WEFT_PART_TEXT]);

#endif
