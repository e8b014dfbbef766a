/* coded_piece.h - memory of a binding before units cut it into runs. Only the files of bindings use this header. */
#ifndef WEFT_CORE_CODED_PIECE_H
#define WEFT_CORE_CODED_PIECE_H

#include "layout/layout.h"

/* Coded elements of one tensor that lie side by side, or in the boxes of the tensor. */
typedef struct weft_coded_piece {
    uint64_t tensor;
    uint64_t first;
    uint64_t count;
    uint8_t *data; /* address of the first; NULL: the elements lie in boxes */
} weft_coded_piece;

/* Joins pieces that are neighbours in memory, and cuts them into the binding's runs. The pieces cover every tensor, in
 * order. The binding is closed after an error. Errors: WEFT_E_MEMORY. */
weft_status weft_binding_fill(weft_binding *binding, weft_coded_piece *pieces, uint64_t count);

#endif
