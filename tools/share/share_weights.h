/* share_weights.h - the view of a rollout command: the share of a file, of the trainer's model, and memory for it. */
#ifndef WEFT_TOOLS_SHARE_WEIGHTS_H
#define WEFT_TOOLS_SHARE_WEIGHTS_H

#include "model/share_file.h"
#include "tools/serve/weights.h"

typedef struct weft_share_weights {
    weft_layout *model; /* the trainer's; NULL: closed */
    weft_share_file file;
    weft_share share;
    weft_block *blocks; /* memory of each slice; NULL: no weights yet */
} weft_share_weights;

/* Reads a share file, and makes its slices of a model; without a path of all of the model. The caller gives them back
 * with weft_share_weights_close, also after an error. Errors: those of weft_share_file_open and weft_share_open, with
 * the path. */
weft_status weft_share_weights_open(const char *path, const weft_layout *model, weft_share_weights *own);
/* Loads the view's slice file, or without a path takes memory that a snapshot fills. The header is that of the slice
 * file. The weights outlive what is named here. Errors: WEFT_E_LAYOUT (the file is not what the share says), those of
 * weft_weights_open and weft_weights_create. */
weft_status weft_share_weights_take(weft_share_weights *own, const char *path, weft_weights *weights);
void weft_share_weights_close(weft_share_weights *own);

#endif
