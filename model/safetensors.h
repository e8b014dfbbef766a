/* safetensors.h - safetensors files, mapped; used by tools and bench, never by core. */
#ifndef WEFT_MODEL_SAFETENSORS_H
#define WEFT_MODEL_SAFETENSORS_H

#include "weft.h"

typedef struct weft_model weft_model;

/* Maps a safetensors file and checks all of its header: JSON, dtypes, shapes, offsets that overlap, leave gaps, are out
 * of range or do not fit the shape, a header too long or cut short, a file that is cut short.
 *
 * path      the file
 * writable  1: private copy-on-write mapping, so that a rollout commits into memory and never into the file
 * model     receives it; give it back with weft_model_close
 * Errors: WEFT_E_FILE (cannot be opened or mapped), WEFT_E_LAYOUT (wrong content; the text says where), WEFT_E_MEMORY.
 */
weft_status weft_model_open(const char *path, int writable, weft_model **model);
void weft_model_close(weft_model *model);

/* Makes a model of zeros in memory for a layout (a rollout that starts empty); header as `attachment` sets it later. */
weft_status weft_model_create(const weft_layout *layout, weft_model **model);

/* The layout: tensors in order of their data offsets (ties of empty tensors: order in the header). Lives as long as the
 * model. */
const weft_layout *weft_model_layout(const weft_model *model);
/* Pieces that bind the tensors in place: one per tensor. Lives as long as the model. */
const weft_piece *weft_model_pieces(const weft_model *model, uint64_t *count);
/* The raw header: the 8 length bytes and the JSON text behind them; what a version carries as its attachment. */
const void *weft_model_header(const weft_model *model, uint64_t *bytes);

/* Makes sure that a mapped file was not cut short while it was read: compares size and times with those at open.
 * Errors: WEFT_E_FILE. */
weft_status weft_model_unchanged(const weft_model *model);

/* Writes header and data to `path`: to a temporary name beside it, synced, then renamed, so that nothing half-written
 * ever stands under the final name; on any error the temporary is removed.
 *
 * header, header_bytes  raw header (8 length bytes and JSON), checked against the model's layout
 * Errors: WEFT_E_FILE (with the reason: disk full and so on), WEFT_E_LAYOUT (the header does not fit the tensors). */
weft_status weft_model_save(const weft_model *model, const void *header, uint64_t header_bytes, const char *path);

/* Guards reads of mapped files: runs `body(user)`; if a page of this model's mapping cannot be read (the file shrank
 * under it: SIGBUS) returns WEFT_E_FILE instead of dying. The body is then left by a jump from the middle of its read:
 * what it had locked or taken stays so; after that, report and exit. Only reads on the calling thread are guarded;
 * other faults go to the handler that stood before. Threads: one guard at a time in the process (else WEFT_E_STATE). */
weft_status weft_model_guard(const weft_model *model, weft_status (*body)(void *user), void *user);

#endif
