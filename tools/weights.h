/* weights.h - a model in memory of its own, loaded from safetensors files.
 *
 * A mapped file that is cut short takes its pages away even from a private mapping, so what a session binds is a copy:
 * files are mapped only while they are copied, under the guard, and checked afterwards. */
#ifndef WEFT_TOOLS_WEIGHTS_H
#define WEFT_TOOLS_WEIGHTS_H

#include "model/safetensors.h"

typedef struct weft_weights {
    weft_model *model; /* NULL: closed */
    void *header;      /* raw header of the file loaded last; NULL: none */
    uint64_t header_bytes;
} weft_weights;

/* Copies a file's weights and header. `weights` must be all zero; weft_weights_close gives them back. */
weft_status weft_weights_open(const char *path, weft_weights *weights);

/* Takes zeros of a layout. */
weft_status weft_weights_create(const weft_layout *layout, weft_weights *weights);

/* Copies another file of the same layout over the weights. After an error the weights are undefined (a file that was
 * cut short in the middle), the header is the old one: do not publish. Errors: WEFT_E_LAYOUT, WEFT_E_FILE. */
weft_status weft_weights_load(weft_weights *weights, const char *path);

/* Says which tensor of the file at `path` is the first to differ from those of the first model. Returns WEFT_E_LAYOUT.
 */
weft_status weft_weights_differ(const char *path, const weft_layout *bound, const weft_layout *file);

void weft_weights_close(weft_weights *weights);

#endif
