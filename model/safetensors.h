/* safetensors.h - safetensors files, mapped; used by tools and bench, never by core. */
#ifndef WEFT_MODEL_SAFETENSORS_H
#define WEFT_MODEL_SAFETENSORS_H

#include <stdbool.h>

#include "weft.h"

typedef struct weft_model weft_model;

/* Maps a model and checks all of its headers: JSON, dtypes, shapes, offsets that overlap, leave gaps, are out of range
 * or do not fit the shape, a header too long or cut short, a file that is cut short.
 *
 * A model is a safetensors file, or a folder (or its model.safetensors.index.json) with one file or several: *shards*.
 * The layout of a sharded model has the tensors file by file, the files in byte order of their names, within a file in
 * order of their data. Nothing is read but headers and the index, and those tensors that do not lie aligned to their
 * elements, as after a header that was not padded to 8 bytes: they are copied to memory. What the format's own reader
 * takes is taken (but for what no layout has: see weft_model_header_read).
 *
 * path      the file, the folder or the index
 * writable  1: private copy-on-write mapping, so that a rollout commits into memory and never into the file
 * model     receives it; give it back with weft_model_close
 * Errors: WEFT_E_FILE (cannot be opened or mapped), WEFT_E_LAYOUT (wrong content; the text says where), WEFT_E_MEMORY.
 */
weft_status weft_model_open(const char *path, int writable, weft_model **model);
void weft_model_close(weft_model *model);

/* Makes a model of zeros in memory for a layout (a rollout that starts empty); header as `attachment` sets it later. */
weft_status weft_model_create(const weft_layout *layout, weft_model **model);

/* The layout: tensors in order of their data offsets (ties of empty tensors: order in the header), or in the order that
 * the model took. Lives as long as the model. */
const weft_layout *weft_model_layout(const weft_model *model);
/* Gives the model the order of a layout that has the same tensors, so that both number them alike. The header stays.
 *
 * path    where the model was read from, for the text of an error
 * theirs  what the layout is of, for the text of an error
 * Errors: WEFT_E_LAYOUT (the text names the first tensors that differ), WEFT_E_MEMORY. */
weft_status weft_model_take_order(weft_model *model, const weft_layout *layout, const char *path, const char *theirs);
/* Pieces that bind the tensors in place: one per tensor. Lives as long as the model. */
const weft_piece *weft_model_pieces(const weft_model *model, uint64_t *count);
/* Returns the bytes that a version carries as its attachment: the raw header (8 length bytes and JSON) of a file. For a
 * sharded model these are the index and the headers of all files (docs/WIRE_FORMAT.md, Attachments of model files). */
const void *weft_model_header(const weft_model *model, uint64_t *bytes);

/* Makes sure that a mapped file was not cut short while it was read: compares size and times with those at open.
 * Errors: WEFT_E_FILE (the text names the file, of a sharded model the shard). */
weft_status weft_model_unchanged(const weft_model *model);

/* Whether all bytes of the mapped files were written. A file that was given its length first has none of them, and one
 * with holes has not all: both read as zeros there. Errors: WEFT_E_FILE, with the first such file and its figures. */
weft_status weft_model_written(const weft_model *model);

/* Writes headers and data to `path`: to a temporary name beside it, synced, then renamed, so that nothing half-written
 * ever stands under the final name; on any error the temporary is removed. With the attachment of a sharded model
 * `path` becomes a folder, which must not be there yet (or be empty).
 *
 * attachment  as weft_model_header gives it, checked against the model's layout
 * Errors: WEFT_E_FILE (with the reason: disk full and so on), WEFT_E_LAYOUT (it does not fit the tensors). */
weft_status weft_model_save(const weft_model *model, const void *attachment, uint64_t bytes, const char *path);

/* Where a model is put, and how. */
typedef struct weft_model_place {
    const char *path; /* of the file or the folder */
    const char *name; /* a model of one file becomes a folder that has the file by this name; NULL: a file at `path` */
    const char *earlier; /* a folder: what is equal to its files becomes hard links to these; NULL: none */
} weft_model_place;

/* The one file's name of a model that is a folder with one safetensors file and no index; false: it is none. */
bool weft_model_is_folder_of_one(const char *path, char name[256]);

/* Whether nothing is in the way of a folder of shards: nothing is there, or an empty folder, by a name of its own. */
bool weft_model_folder_fits(const char *path);

/* Whether what weft_model_save makes of an attachment, a file or a folder, could take the path's place: the folder that
 * it is to lie in is there and may be written to, and nothing is in the way. Errors: WEFT_E_FILE, WEFT_E_MEMORY. */
weft_status weft_model_save_check(const void *attachment, uint64_t bytes, const char *path);
weft_status weft_model_place_check(const void *attachment, uint64_t bytes, const weft_model_place *place);

/* The same for data that comes as a stream: every tensor's bytes in layout order, nothing in between. */
typedef struct weft_model_output weft_model_output;
weft_status weft_model_output_open(const weft_layout *layout, const void *attachment, uint64_t bytes, const char *path,
                                   weft_model_output **output);
weft_status weft_model_output_open_at(const weft_layout *layout, const void *attachment, uint64_t bytes,
                                      const weft_model_place *place, weft_model_output **output);
weft_status weft_model_output_write(weft_model_output *output, const void *data, uint64_t bytes);
/* The same for all that a model in memory has. */
weft_status weft_model_output_model(weft_model_output *output, const weft_model *model);
/* Where a folder is written, of a base that is one too, or its index: brings along what lies beside the base's weights,
 * such as config.json and the tokenizer, so that an engine loads the new folder as it is. Copies; of a file beyond 16
 * MiB a hard link, where the file system links. Regular files alone, without weights (in other formats too: *.bin,
 * *.pt,
 * *.pth, *.gguf, *.h5, *.msgpack), their indexes, hidden files and *.tmp. Errors: WEFT_E_FILE, WEFT_E_LAYOUT (the
 * base's index), WEFT_E_MEMORY: what came is there, and more may be written. */
weft_status weft_model_output_accompany(weft_model_output *output, const char *base);
/* Puts it in its place; the output is still to be closed. Errors: WEFT_E_LAYOUT (data are missing), WEFT_E_FILE. */
weft_status weft_model_output_finish(weft_model_output *output);
/* Removes what is not finished. NULL is allowed. */
void weft_model_output_close(weft_model_output *output);

#define WEFT_MODEL_GUARDED 4

/* Guards reads of mapped files: runs `body(user)`; if a page of these models' mappings cannot be read (a file shrank
 * under it: SIGBUS), the body goes on with zeros in its place, on whatever thread, and WEFT_E_FILE comes back instead
 * of its status, with the file named in its text: nothing that it made may be kept. Other faults go to the handler that
 * stood before. Threads: one guard at a time in the process (else WEFT_E_STATE). */
weft_status weft_model_guard(const weft_model *model, weft_status (*body)(void *user), void *user);
weft_status weft_model_guard_all(const weft_model *const *models, size_t count, weft_status (*body)(void *user),
                                 void *user);

#endif
