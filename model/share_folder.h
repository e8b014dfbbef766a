/* share_folder.h - a folder with all shares of one model: rank-R-of-N.json and rank-R-of-N.safetensors for each rank,
 * and model.header, from which the whole model's files come again. */
#ifndef WEFT_MODEL_SHARE_FOLDER_H
#define WEFT_MODEL_SHARE_FOLDER_H

#include "safetensors.h"
#include "shard/share.h"

#define WEFT_SHARE_RANKS_MOST 4096u

/* The slice file of one rank, when written. */
typedef struct weft_share_put {
    uint64_t tensors; /* tensors of the slice file */
    uint64_t bytes;   /* bytes of these tensors */
} weft_share_put;

/* A folder that is being written, under another name until it is whole. */
typedef struct weft_share_folder {
    const weft_model *model; /* borrowed */
    char *path;              /* the final name */
    char *temporary;         /* NULL: there is no folder */
    uint64_t ranks;
} weft_share_folder;

/* Begins a folder by a name that is free, or an empty folder's. The caller gives it back with weft_share_folder_close.
 * Errors: WEFT_E_FILE, WEFT_E_MEMORY. */
weft_status weft_share_folder_begin(weft_share_folder *folder, const char *path, const weft_model *model,
                                    uint64_t ranks);
/* Writes share file and slice file of one rank. Errors: those of weft_share_open and weft_slices_save. */
weft_status weft_share_folder_put(const weft_share_folder *folder, uint64_t rank, const weft_share_rule *rules,
                                  uint64_t count, weft_share_put *put);
/* Writes a file of bytes into the folder. Errors: WEFT_E_FILE. */
weft_status weft_share_folder_write(const weft_share_folder *folder, const char *name, const void *data,
                                    uint64_t bytes);
/* Puts the folder in its place. Errors: WEFT_E_FILE. */
weft_status weft_share_folder_finish(weft_share_folder *folder);
/* Removes a folder that is not finished. */
void weft_share_folder_close(weft_share_folder *folder);

/* Writes the name of a rank's file. `ending` is "json" or "safetensors". */
#define WEFT_SHARE_NAME 64u
void weft_share_name(uint64_t rank, uint64_t ranks, const char *ending, char name[WEFT_SHARE_NAME]);

/* The shares of a folder, opened and proved to be one model. */
typedef struct weft_share_set weft_share_set;

/* Opens a folder, which may come from anywhere. Errors: WEFT_E_FILE (a file is missing or cannot be read),
 * WEFT_E_LAYOUT (a file is another model's, or shares leave something out or contribute something twice: the text says
 * what), WEFT_E_MEMORY. */
weft_status weft_share_set_open(const char *path, weft_share_set **set);
void weft_share_set_close(weft_share_set *set);
/* Returns the number of ranks. */
uint64_t weft_share_set_ranks(const weft_share_set *set);
/* Checks that the whole model could be put at `path`. Errors: WEFT_E_FILE. */
weft_status weft_share_set_check(const weft_share_set *set, const char *path);
/* Writes the whole model: whole, or not at all.
 *
 * wanted  asked before each tensor; another status than WEFT_OK ends the work
 * bytes   receives the bytes of all tensors
 * Errors: WEFT_E_LAYOUT (replicas differ), WEFT_E_FILE, WEFT_E_MEMORY, those of wanted. */
weft_status weft_share_set_join(weft_share_set *set, const char *path, weft_status (*wanted)(void), uint64_t *bytes);

#endif
