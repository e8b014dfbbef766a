/* model.h - what the files of safetensors_*.c, shards*.c and synth.c share; users include safetensors.h. */
#ifndef WEFT_MODEL_MODEL_H
#define WEFT_MODEL_MODEL_H

#include <stdbool.h>
#include <time.h>

#include "base/file.h"
#include "safetensors.h"

#define WEFT_MODEL_HEADER_MAX UINT64_C(100000000) /* JSON bytes: the format's own limit */
#define WEFT_MODEL_PREFIX     8u                  /* u64 length before the JSON */
#define WEFT_MODEL_INDEX      "model.safetensors.index.json"

/* One file as an attachment describes it. */
typedef struct weft_shard {
    char *name;            /* in the folder; NULL: the model is this one file */
    const uint8_t *header; /* raw; lies in the attachment */
    uint64_t header_bytes;
    uint64_t data_bytes;
    uint64_t tensors;
} weft_shard;

/* An attachment's content: the files, their tensors in one layout. */
typedef struct weft_shards {
    weft_layout *layout;
    weft_shard *items;
    uint64_t count;
    char *index_name; /* of the index file; NULL: the model is one file */
    const uint8_t *index;
    uint64_t index_bytes;
} weft_shards;

/* A file that is mapped. */
typedef struct weft_mapped {
    int file;
    char *path; /* as it was opened, for messages */
    uint64_t bytes;
    uint64_t header_bytes;
    uint64_t offset; /* in the model's memory: whole pages */
    struct timespec modified;
} weft_mapped;

struct weft_model {
    weft_layout *layout;
    weft_piece *pieces; /* one per tensor */
    uint8_t *header;    /* the attachment, owned; NULL: none yet */
    uint64_t header_bytes;
    uint8_t *memory; /* the mapped files one after the other, or weft_mem_map's */
    uint64_t memory_bytes;
    uint8_t *moved; /* copies of tensors that their files have misaligned; NULL: none */
    uint64_t moved_bytes;
    bool writable;
    weft_mapped *files;
    uint64_t file_count; /* 0: not mapped from files */
};

/* Reads a raw header of `bytes` bytes and checks all that can be checked without the data: the JSON, the tensors, and
 * that their offsets lie one after the other from 0 on without overlap or gap. What the format's own reader takes is
 * taken, but for names that no layout has (of 0 or more than 511 bytes, or with a zero byte), more than 16 sizes and
 * sizes above 2^63 - 1: blanks in front and any length, no alignment; of a name that is there twice the last counts.
 *
 * layout      receives the tensors in order of their data; the caller frees it
 * data_bytes  receives where the last tensor ends
 * Errors: WEFT_E_LAYOUT, WEFT_E_MEMORY. */
weft_status weft_model_header_read(const uint8_t *header, uint64_t bytes, weft_layout **layout, uint64_t *data_bytes);

/* Makes the raw header of a layout as the format's own writer would: compact JSON padded with spaces to 8 bytes.
 * *header comes from weft_mem_take. Errors: WEFT_E_LAYOUT (a name that is no UTF-8), WEFT_E_MEMORY. */
weft_status weft_model_header_make(const weft_layout *layout, uint8_t **header, uint64_t *bytes);

/* The first mapped file that lost pages, NULL if none did: what a guard once replaced by zeros raises no fault any
 * more.
 */
const weft_mapped *weft_model_shrunk(const weft_model *model);
/* Reads exactly `bytes` at `offset`; a file that ends before is cut short, inside its `where`. Errors: WEFT_E_FILE,
 * WEFT_E_LAYOUT. */
weft_status weft_mapped_read(const weft_mapped *mapped, void *out, uint64_t bytes, uint64_t offset, const char *where);
/* Gives each tensor whose piece is not aligned to its elements memory of its own, with the file's bytes. Errors:
 * WEFT_E_MEMORY, as weft_mapped_read. */
weft_status weft_model_align(weft_model *model, const weft_shards *shards);
/* Whether a mapped file is as it was at open. Errors: WEFT_E_FILE, naming it. */
weft_status weft_mapped_unchanged(const weft_mapped *mapped);

/* Reads and checks an attachment, which may come from anywhere: a raw header, or several in a sharded model's form
 * (docs/WIRE_FORMAT.md, Attachments of model files). `shards` borrows its bytes. Errors: WEFT_E_LAYOUT, WEFT_E_MEMORY.
 */
weft_status weft_shards_read(const uint8_t *attachment, uint64_t bytes, weft_shards *shards);
/* Whether it has a sharded model's form. */
bool weft_shards_are_many(const uint8_t *attachment, uint64_t bytes);
void weft_shards_close(weft_shards *shards);
/* Whether a file of a sharded model may have this name: names become files, and nothing may lead out of the folder or
 * hide in it. */
bool weft_shards_name_fits(const char *name);

/* Makes a sharded model's attachment; *attachment comes from weft_mem_take. `items` need name, header, header_bytes. */
weft_status weft_shards_write(const weft_shards *shards, uint8_t **attachment, uint64_t *bytes);

/* A sharded model on disk: the folder, its index and the files that this names, in order of their names. */
typedef struct weft_folder {
    char *path;       /* of the folder, with its slash; "" here */
    char *index_name; /* NULL: the model is files[0] alone */
    uint8_t *index;
    uint64_t index_bytes;
    char **files;
    uint64_t file_count;
    bool searched; /* without an index: files[0] was found in the folder, nobody named it */
    void *map;     /* the index's weight_map */
} weft_folder;

/* Finds out what `path` is: a file, a folder or an index. Errors: WEFT_E_FILE, WEFT_E_LAYOUT, WEFT_E_MEMORY. */
weft_status weft_folder_open(const char *path, weft_folder *folder);
/* The index names exactly the tensors of the files, each in the file that has it. Errors: WEFT_E_LAYOUT. */
weft_status weft_folder_check(const weft_folder *folder, const weft_shards *shards);
/* A tensor that lies in this file, as the index says; NULL: none. */
const char *weft_folder_tensor(const weft_folder *folder, const char *file);
void weft_folder_close(weft_folder *folder);

/* Brings what lies beside the weights of the model at `path`, a folder or its index, into a new folder for `made`: its
 * regular files and links to such, but weights in any format, their indexes, what is hidden and *.tmp; no folders in
 * it. What is equal to a file of `earlier` (NULL: none) becomes a link to that. A path to a file brings nothing.
 * Errors: WEFT_E_FILE, those of weft_folder_open. */
weft_status weft_companions_bring(const char *path, const weft_shards *made, const char *folder, const char *earlier);

/* A file of an earlier folder, beside which bytes are held that are to be written. */
typedef struct weft_earlier {
    int file;      /* -1: none, or the bytes differ */
    char *path;    /* of it */
    uint64_t same; /* bytes that are equal so far, from the first on */
} weft_earlier;

/* Opens the file of that name in `folder` (NULL: none) if it has so many bytes. */
void weft_earlier_open(const char *folder, const char *name, uint64_t bytes, weft_earlier *earlier);
/* Whether the next bytes are equal too. */
bool weft_earlier_is(weft_earlier *earlier, const void *data, uint64_t bytes);
/* Writes the bytes that were equal. Errors: WEFT_E_FILE. */
weft_status weft_earlier_copy(const weft_earlier *earlier, weft_file *file);
/* Makes a hard link to it. Returns false where the file system makes none. */
bool weft_earlier_link(const weft_earlier *earlier, const char *path);
void weft_earlier_close(weft_earlier *earlier);
/* Makes a hard link `to` to the file of that name in `folder` (NULL: none) if that is equal to the file `from`. */
bool weft_earlier_stand_in(const char *folder, const char *name, const char *from, const char *to);

/* Whether a folder could take the path's place. Errors: WEFT_E_FILE. */
weft_status weft_model_folder_check(const char *path);

/* Why a file did not open, from errno. */
const char *weft_model_unopened(const char *path);

#endif
