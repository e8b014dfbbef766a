/* slice.h - boxes of tensors (weft_slice of weft.h): made, met, checked and named. */
#ifndef WEFT_CORE_SLICE_H
#define WEFT_CORE_SLICE_H

#include "layout/layout.h"

#define WEFT_SLICE_TEXT 224u /* holds any slice's name, its terminator too */

/* The slice that is all of a tensor. */
weft_slice weft_slice_whole(const weft_layout *layout, uint64_t tensor);

/* The elements that both have: a box of `rows` and `columns` 0 where there are none. */
weft_slice weft_slice_common(const weft_slice *a, const weft_slice *b);

/* Elements of a slice. It lies within its tensor, so that the number fits 64 bits. */
static inline uint64_t weft_slice_elements(const weft_slice *slice)
{
    return slice->rows * slice->columns;
}

/* Checks a slice from outside: its tensor is there, it lies within the tensor's rows and columns, and every row of it
 * fills whole bytes of a packed dtype. Errors: WEFT_E_LAYOUT, with tensor and box. */
weft_status weft_slice_check(const weft_layout *layout, const weft_slice *slice);

/* Order by tensor, then row, then column: as qsort wants it. */
int weft_slice_order(const void *left, const void *right);

/* "q_proj.weight, 512 rows from 0 of 4096, 4096 columns from 0 of 4096"; a long name loses its beginning. */
void weft_slice_name(const weft_layout *layout, const weft_slice *slice, char text[WEFT_SLICE_TEXT]);

#endif
