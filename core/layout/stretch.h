/* stretch.h - memory of a binding before it is cut into runs. Used by the files of bindings alone. */
#ifndef WEFT_CORE_STRETCH_H
#define WEFT_CORE_STRETCH_H

#include "layout/layout.h"

/* Coded elements of one tensor that lie side by side, or in the boxes of the tensor. */
typedef struct weft_stretch {
    uint64_t tensor;
    uint64_t first;
    uint64_t count;
    uint8_t *data; /* NULL: in boxes */
} weft_stretch;

/* Cuts stretches into the binding's runs, after neighbours in memory are joined. They cover every tensor, in order.
 * Closes the binding after an error. Errors: WEFT_E_MEMORY. */
weft_status weft_binding_fill(weft_binding *binding, weft_stretch *stretches, uint64_t count);

#endif
