/* weights.h - a model in memory of its own, loaded from safetensors files: in the host's, or a device's where the
 * site's backend works on one.
 *
 * A mapped file that is cut short takes its pages away even from a private mapping, so what a session binds is a copy:
 * files are mapped only while they are copied, under the guard, and checked afterwards. */
#ifndef WEFT_TOOLS_WEIGHTS_H
#define WEFT_TOOLS_WEIGHTS_H

#include "model/safetensors.h"
#include "tools/serve/device_weights.h"

typedef struct weft_weights {
    const weft_gpu_driver *driver; /* of the device that they lie on; NULL: host memory */
    int device;                    /* -1: the current one */
    weft_layout *layout;           /* NULL: closed */
    char *path;                    /* of the file or folder loaded first; NULL: none */
    weft_model *host;
    weft_device_weights *far;
    weft_model *file; /* opened, to be read; NULL: none */
    void *header;     /* raw header of the file loaded last; NULL: none */
    uint64_t header_bytes;
} weft_weights;

/* Sets where weights are to lie: with the backend that the site names for a peer, or for the trainer (NULL). `weights`
 * must be all zero; without this call they lie in host memory. */
void weft_weights_place(const weft_site *site, const char *peer, weft_weights *weights);

/* Copies a file's weights and header. weft_weights_close gives them back. Errors: WEFT_E_LAYOUT, WEFT_E_FILE,
 * WEFT_E_MEMORY, the driver's. */
weft_status weft_weights_open(const char *path, weft_weights *weights);

/* The same in two steps: from the first on the layout is known and the memory taken, the second reads the weights. */
weft_status weft_weights_begin(const char *path, weft_weights *weights);
weft_status weft_weights_fill(const char *path, weft_weights *weights);

/* Takes memory for a layout that is to be filled by a snapshot. */
weft_status weft_weights_create(const weft_layout *layout, weft_weights *weights);

/* Copies another file of the same layout over the weights. After an error the weights are undefined (a file that was
 * cut short in the middle), the header is the old one: do not publish. Errors: WEFT_E_LAYOUT, WEFT_E_FILE, the
 * driver's. */
weft_status weft_weights_load(weft_weights *weights, const char *path);

/* Pieces that bind the tensors: one per tensor, in layout order. */
const weft_piece *weft_weights_pieces(const weft_weights *weights, uint64_t *count);

/* Writes the weights to a file or a folder, under the header that is given or, if that is empty, their own; as
 * weft_model_save. Saving a folder also copies the other files of the folder that the weights were first loaded from; a
 * file that cannot be copied gives a warning. If that folder had one file, a path that does not end in .safetensors
 * becomes a folder.
 */
weft_status weft_weights_save(const weft_weights *weights, const void *header, uint64_t bytes, const char *path);
/* The same at a place. */
weft_status weft_weights_save_at(const weft_weights *weights, const void *header, uint64_t bytes,
                                 const weft_model_place *place);

/* Whether what weft_weights_save would write, a file or a folder, could take the path's place. Errors: WEFT_E_FILE. */
weft_status weft_weights_save_check(const weft_weights *weights, const void *header, uint64_t bytes, const char *path);

void weft_weights_close(weft_weights *weights);

#endif
