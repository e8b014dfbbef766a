/* slice.h - boxes of tensors (weft_slice of weft.h): made, met, checked and named. */
#ifndef WEFT_CORE_SLICE_H
#define WEFT_CORE_SLICE_H

#include "layout/layout.h"

#define WEFT_SLICE_TEXT 224u /* holds any slice's name, its terminator too */

/* Returns the slice that is all of a tensor. */
weft_slice weft_slice_whole(const weft_layout *layout, uint64_t tensor);

/* Returns the elements that both slices have. `rows` and `columns` are 0 if there are none. */
weft_slice weft_slice_common(const weft_slice *a, const weft_slice *b);

/* Counts the elements of a slice that lies within its tensor. */
static inline uint64_t weft_slice_elements(const weft_slice *slice)
{
    return slice->rows * slice->columns;
}

/* Checks a slice from outside: the slice lies within a tensor of the layout, and every row fills whole bytes of a
 * packed dtype. Errors: WEFT_E_LAYOUT, with tensor and box. */
weft_status weft_slice_check(const weft_layout *layout, const weft_slice *slice);

/* Compares by tensor, then row, then column, for qsort. */
int weft_slice_order(const void *left, const void *right);

/* Writes "q_proj.weight, 512 rows from 0 of 4096, 4096 columns from 0 of 4096". A long name loses its beginning. */
void weft_slice_name(const weft_layout *layout, const weft_slice *slice, char text[WEFT_SLICE_TEXT]);

#endif
