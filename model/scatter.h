/* scatter.h - a model that comes in one order of tensors and is written in another: every file of it is open at once.
 */
#ifndef WEFT_MODEL_SCATTER_H
#define WEFT_MODEL_SCATTER_H

#include "base/file.h"
#include "model.h"

/* Where the bytes of a tensor go. */
typedef struct weft_scatter_place {
    uint64_t shard, offset, bytes;
} weft_scatter_place;

typedef struct weft_scatter {
    weft_scatter_place *places; /* in the order in which tensors come; NULL: they come in the order of the files */
    uint64_t count, at, done;   /* tensors; the one that comes, and how much of it came */
    weft_file *files;           /* one for each shard */
    uint64_t file_count;
} weft_scatter;

/* Finds the place of each tensor of `layout` in the files that `shards` describes. Errors: WEFT_E_LAYOUT (they describe
 * other tensors, which the text names), WEFT_E_MEMORY. */
weft_status weft_scatter_open(weft_scatter *scatter, const weft_layout *layout, const weft_shards *shards);
/* Writes the bytes that come next. Errors: WEFT_E_LAYOUT (more than the tensors have), WEFT_E_FILE. */
weft_status weft_scatter_write(weft_scatter *scatter, const uint8_t *data, uint64_t bytes);
/* Counts the bytes that are still to come. */
uint64_t weft_scatter_left(const weft_scatter *scatter);
/* Puts each file in its place. Errors: WEFT_E_FILE. */
weft_status weft_scatter_finish(weft_scatter *scatter);
/* Removes what is not finished. A record that is all zero may be closed too. */
void weft_scatter_close(weft_scatter *scatter);

#endif
