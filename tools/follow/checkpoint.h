/* checkpoint.h - a checkpoint on disk as others write it: a safetensors file, or a folder of such files. */
#ifndef WEFT_TOOLS_CHECKPOINT_H
#define WEFT_TOOLS_CHECKPOINT_H

#include <stdbool.h>
#include <sys/stat.h>

#include "weft.h"

/* What changes when the weights do. Of a folder its weights and their index count, and nothing that lies beside. */
typedef struct weft_look {
    struct stat self;        /* the file, or the folder itself */
    struct timespec changed; /* the last of all */
    uint64_t inodes, bytes;  /* sums */
    uint64_t missing;        /* bytes that have no block on the disk */
    uint64_t weights;        /* files of weights */
    uint64_t others;         /* whatever else is in a folder */
    bool folder;
    bool parted; /* shards without their index */
    bool marked; /* its writer says that the folder is whole: it has a file STABLE or .done */
} weft_look;

/* Looks at a name in an open directory. Returns false, with errno, if there is nothing that can be looked at. */
bool weft_look_at(int directory, const char *name, weft_look *look);
/* Whether two looks saw the same weights. `missing` counts if asked, because some file systems tell it late. */
bool weft_look_same(const weft_look *a, const weft_look *b, bool missing);

/* Whether a file of this name may be a checkpoint: *.safetensors that is not hidden. */
bool weft_checkpoint_is_file(const char *name);
/* Whether what was seen may be a checkpoint: *.safetensors, or a folder that has weights, or a number and something in
 * it; nothing hidden or named as unfinished. */
bool weft_checkpoint_is(const char *name, const weft_look *look);
/* Why such a one is no checkpoint that comes in an order; NULL: it is one. */
const char *weft_checkpoint_unfit(const char *name, const weft_look *look);
/* Whether every byte that the headers announce, of all files that the index names, was written. Errors: those of
 * weft_model_open and weft_model_written. */
weft_status weft_checkpoint_whole(const char *path);

#endif
